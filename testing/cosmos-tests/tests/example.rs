//! The example of many processes, on a container: two of them at once, as if in two terminals.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, dead_code)]

#[path = "../../../crates/perennial/examples/many_processes.rs"]
mod many_processes;

use perennial_cosmos::{Account, Settings, Throughput};
use perennial_cosmos_server::{Options, Server};

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_add_the_same_squares_up() {
    let server = Server::start(Options::default()).await.unwrap();
    let endpoint = server.endpoint();
    let address = endpoint.trim_start_matches("http://").trim_end_matches('/');
    let url = format!("cosmos+http://{address}/db/perennial");
    let account = Account::parse(&url).unwrap().with_key(server.key());
    perennial_cosmos::init(&account, Throughput::Serverless, &Settings::default())
        .await
        .unwrap();
    let (one, other) = tokio::join!(many_processes::run(&url), many_processes::run(&url));
    assert_eq!((one.unwrap(), other.unwrap()), (2_870, 2_870));
}

//! Serves until it is interrupted, for programs that want an account to talk to:
//!
//! ```text
//! cargo run -p perennial-cosmos-server --example serve -- 8081
//! ```

use perennial_cosmos_server::{Options, Server};
use std::io;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let port = match std::env::args().nth(1) {
        Some(text) => text
            .parse()
            .map_err(|_| io::Error::other(format!("'{text}' is no port: give a number, or nothing for a free one")))?,
        None => 0,
    };
    let server = Server::start(Options {
        port,
        partitions: 32,
        ..Options::default()
    })
    .await?;
    println!("AccountEndpoint={};AccountKey={}", server.endpoint(), server.key());
    std::future::pending().await
}

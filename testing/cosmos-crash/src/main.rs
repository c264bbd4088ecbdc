//! A worker to be killed and frozen: `perennial-cosmos-crash <url> <ledger> <milliseconds that its clock is ahead>`.

use perennial_cosmos_crash::Failure;
use perennial_cosmos_crash::worker::{Orders, live};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    const USAGE: &str = "usage: perennial-cosmos-crash <url of the store> <path of the ledger> <ms ahead>";
    let mut arguments = std::env::args().skip(1);
    let orders = Orders {
        url: arguments.next().ok_or(USAGE)?,
        ledger: arguments.next().ok_or(USAGE)?.into(),
        ahead_ms: arguments.next().ok_or(USAGE)?.parse()?,
    };
    live(orders).await
}

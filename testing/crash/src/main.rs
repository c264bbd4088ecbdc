//! A process to be killed: `perennial-crash <url> <ledger> <input bytes> [--finish]`.

use perennial_crash::Failure;
use perennial_crash::victim::{Orders, live};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    const USAGE: &str = "usage: perennial-crash <url of the store> <path of the ledger> <bytes of an input> [--finish]";
    let mut arguments = std::env::args().skip(1);
    let orders = Orders {
        url: arguments.next().ok_or(USAGE)?,
        ledger: arguments.next().ok_or(USAGE)?.into(),
        input_bytes: arguments.next().ok_or(USAGE)?.parse()?,
        finish: match arguments.next().as_deref() {
            None => false,
            Some("--finish") => true,
            Some(_) => return Err(USAGE.into()),
        },
    };
    live(orders).await
}

//! `perennial demo`: order workflows that survive interruption, with the numbers that prove it.

mod activities;
mod fresh;
mod histories;
mod ledger;
mod order;
mod progress;
mod proof;
mod report;
mod run;
mod workflows;

use crate::error::{CliError, EXIT_CODES};
use crate::output::Output;
use crate::stores::OpenStore;
use clap::Args;

const EXAMPLES: &str = "\
Each order reserves stock, charges a payment service that is sometimes down (and is tried again), packs its lines
in parallel, waits a moment, ships by a sub-workflow that waits for a courier's answer, and is undone step by step
if the courier refuses. Every step first writes its start to a ledger, records of the demo's own beside the workflows;
at the end the ledger is held against the workflow histories, and the command fails if a finished step ran twice.

Examples:
  Run 300 orders on ./perennial-data:
      perennial demo
  Stop it half-way, as rudely as you like, and go on:
      perennial demo & sleep 3; kill -9 $!
      perennial demo
  More orders, as fast as the store allows:
      perennial demo --workflows 2000 --step-ms 0
  Without a disk:
      perennial demo --store memory:
  In Azure Cosmos DB, or in an emulator (see perennial cosmos --help):
      perennial demo --store cosmos://ACCOUNT/DATABASE/CONTAINER
  There, as many at once as you like: they share the orders, and go on with those of one that is killed.
";

/// Run hundreds of order workflows that survive Ctrl-C and kill -9
///
/// Interrupt it or kill it half-way and run it again: it goes on where it was, and proves that no finished step ran
/// twice. A batch that is complete is followed by a new one.
#[derive(Debug, Args)]
#[command(after_help = "More: perennial demo --help", after_long_help = format!("{EXAMPLES}\n{EXIT_CODES}"))]
pub struct Arguments {
    /// How many orders a new batch has; an unfinished batch keeps its number
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    workflows: u32,

    /// The store to run on: file://DIRECTORY, memory: or cosmos://ACCOUNT/DATABASE/CONTAINER
    #[arg(long, value_name = "URL", default_value = "file://./perennial-data")]
    store: String,

    /// How long a step takes, in milliseconds; 0 shows the store's own speed
    #[arg(long, value_name = "MS", default_value_t = 40, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    step_ms: u64,

    /// Remove the workflows and the ledger of earlier demos first (asks, unless --yes)
    #[arg(long)]
    fresh: bool,

    /// Do not ask
    #[arg(long, requires = "fresh")]
    yes: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments, output: &mut Output) -> Result<(), CliError> {
    let store = OpenStore::open(&arguments.store).await?;
    let result = run::on_store(&store, &arguments, output).await;
    result.and(store.close().await)
}

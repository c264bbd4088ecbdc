//! `perennial cosmos`: sets up stores in Azure Cosmos DB and shows their cost.

mod cost;
#[cfg(feature = "emulator")]
mod emulator;
mod estimate;
mod init;

use crate::error::{CliError, EXIT_CODES};
use crate::output::Output;
use crate::stores::with_causes;
use clap::{Args, Subcommand};
use perennial_cosmos::{Account, OpenError};

const EXAMPLES: &str = "\
A store is a container: cosmos://ACCOUNT/DATABASE/CONTAINER. Who may use it is proved by the account's key in
PERENNIAL_COSMOS_KEY, or else by an identity of Entra ID: a managed identity, a workload identity, or `az login`. No
key ever stands in a URL. An emulator on this machine is cosmos+http://127.0.0.1:PORT/DATABASE/CONTAINER.

Examples:
  Make a store, and run on it:
      perennial cosmos init cosmos://my-account/perennial/workflows --autoscale 1000
      perennial demo --store cosmos://my-account/perennial/workflows
  What did that cost, and what would 600 workflows a minute need?
      perennial cosmos cost cosmos://my-account/perennial/workflows --per-minute 600
  Without an account:
      perennial cosmos emulator
";

/// Create a store in Azure Cosmos DB, see what it costs, or try it on an emulator
#[derive(Debug, Args)]
#[command(after_help = "More: perennial cosmos --help", after_long_help = format!("{EXAMPLES}\n{EXIT_CODES}"))]
#[command(arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Arguments),
    Cost(cost::Arguments),
    #[cfg(feature = "emulator")]
    Emulator(emulator::Arguments),
    /// Run Microsoft's in-memory emulator on this machine (not in this build)
    #[cfg(not(feature = "emulator"))]
    #[command(disable_help_flag = true)]
    Emulator {
        /// Any arguments that a build with the emulator takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Runs the command.
pub async fn run(arguments: Arguments, output: &mut Output) -> Result<(), CliError> {
    match arguments.command {
        Command::Init(arguments) => init::run(arguments, output).await,
        Command::Cost(arguments) => cost::run(arguments, output).await,
        #[cfg(feature = "emulator")]
        Command::Emulator(arguments) => emulator::run(arguments, output).await,
        #[cfg(not(feature = "emulator"))]
        Command::Emulator { .. } => Err(crate::built::lacks("emulator of Cosmos DB", "emulator")),
    }
}

/// The container that a URL names.
fn account(url: &str) -> Result<Account, CliError> {
    Account::parse(url).map_err(refused)
}

fn refused(error: OpenError) -> CliError {
    CliError::Store(with_causes(&error))
}

//! The command line of perennial.

#![allow(
    clippy::disallowed_methods,
    reason = "commands show and measure wall time; the ban protects the engine"
)]

mod commands;
mod error;
mod output;
mod stop;
mod stores;
mod table;

use clap::Parser;
use commands::Command;
use error::{CliError, EXIT_CODES};
use output::Output;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Durable storage for long-lived work: workflows that survive crashes, on this machine's disk or in the cloud.
#[derive(Debug, Parser)]
#[command(name = "perennial", version, arg_required_else_help = true, after_long_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log_to_stderr();
    let mut output = Output::new();
    let result = tokio::select! {
        // First, so that a command that fails because its store broke says so.
        biased;
        error = stores::broke() => Err(error),
        result = run(arguments.command, &mut output) => result,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

async fn run(command: Command, output: &mut Output) -> Result<(), CliError> {
    match command {
        Command::Demo(arguments) => commands::demo::run(arguments, output).await,
        Command::Bench(arguments) => commands::bench::run(arguments, output).await,
        #[cfg(feature = "cosmos")]
        Command::Cosmos(arguments) => commands::cosmos::run(arguments, output).await,
    }
}

/// Tells what went wrong on stderr. If that is closed too there is nobody left to tell.
fn report(error: &CliError) {
    use std::io::Write;
    if let Some(message) = error.message() {
        let _ = writeln!(std::io::stderr(), "error: {message}");
    }
}

/// Logs as `RUST_LOG` asks for, and not at all if it is not set: the runtime reports every failed attempt of an
/// activity, which the commands already show in their own words.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

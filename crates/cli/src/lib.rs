//! The command line of perennial: the commands of the binary `perennial`.
//!
//! `perennial --help` lists them. Programs that want to store workflows use the crate `perennial` instead.

#![allow(
    clippy::disallowed_methods,
    reason = "commands show and measure wall time; the ban protects the engine"
)]

mod built;
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

/// Runs the command that the program's arguments name.
pub async fn run() -> ExitCode {
    let arguments = Arguments::parse();
    log_to_stderr();
    let mut output = Output::new();
    let result = tokio::select! {
        // First, so that a command that fails because its store broke says so.
        biased;
        error = stores::broke() => Err(error),
        result = obey(arguments.command, &mut output) => result,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

async fn obey(command: Command, output: &mut Output) -> Result<(), CliError> {
    match command {
        Command::Demo(arguments) => commands::demo::run(arguments, output).await,
        Command::Bench(arguments) => commands::bench::run(arguments, output).await,
        #[cfg(feature = "cosmos")]
        Command::Cosmos(arguments) => commands::cosmos::run(arguments, output).await,
        #[cfg(not(feature = "cosmos"))]
        Command::Cosmos { arguments } => Err(built::lacks("Cosmos DB", cosmos_feature(&arguments))),
    }
}

/// The feature that a command of `perennial cosmos` needs.
#[cfg(not(feature = "cosmos"))]
fn cosmos_feature(arguments: &[String]) -> &'static str {
    match arguments.first().is_some_and(|command| command == "emulator") {
        true => "emulator",
        false => "cosmos",
    }
}

/// Reports an error on stderr. If that is closed too, there is nowhere left to report it.
fn report(error: &CliError) {
    use std::io::Write;
    if let Some(message) = error.message() {
        let _ = writeln!(std::io::stderr(), "error: {message}");
    }
}

/// Logs as `RUST_LOG` says, and nothing if it is not set: the runtime logs every failed attempt of an activity, which
/// the commands already show in their own words.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

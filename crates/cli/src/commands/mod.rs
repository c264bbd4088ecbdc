//! The commands, one module each.

pub mod bench;
#[cfg(feature = "cosmos")]
pub mod cosmos;
pub mod demo;

use clap::Subcommand;

/// What to do. Each command's help stands with its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(demo::Arguments),
    Bench(bench::Arguments),
    #[cfg(feature = "cosmos")]
    Cosmos(cosmos::Arguments),
}

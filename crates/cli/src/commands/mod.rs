//! The commands, one module each.

pub mod bench;
#[cfg(feature = "cosmos")]
pub mod cosmos;
pub mod demo;

use clap::Subcommand;

/// The commands. The help of each is with its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(demo::Arguments),
    Bench(bench::Arguments),
    #[cfg(feature = "cosmos")]
    Cosmos(cosmos::Arguments),
    /// Create a store in Azure Cosmos DB, see what it costs, or try it on an emulator (not in this build)
    #[cfg(not(feature = "cosmos"))]
    #[command(disable_help_flag = true)]
    Cosmos {
        /// Any arguments that a build with Cosmos DB takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

//! `perennial cosmos init`: the database and the container of a store.

use super::{account, refused};
use crate::error::{CliError, EXIT_CODES};
use crate::output::Output;
use clap::Args;
use perennial_cosmos::{Account, Made, Settings, Throughput};

const EXAMPLES: &str = "\
The service lets nobody make a container by Entra ID through its data endpoint: PERENNIAL_COSMOS_KEY must hold the
account's key. Where keys are switched off, make it with `az cosmosdb sql container create` as docs/cosmos.md shows.

Examples:
  In a serverless account:
      perennial cosmos init cosmos://my-account/perennial/workflows --serverless
  Up to 4,000 request units a second, as needed:
      perennial cosmos init cosmos://my-account/perennial/workflows --autoscale 4000
";

/// Create the database and the container of a store, or repair the container's settings
///
/// Does nothing if all is well, so it can be part of every deployment. A container with another partition key is
/// refused and left alone. The throughput of an existing container is left as it is.
#[derive(Debug, Args)]
#[command(after_help = "More: perennial cosmos init --help", after_long_help = format!("{EXAMPLES}\n{EXIT_CODES}"))]
pub struct Arguments {
    /// The store: cosmos://ACCOUNT/DATABASE/CONTAINER
    #[arg(value_name = "URL")]
    store: String,

    /// Pay by use, in a serverless account. The default is the account's own setting, which there is the same
    #[arg(long, conflicts_with_all = ["throughput", "autoscale"])]
    serverless: bool,

    /// This many request units a second, always: 400 or more, in hundreds
    #[arg(long, value_name = "N", value_parser = manual, conflicts_with = "autoscale")]
    throughput: Option<u64>,

    /// Up to this many request units a second, as needed: 1000 or more, in thousands
    #[arg(long, value_name = "N", value_parser = autoscale)]
    autoscale: Option<u64>,
}

impl Arguments {
    fn wanted(&self) -> Throughput {
        match (self.throughput, self.autoscale) {
            (Some(units), _) => Throughput::Manual(units),
            (None, Some(units)) => Throughput::Autoscale(units),
            (None, None) => Throughput::Serverless,
        }
    }
}

fn manual(text: &str) -> Result<u64, String> {
    in_steps(text, 400, 100)
}

fn autoscale(text: &str) -> Result<u64, String> {
    in_steps(text, 1000, 1000)
}

/// A number in the steps that the service accepts.
fn in_steps(text: &str, least: u64, step: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(units) if units >= least && units % step == 0 => Ok(units),
        _ => Err(format!("give {least} or more, in steps of {step}")),
    }
}

/// Runs the command.
pub async fn run(arguments: Arguments, output: &mut Output) -> Result<(), CliError> {
    let account = account(&arguments.store)?;
    let made = perennial_cosmos::init(&account, arguments.wanted(), &Settings::default())
        .await
        .map_err(refused)?;
    output.line(told(&account, made))?;
    let has_asked = arguments.throughput.is_some() || arguments.autoscale.is_some();
    if has_asked && made != Made::Created {
        output
            .line("its throughput was left as it is; change it with `az cosmosdb sql container throughput update`")?;
    }
    Ok(())
}

fn told(account: &Account, made: Made) -> String {
    let container = format!(
        "the container {} of the database {} at {}",
        account.container(),
        account.database(),
        account.endpoint()
    );
    match made {
        Made::Created => format!("created {container}: it is ready"),
        Made::Repaired => format!("repaired the settings of {container}: it is ready"),
        _ => format!("nothing to do: {container} is ready"),
    }
}

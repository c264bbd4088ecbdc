//! `perennial cosmos cost`: what the last runs cost, and what more work would need.

use super::estimate::{Estimate, Need, Seen};
use super::{account, refused};
use crate::error::{CliError, EXIT_CODES};
use crate::output::{Fact, Output, fact};
use crate::table::Table;
use clap::Args;
use perennial_cosmos::{Run, Settings, Spent};
use std::collections::BTreeMap;

const EXAMPLES: &str = "\
Every process records what the service has charged it: every few seconds while it works, and when it closes the
store. This command shows the latest 16 that have closed it, and all that have it open. A workflow costs everything that
was charged except queries for work, divided by the number of workflows (sub-workflows too) that ended. Queries for work
cost the same whether there is any or not, and are shown separately.

The throughput that is shown for --per-minute leaves 30 % for peaks. It assumes workflows like those of the last
runs. On an emulator, charges are estimates.

Examples:
  What did the last runs cost?
      perennial cosmos cost cosmos://my-account/perennial/workflows
  What would 600 workflows a minute on 3 machines need?
      perennial cosmos cost cosmos://my-account/perennial/workflows --per-minute 600 --processes 3
";

/// Show what the last runs cost, in request units per workflow and per hour
#[derive(Debug, Args)]
#[command(after_help = "More: perennial cosmos cost --help", after_long_help = format!("{EXAMPLES}\n{EXIT_CODES}"))]
pub struct Arguments {
    /// The store: cosmos://ACCOUNT/DATABASE/CONTAINER
    #[arg(value_name = "URL")]
    store: String,

    /// Also show the throughput that this many workflows a minute need
    #[arg(long, value_name = "X", value_parser = rate)]
    per_minute: Option<f64>,

    /// How many processes would run them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), requires = "per_minute")]
    processes: u32,

    /// How many of the last runs to include
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("give a number above 0".to_owned()),
    }
}

/// Runs the command.
pub async fn run(arguments: Arguments, output: &mut Output) -> Result<(), CliError> {
    let account = account(&arguments.store)?;
    let store = perennial_cosmos::open(account, Settings::default());
    let store = store.await.map_err(refused)?;
    let runs = store.runs().await;
    let mut runs = runs.map_err(|error| CliError::failed("read the cost of the last runs", error))?;
    runs.truncate(usize::from(arguments.runs));
    if runs.is_empty() {
        return Err(CliError::Failed(
            "no run is recorded yet; run some workflows on the store first, such as those of `perennial demo --store URL`"
                .to_owned(),
        ));
    }
    let seen = Seen::of(&runs);
    output.facts("the last runs", &facts(&seen))?;
    output.table(&by_operation(&runs))?;
    if let Some(per_minute) = arguments.per_minute {
        let estimate = seen.estimate().ok_or_else(|| {
            CliError::Failed(
                "no workflow has ended in the last runs; run some first, then estimate what more would need".into(),
            )
        })?;
        let need = estimate.need(per_minute, arguments.processes);
        let title = format!("{per_minute} workflows a minute");
        output.facts(&title, &needs(&need))?;
    }
    Ok(())
}

fn facts(seen: &Seen) -> Vec<Fact> {
    let mut facts = vec![
        fact("runs", "runs", seen.runs),
        fact("hours", "hours in which one ran", format!("{:.4}", seen.hours)),
        fact("workflows", "workflows that ended", seen.workflows),
        fact("requests", "requests", seen.spent.requests),
        fact("request_units", "request units", format!("{:.1}", seen.spent.units)),
        fact(
            "units_per_hour",
            "request units per hour",
            format!("{:.1}", seen.units_per_hour()),
        ),
    ];
    if let Some(Estimate {
        per_workflow,
        requests_per_workflow,
        querying_per_second,
    }) = seen.estimate()
    {
        facts.extend([
            fact(
                "units_per_workflow",
                "request units per workflow",
                format!("{per_workflow:.1}"),
            ),
            fact(
                "requests_per_workflow",
                "requests per workflow",
                format!("{requests_per_workflow:.1}"),
            ),
            fact(
                "looking_units_per_hour",
                "request units per hour and process for queries for work",
                format!("{:.1}", querying_per_second * 3600.0),
            ),
        ]);
    }
    facts
}

fn needs(need: &Need) -> Vec<Fact> {
    vec![
        fact(
            "needed_units_per_second",
            "request units a second, on average",
            format!("{:.1}", need.units_per_second),
        ),
        fact("throughput", "with fixed throughput: --throughput", need.manual),
        fact("autoscale", "with autoscale: --autoscale", need.autoscale),
        fact(
            "serverless_units_per_month",
            "with serverless: request units in 30 days",
            format!("{:.0}", need.units_per_second * 30.0 * 24.0 * 3600.0),
        ),
    ]
}

fn by_operation(runs: &[Run]) -> Table {
    let mut spent: BTreeMap<&str, Vec<Spent>> = BTreeMap::new();
    for (operation, of_run) in runs.iter().flat_map(|run| &run.spent) {
        spent.entry(operation).or_default().push(*of_run);
    }
    let mut table = Table::new(["operation", "calls", "requests", "RU", "RU per call"]);
    for (operation, spent) in spent {
        let spent: Spent = spent.into_iter().sum();
        table.row([
            operation.to_owned(),
            spent.calls.to_string(),
            spent.requests.to_string(),
            format!("{:.1}", spent.units),
            format!("{:.2}", spent.units / (spent.calls.max(1) as f64)),
        ]);
    }
    table
}

//! `perennial bench`: stores measured side by side, and a store measured before and after it grows.

mod growth;
mod report;
mod targets;

use crate::error::{CliError, EXIT_CODES};
use crate::output::Output;
use crate::stop;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use perennial_bench::{Case, Plan, Round, Slots, Target, Wait, Workload, compare};
use std::path::PathBuf;
use std::time::Duration;
use targets::StoreTarget;

const EXAMPLES: &str = "\
Every round runs on an empty store, and rounds alternate between the stores (A B A B …), so that the noise of the
machine falls on all alike. `file` syncs every commit to disk; `memory` has no disk and so shows what the runtime
and the engine alone allow. CPU is that of the whole process: runtime, clients and store.

Examples:
  The stores of this build:
      perennial bench
  Against duroxide's own SQLite provider, with a plot and the raw numbers:
      cargo run --release -p perennial-cli --features sqlite -- bench --against sqlite --plot bench.svg --json bench.json
  Only two of the workloads with 64 clients, longer:
      perennial bench --workload hello fan-out --clients 64 --seconds 20
  Does it stay fast with a million finished workflows?
      perennial bench --grow 1000000
";

/// Measure throughput, latency, CPU and memory
///
/// Runs workflows of several shapes on perennial's stores, and on duroxide's SQLite provider if requested, and shows
/// workflows per second, latency percentiles and CPU time side by side.
#[derive(Debug, Args)]
#[command(after_help = "More: perennial bench --help", after_long_help = format!("{EXAMPLES}\n{EXIT_CODES}"))]
pub struct Arguments {
    /// The stores to measure, separated by spaces or commas
    #[arg(long, value_name = "STORE", value_enum, num_args = 1.., value_delimiter = ',',
          default_values = ["file", "memory"])]
    stores: Vec<Side>,

    /// Also measure this one, and show how many times faster the others are
    #[arg(long, value_name = "STORE", value_enum)]
    against: Option<Side>,

    /// The workloads to run, separated by spaces or commas
    #[arg(long = "workload", value_name = "NAME", value_enum, num_args = 1.., value_delimiter = ',',
          default_values = ["hello", "latency", "fan-out", "sequential", "sub-workflow"])]
    workloads: Vec<Shape>,

    /// Dispatcher slots of the runtime, as TURNS+ACTIVITIES, separated by spaces or commas
    #[arg(long, value_name = "N+M", num_args = 1.., value_delimiter = ',', default_values = ["2+2", "32+32"])]
    slots: Vec<Slots>,

    /// Clients that each start a workflow when their last one has finished; fan-out uses a quarter of them
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,

    /// Activities of the sequential workload
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    steps: u32,

    /// How long clients keep starting workflows in one round; those in flight are then waited for
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,

    /// Rounds of each workload on each store; the middle one counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// What ends a workflow's time: the commit that ends it, once durable, or a polling client that sees its result
    #[arg(long, value_enum, default_value_t = WaitFor::Commit)]
    wait: WaitFor,

    /// Add this to every sync of `file`, to see what a slower disk costs
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=10_000))]
    sync_delay: u64,

    /// Where stores on disk are created; must be on the disk that matters, not in a RAM disk
    #[arg(long, value_name = "DIRECTORY", default_value = "perennial-bench-data")]
    directory: PathBuf,

    /// Write a plot to this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Write all numbers to this JSON file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Measure the first store of --stores empty and with N finished workflows in it
    #[arg(long, value_name = "N")]
    grow: Option<u64>,

    /// A part of --grow that runs in a separate process and reports in JSON
    #[arg(long, hide = true, value_enum)]
    grow_phase: Option<growth::Phase>,
}

/// A side of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// perennial on a directory, every commit synced to disk
    File,
    /// perennial without a disk
    Memory,
    /// duroxide's SQLite provider on a file, as shipped (needs a build with `--features sqlite`)
    Sqlite,
}

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// One activity, many clients
    Hello,
    /// One activity, one client
    Latency,
    /// 100 activities at once
    FanOut,
    /// Activities one after the other: see --steps
    Sequential,
    /// A sub-workflow with one activity
    SubWorkflow,
}

/// What ends a workflow's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WaitFor {
    /// The workflow's last commit is durable, as `Workflows::wait` reports it; SQLite has acknowledged it
    Commit,
    /// duroxide's client, polling at 5 to 100 ms, sees the result
    Client,
}

impl Arguments {
    fn wait(&self) -> Wait {
        match self.wait {
            WaitFor::Commit => Wait::Commit,
            WaitFor::Client => Wait::Client,
        }
    }

    fn sync_delay(&self) -> Duration {
        Duration::from_millis(self.sync_delay)
    }

    fn duration(&self) -> Result<Duration, CliError> {
        Duration::try_from_secs_f64(self.seconds)
            .ok()
            .filter(|duration| !duration.is_zero())
            .ok_or_else(|| CliError::Usage(format!("--seconds must be above 0, and {} is not", self.seconds)))
    }

    fn sides(&self) -> Vec<Side> {
        let mut sides = Vec::new();
        for side in self.stores.iter().copied().chain(self.against) {
            if !sides.contains(&side) {
                sides.push(side);
            }
        }
        sides
    }

    /// Latency is measured once, with the first slots: a single client never fills them.
    fn cases(&self) -> Vec<Case> {
        let clients = usize::from(self.clients);
        let cases_of = |shape: Shape| {
            let (workload, clients, slots) = match shape {
                Shape::Hello => (Workload::Hello, clients, self.slots.len()),
                Shape::Latency => (Workload::Hello, 1, 1),
                Shape::FanOut => (Workload::FanOut(100), clients.div_ceil(4), self.slots.len()),
                Shape::Sequential => (Workload::Sequential(self.steps), clients, self.slots.len()),
                Shape::SubWorkflow => (Workload::SubWorkflow, clients, self.slots.len()),
            };
            self.slots.iter().take(slots).map(move |slots| Case {
                workload,
                slots: *slots,
                clients,
            })
        };
        self.workloads.iter().copied().flat_map(cases_of).collect()
    }
}

/// Runs the command.
pub async fn run(arguments: Arguments, output: &mut Output) -> Result<(), CliError> {
    if arguments.grow.is_some() || arguments.grow_phase.is_some() {
        return growth::run(&arguments, output).await;
    }
    let plan = Plan {
        cases: arguments.cases(),
        rounds: arguments.rounds,
        duration: arguments.duration()?,
        wait: arguments.wait(),
    };
    let mut targets: Vec<Box<dyn Target>> = Vec::new();
    for side in arguments.sides() {
        targets.push(Box::new(StoreTarget::new(
            side,
            &arguments.directory,
            arguments.sync_delay(),
        )?));
    }
    let bar = progress_bar(output);
    let result = tokio::select! {
        // First, so that no store is created before a signal can stop the command.
        biased;
        () = stop::requested() => None,
        result = compare(&targets, &plan, |round| show(bar.as_ref(), &round)) => Some(result),
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    targets::remove_if_empty(&arguments.directory);
    let Some(result) = result else {
        return Err(CliError::Interrupted);
    };
    let report = result.map_err(|e| CliError::Failed(e.to_string()))?;
    report::write(output, &report, arguments.against)?;
    if let Some(path) = &arguments.json {
        let json = report
            .to_json()
            .map_err(|e| CliError::failed("write the numbers as JSON", e))?;
        report::write_file(path, &json)?;
    }
    if let Some(path) = &arguments.plot {
        report::write_file(path, &perennial_bench::svg(&report))?;
    }
    Ok(())
}

fn progress_bar(output: &Output) -> Option<ProgressBar> {
    output.is_terminal().then(|| {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{bar:32.green} {pos}/{len}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    })
}

fn show(bar: Option<&ProgressBar>, round: &Round<'_>) {
    if let Some(bar) = bar {
        bar.set_length(round.total as u64);
        bar.set_position(round.index as u64);
        bar.set_message(format!("{} on {}, round {}", round.case, round.target, round.number));
    }
}

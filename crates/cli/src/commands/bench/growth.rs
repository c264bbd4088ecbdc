//! `--grow`: measures an empty and a full store in turn, each time in a separate process, so that memory left over from
//! filling does not count for the full store and opening it is not helped by what is in memory.

use super::targets::{self, StoreTarget};
use super::{Arguments, report};
use crate::error::CliError;
use crate::output::{Fact, Output, fact};
use clap::ValueEnum;
use perennial_bench::{BenchError, Case, Filled, Sample, SamplePlan, Target, Workload, grow, median, sample};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::process::Stdio;

/// One part of the measurement, run by a separate process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// Measure the empty store
    Empty,
    /// Fill the other one
    Fill,
    /// Measure the full store
    Full,
}

impl Phase {
    fn directory(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Fill | Self::Full => "full",
        }
    }
}

/// The whole result.
#[derive(Debug, Serialize, Deserialize)]
struct Growth {
    store: String,
    case: Case,
    filled: Filled,
    empty: Vec<Sample>,
    full: Vec<Sample>,
}

/// Runs one phase, or all of them.
pub async fn run(arguments: &Arguments, output: &mut Output) -> Result<(), CliError> {
    match arguments.grow_phase {
        Some(phase) => output.line(run_phase(arguments, phase).await?).map_err(CliError::from),
        None => run_all(arguments, output).await,
    }
}

fn target(arguments: &Arguments, phase: Phase) -> Result<StoreTarget, CliError> {
    let side = *arguments
        .stores
        .first()
        .ok_or_else(|| CliError::Usage("--grow needs a store".into()))?;
    let target = StoreTarget::new(
        side,
        &arguments.directory.join(phase.directory()),
        arguments.sync_delay(),
    )?;
    if target.outlives_process() {
        Ok(target)
    } else {
        Err(CliError::Usage(format!(
            "--grow needs a store on disk, and {} is none",
            target.name()
        )))
    }
}

async fn run_phase(arguments: &Arguments, phase: Phase) -> Result<String, CliError> {
    let target = target(arguments, phase)?;
    let json = match phase {
        Phase::Fill => {
            let filled = grow(&target, arguments.grow.unwrap_or_default(), |_| {})
                .await
                .map_err(failed)?;
            serde_json::to_string(&filled)
        }
        Phase::Empty | Phase::Full => {
            let plan = SamplePlan {
                case: case(arguments)?,
                duration: arguments.duration()?,
                rounds: 1,
                wait: arguments.wait(),
                // The full store sees many processes, and each needs its own names.
                prefix: format!("bench-{}", std::process::id()),
            };
            serde_json::to_string(&sample(&target, &plan).await.map_err(failed)?)
        }
    };
    json.map_err(|e| CliError::failed("report in JSON", e))
}

fn failed(error: BenchError) -> CliError {
    CliError::Failed(error.to_string())
}

fn case(arguments: &Arguments) -> Result<Case, CliError> {
    let slots = *arguments
        .slots
        .first()
        .ok_or_else(|| CliError::Usage("--grow needs --slots".into()))?;
    Ok(Case {
        workload: Workload::Hello,
        slots,
        clients: usize::from(arguments.clients),
    })
}

async fn run_all(arguments: &Arguments, output: &mut Output) -> Result<(), CliError> {
    let (empty_store, full_store) = (target(arguments, Phase::Empty)?, target(arguments, Phase::Full)?);
    full_store.wipe().map_err(failed)?;
    output.line(format!(
        "filling a store with {} finished workflows",
        arguments.grow.unwrap_or_default()
    ))?;
    let filled: Filled = in_child(Phase::Fill).await?;
    output.line(format!(
        "filled in {:.0} s; measuring an empty store and the full one in turn",
        filled.elapsed_s
    ))?;
    let (mut empty, mut full) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        empty_store.wipe().map_err(failed)?;
        empty.push(in_child(Phase::Empty).await?);
        full.push(in_child(Phase::Full).await?);
    }
    for (store, phase) in [(&empty_store, Phase::Empty), (&full_store, Phase::Full)] {
        store.wipe().map_err(failed)?;
        targets::remove_if_empty(&arguments.directory.join(phase.directory()));
    }
    targets::remove_if_empty(&arguments.directory);

    let growth = Growth {
        store: full_store.name().to_owned(),
        case: case(arguments)?,
        filled,
        empty,
        full,
    };
    write(output, &growth)?;
    if let Some(path) = &arguments.json {
        let json =
            serde_json::to_string_pretty(&growth).map_err(|e| CliError::failed("write the numbers as JSON", e))?;
        report::write_file(path, &json)?;
    }
    Ok(())
}

/// Runs this program again for one phase, with the same arguments.
async fn in_child<T: DeserializeOwned>(phase: Phase) -> Result<T, CliError> {
    let could_not = |cause: String| CliError::failed("run a part of the measurement", cause);
    let program = std::env::current_exe().map_err(|e| could_not(e.to_string()))?;
    let phase = phase
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default();
    let child = tokio::process::Command::new(program)
        .args(std::env::args_os().skip(1))
        .args(["--grow-phase", &phase])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| could_not(e.to_string()))?;
    let answer = tokio::select! {
        answer = child.wait_with_output() => answer.map_err(|e| could_not(e.to_string()))?,
        () = crate::stop::requested() => return Err(CliError::Interrupted),
    };
    if !answer.status.success() {
        return Err(could_not(format!("it ended with {}", answer.status)));
    }
    serde_json::from_slice(&answer.stdout).map_err(|e| could_not(e.to_string()))
}

fn write(output: &mut Output, growth: &Growth) -> Result<(), CliError> {
    let mut facts = rates(growth);
    facts.extend(times(growth));
    facts.extend(memory(growth));
    facts.push(fact(
        "fill_s",
        "seconds to fill",
        format!("{:.1}", growth.filled.elapsed_s),
    ));
    output.facts(
        &format!("{} with {} finished workflows", growth.store, growth.filled.instances),
        &facts,
    )?;
    output.line(format!(
        "{}; medians of {} processes each, in turn; the operating system's page cache stayed warm",
        growth.case,
        growth.empty.len()
    ))?;
    Ok(())
}

fn middle(samples: &[Sample], of: fn(&Sample) -> f64) -> f64 {
    median(samples.iter().map(of).collect())
}

fn rates(growth: &Growth) -> Vec<Fact> {
    let empty = middle(&growth.empty, Sample::per_second);
    let full = middle(&growth.full, Sample::per_second);
    let change = (full / empty.max(f64::MIN_POSITIVE) - 1.0) * 100.0;
    vec![
        fact("per_second_empty", "workflows per second, empty", format!("{empty:.0}")),
        fact("per_second_full", "workflows per second, full", format!("{full:.0}")),
        fact("change_percent", "  change in %", format!("{change:+.1}")),
    ]
}

fn times(growth: &Growth) -> Vec<Fact> {
    let seconds = |samples: &[Sample], of: fn(&Sample) -> f64| format!("{:.3}", middle(samples, of));
    let opened = |sample: &Sample| sample.open_s;
    vec![
        fact("open_s_empty", "seconds to create it", seconds(&growth.empty, opened)),
        fact("open_s_full", "seconds to open it full", seconds(&growth.full, opened)),
        fact(
            "runtime_start_s_empty",
            "seconds to start a runtime, empty",
            seconds(&growth.empty, Sample::runtime_start_s),
        ),
        fact(
            "runtime_start_s_full",
            "seconds to start a runtime, full",
            seconds(&growth.full, Sample::runtime_start_s),
        ),
    ]
}

fn memory(growth: &Growth) -> Vec<Fact> {
    let mib = |bytes: f64| format!("{:.1}", bytes / 1_048_576.0);
    let opened = |sample: &Sample| sample.rss_opened.unwrap_or_default() as f64;
    let worked = |sample: &Sample| sample.rss_worked.unwrap_or_default() as f64;
    vec![
        fact(
            "rss_mib_opened_empty",
            "MiB resident after opening, empty",
            mib(middle(&growth.empty, opened)),
        ),
        fact(
            "rss_mib_opened_full",
            "MiB resident after opening, full",
            mib(middle(&growth.full, opened)),
        ),
        fact(
            "rss_mib_worked_empty",
            "MiB resident after the workload, empty",
            mib(middle(&growth.empty, worked)),
        ),
        fact(
            "rss_mib_worked_full",
            "MiB resident after the workload, full",
            mib(middle(&growth.full, worked)),
        ),
        fact(
            "rss_mib_peak_filling",
            "MiB resident at most while filling",
            mib(growth.filled.rss_peak.unwrap_or_default() as f64),
        ),
    ]
}

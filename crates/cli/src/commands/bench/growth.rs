//! `--grow`: a store measured empty, filled, and measured full, each in a process of its own, so that memory left
//! over from filling does not count for the full store and opening it is not helped by what is in memory.

use super::targets::{self, StoreTarget};
use super::{Arguments, report};
use crate::error::CliError;
use crate::output::{Output, fact};
use clap::ValueEnum;
use perennial_bench::{Case, Filled, Sample, SamplePlan, Target, Workload, grow, sample};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::process::Stdio;

/// One part, run by a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// Measure the empty store
    Before,
    /// Fill it
    Fill,
    /// Measure the full store
    After,
}

/// The whole result.
#[derive(Debug, Serialize, Deserialize)]
struct Growth {
    store: String,
    case: Case,
    before: Sample,
    filled: Filled,
    after: Sample,
}

/// Runs one phase, or all of them.
pub async fn run(arguments: &Arguments, output: &mut Output) -> Result<(), CliError> {
    let side = *arguments
        .stores
        .first()
        .ok_or_else(|| CliError::Usage("--grow needs a store".into()))?;
    let target = StoreTarget::new(side, &arguments.directory)?;
    if !target.outlives_process() {
        return Err(CliError::Usage(format!(
            "--grow needs a store on disk, and {} is none",
            target.name()
        )));
    }
    match arguments.grow_phase {
        Some(phase) => output
            .line(run_phase(arguments, &target, phase).await?)
            .map_err(CliError::from),
        None => run_all(arguments, &target, output).await,
    }
}

async fn run_phase(arguments: &Arguments, target: &StoreTarget, phase: Phase) -> Result<String, CliError> {
    let failed = |e: perennial_bench::BenchError| CliError::Failed(e.to_string());
    let json = match phase {
        Phase::Fill => {
            let filled = grow(target, arguments.grow.unwrap_or_default(), |_| {})
                .await
                .map_err(failed)?;
            serde_json::to_string(&filled)
        }
        Phase::Before | Phase::After => {
            let plan = SamplePlan {
                case: case(arguments)?,
                duration: arguments.duration()?,
                rounds: arguments.rounds,
                wait: arguments.wait(),
                prefix: if phase == Phase::Before {
                    "before".into()
                } else {
                    "after".into()
                },
            };
            serde_json::to_string(&sample(target, &plan).await.map_err(failed)?)
        }
    };
    json.map_err(|e| CliError::failed("answer in JSON", e))
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

async fn run_all(arguments: &Arguments, target: &StoreTarget, output: &mut Output) -> Result<(), CliError> {
    let failed = |e: perennial_bench::BenchError| CliError::Failed(e.to_string());
    target.wipe().map_err(failed)?;
    output.line(format!("measuring the empty store: {}", case(arguments)?))?;
    let before = in_child(Phase::Before).await?;
    output.line(format!(
        "filling it with {} finished workflows",
        arguments.grow.unwrap_or_default()
    ))?;
    let filled: Filled = in_child(Phase::Fill).await?;
    output.line(format!(
        "filled in {:.0} s; opening and measuring it again",
        filled.elapsed_s
    ))?;
    let after = in_child(Phase::After).await?;
    target.wipe().map_err(failed)?;
    targets::remove_if_empty(&arguments.directory);

    let growth = Growth {
        store: target.name().to_owned(),
        case: case(arguments)?,
        before,
        filled,
        after,
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
        _ = tokio::signal::ctrl_c() => return Err(CliError::Interrupted),
    };
    if !answer.status.success() {
        return Err(could_not(format!("it ended with {}", answer.status)));
    }
    serde_json::from_slice(&answer.stdout).map_err(|e| could_not(e.to_string()))
}

fn write(output: &mut Output, growth: &Growth) -> Result<(), CliError> {
    let Growth {
        before, filled, after, ..
    } = growth;
    let mib = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1_048_576.0));
    let seconds = |s: f64| format!("{s:.3}");
    let change = (after.per_second() / before.per_second() - 1.0) * 100.0;
    output.facts(
        &format!("{} with {} finished workflows", growth.store, filled.instances),
        &[
            fact(
                "per_second_empty",
                "workflows per second, empty",
                format!("{:.0}", before.per_second()),
            ),
            fact(
                "per_second_full",
                "workflows per second, full",
                format!("{:.0}", after.per_second()),
            ),
            fact("change_percent", "  change in %", format!("{change:+.1}")),
            fact("open_s_empty", "seconds to open, empty", seconds(before.open_s)),
            fact("open_s_full", "seconds to open, full", seconds(after.open_s)),
            fact(
                "runtime_start_s_empty",
                "seconds to start a runtime, empty",
                seconds(before.runtime_start_s()),
            ),
            fact(
                "runtime_start_s_full",
                "seconds to start a runtime, full",
                seconds(after.runtime_start_s()),
            ),
            fact(
                "rss_mib_opened_empty",
                "MiB resident after opening, empty",
                mib(before.rss_opened),
            ),
            fact(
                "rss_mib_opened_full",
                "MiB resident after opening, full",
                mib(after.rss_opened),
            ),
            fact(
                "rss_mib_worked_empty",
                "MiB resident after the workload, empty",
                mib(before.rss_worked),
            ),
            fact(
                "rss_mib_worked_full",
                "MiB resident after the workload, full",
                mib(after.rss_worked),
            ),
            fact(
                "rss_mib_peak_filling",
                "MiB resident at most while filling",
                mib(filled.rss_peak),
            ),
            fact("fill_s", "seconds to fill", format!("{:.1}", filled.elapsed_s)),
        ],
    )?;
    output.line("each part ran in a process of its own; the page cache of the operating system stayed warm")?;
    Ok(())
}

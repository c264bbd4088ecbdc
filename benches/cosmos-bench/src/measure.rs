//! Interleaved rounds over the sides, with what the server counted meanwhile.

use crate::idle;
use crate::sides::{Side, container};
use perennial_bench::{BenchError, Case, Measurement, Slots, Wait, Workload, run_case};
use perennial_cosmos_server::{Kind, Server};
use serde::Serialize;
use std::time::Duration;

/// The plan of a measurement: the workloads, and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The cases that are run.
    pub cases: Vec<Case>,
    /// How often on each side.
    pub rounds: u32,
    /// How long clients go on starting workflows in one round.
    pub duration: Duration,
    /// How long an idle runtime is watched.
    pub idle: Duration,
    /// With which slots.
    pub idle_slots: Vec<Slots>,
    /// Whether the sides are configured with the runtime's slots.
    pub tuned: bool,
}

/// One side's results for one case.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The side.
    pub side: &'static str,
    /// Workflows that completed in the measured time.
    pub workflows: u64,
    /// Workflows that did not complete.
    pub failed: u64,
    /// Why the first of them did not.
    pub failure: Option<String>,
    /// Completed workflows per second.
    pub per_second: f64,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of the latency in milliseconds.
    pub p99_ms: f64,
    /// Requests about documents per workflow, completed or not: all of them, also of the runtime's start and of polling.
    pub requests: f64,
    /// Queries among them.
    pub queries: f64,
    /// Estimated request units per workflow.
    pub units: f64,
}

/// All sides' results for one case.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The case that was run.
    pub case: Case,
    /// One cell per side.
    pub cells: Vec<Cell>,
}

/// The requests of an idle runtime.
#[derive(Debug, Clone, Serialize)]
pub struct Idle {
    /// The side.
    pub side: &'static str,
    /// The slots of the runtime.
    pub slots: Slots,
    /// Requests about documents per second.
    pub requests_per_second: f64,
    /// Estimated request units per second.
    pub units_per_second: f64,
}

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Workloads.
    pub rows: Vec<Row>,
    /// Idle runtimes.
    pub idle: Vec<Idle>,
}

/// Measures everything, and announces each step.
pub async fn all(server: &Server, plan: &Plan, mut tell: impl FnMut(String)) -> Result<Measured, BenchError> {
    let mut rows = Vec::new();
    for (number, case) in plan.cases.iter().enumerate() {
        let mut rounds: Vec<Vec<Round>> = Side::ALL.iter().map(|_| Vec::new()).collect();
        for round in 0..plan.rounds {
            for (side, of_side) in Side::ALL.iter().zip(&mut rounds) {
                tell(format!("{case}: {}", side.name()));
                let name = format!("case{number}-round{round}-{}", side.name());
                of_side.push(one(server, *side, *case, plan, &name).await?);
            }
        }
        let cells = Side::ALL
            .iter()
            .zip(rounds)
            .map(|(side, rounds)| cell(*side, *case, rounds));
        rows.push(Row {
            case: *case,
            cells: cells.collect(),
        });
    }
    let mut idle = Vec::new();
    for slots in &plan.idle_slots {
        for side in Side::ALL {
            tell(format!("idle, {slots} slots: {}", side.name()));
            idle.push(idle::watch(server, *side, *slots, plan).await?);
        }
    }
    Ok(Measured { rows, idle })
}

struct Round {
    measured: Measurement,
    requests: u64,
    queries: u64,
    units: f64,
}

async fn one(server: &Server, side: Side, case: Case, plan: &Plan, name: &str) -> Result<Round, BenchError> {
    let opened = side.open(server, name, plan.tuned.then_some(case.slots)).await?;
    let container = container(name);
    let before = server.counts_in(&container);
    let measured = run_case(opened.provider().into(), case, plan.duration, Wait::Commit, "bench").await;
    let counts = server.counts_in(&container).since(&before);
    opened.close().await?;
    Ok(Round {
        measured: measured?,
        requests: counts.documents(),
        queries: counts.of(Kind::Query),
        units: counts.ru,
    })
}

fn cell(side: Side, case: Case, rounds: Vec<Round>) -> Cell {
    let sum = |of: fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
    let elapsed_s = sum(|round| round.measured.elapsed_s).max(f64::MIN_POSITIVE);
    let completed = sum(|round| round.measured.workflows as f64);
    let failed = sum(|round| round.measured.failed as f64);
    // Each round runs a hello-world beforehand, whose requests were counted. Next to a large workflow they are nothing.
    let before = if case.workload == Workload::Hello {
        rounds.len()
    } else {
        0
    };
    let workflows = completed + failed + before as f64;
    let mut latencies_us: Vec<u64> = rounds
        .iter()
        .flat_map(|round| &round.measured.latencies_us)
        .copied()
        .collect();
    latencies_us.sort_unstable();
    Cell {
        side: side.name(),
        workflows: rounds.iter().map(|round| round.measured.workflows).sum(),
        failed: rounds.iter().map(|round| round.measured.failed).sum(),
        failure: rounds.iter().find_map(|round| round.measured.failure.clone()),
        per_second: completed / elapsed_s,
        p50_ms: percentile_ms(&latencies_us, 50),
        p99_ms: percentile_ms(&latencies_us, 99),
        requests: sum(|round| round.requests as f64) / workflows,
        queries: sum(|round| round.queries as f64) / workflows,
        units: sum(|round| round.units) / workflows,
    }
}

/// The smallest value that is not below `percent` % of `sorted`, in milliseconds; 0 if there is none.
fn percentile_ms(sorted: &[u64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map_or(0.0, |us| *us as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=200).map(|ms| ms * 1_000).collect();
        assert_eq!(percentile_ms(&values, 50), 100.0);
        assert_eq!(percentile_ms(&values, 99), 198.0);
        assert_eq!(percentile_ms(&[], 99), 0.0);
    }
}

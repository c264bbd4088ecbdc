//! The results of a comparison.

use crate::closed_loop::Measurement;
use crate::{Case, Wait};
use serde::{Deserialize, Serialize};

/// One target's results for one case, over all rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cell {
    /// The target's name.
    pub target: String,
    /// Completed workflows per second: the median of the rounds.
    pub per_second: f64,
    /// Workflows that did not complete, over all rounds.
    pub failed: u64,
    /// Median latency over the workflows of all rounds, in microseconds.
    pub p50_us: u64,
    /// 90th percentile of the latency.
    pub p90_us: u64,
    /// 99th percentile of the latency.
    pub p99_us: u64,
    /// CPU milliseconds of the whole process per workflow, where the platform reports them.
    pub cpu_ms_per_workflow: Option<f64>,
    /// Durable commits that the runtime and the clients requested, per workflow.
    pub commits_per_workflow: f64,
    /// The rounds themselves.
    pub rounds: Vec<Measurement>,
}

impl Cell {
    pub(crate) fn new(target: &str, rounds: Vec<Measurement>) -> Self {
        let mut latencies_us: Vec<u64> = rounds.iter().flat_map(|r| r.latencies_us.iter().copied()).collect();
        latencies_us.sort_unstable();
        let workflows = rounds.iter().map(|r| r.workflows).sum::<u64>().max(1) as f64;
        let cpu_s: Option<f64> = rounds.iter().map(|r| r.cpu_s).sum();
        let commits = rounds.iter().map(|r| r.commits).sum::<u64>() as f64;
        Self {
            target: target.to_owned(),
            per_second: median(rounds.iter().map(Measurement::per_second).collect()),
            failed: rounds.iter().map(|r| r.failed).sum(),
            p50_us: percentile(&latencies_us, 50),
            p90_us: percentile(&latencies_us, 90),
            p99_us: percentile(&latencies_us, 99),
            cpu_ms_per_workflow: cpu_s.map(|s| s * 1_000.0 / workflows),
            commits_per_workflow: commits / workflows,
            rounds,
        }
    }

    /// Why the first workflow that did not complete failed.
    pub fn failure(&self) -> Option<&str> {
        self.rounds.iter().find_map(|r| r.failure.as_deref())
    }

    /// CPU seconds over all rounds, where the platform reports them.
    pub fn cpu_s(&self) -> Option<f64> {
        self.rounds.iter().map(|r| r.cpu_s).sum()
    }
}

/// All targets' results for one case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The case that was run.
    pub case: Case,
    /// One cell per target, in the order in which they were given.
    pub cells: Vec<Cell>,
}

impl Row {
    /// The cell of `target`.
    pub fn cell(&self, target: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.target == target)
    }

    /// How many times faster `target` is than `baseline`: by latency for a single client, else by throughput.
    pub fn times_faster(&self, target: &str, baseline: &str) -> Option<f64> {
        let (target, baseline) = (self.cell(target)?, self.cell(baseline)?);
        Some(if self.case.clients == 1 {
            baseline.p50_us as f64 / target.p50_us.max(1) as f64
        } else {
            target.per_second / baseline.per_second.max(f64::MIN_POSITIVE)
        })
    }
}

/// The results of a comparison, with the context needed to read them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// How long clients went on starting workflows in one round, in seconds.
    pub duration_s: f64,
    /// Rounds of each case on each target.
    pub rounds: u32,
    /// When a workflow counted as finished.
    pub wait: Wait,
    /// Processors of the machine.
    pub cpus: usize,
    /// How many tasks of the whole machine wanted a processor in the minute before the start. Above 0.5 or so the
    /// machine was not idle, and only ratios mean something.
    pub load_before: Option<f64>,
    /// One row per case.
    pub rows: Vec<Row>,
}

impl Report {
    /// The report as JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

/// The middle value, or the mean of the two in the middle; 0 if there is none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let at = |i: usize| values.get(i).copied().unwrap_or_default();
    if values.len() % 2 == 1 {
        at(half)
    } else {
        (at(half.saturating_sub(1)) + at(half)) / 2.0
    }
}

/// The smallest value that is not below `percent` % of `sorted`; 0 if there is none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&values, 50), 100);
        assert_eq!(percentile(&values, 99), 198);
        assert_eq!(percentile(&[7], 99), 7);
        assert_eq!(percentile(&[], 99), 0);
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median(vec![4.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
    }
}

//! Estimates what more work would need from what the last runs cost.

use perennial_cosmos::{Run, Spent};

/// The counters of workflows that have ended, as the engine names them.
const ENDED: [&str; 2] = ["wf.instances.completed", "wf.instances.failed"];
/// The operation that queries for work, whether there is any or not.
const QUERYING: &str = "due";
/// The share of its throughput that a container should need on average, so that peaks are not throttled.
const LOAD: f64 = 0.7;
const HOUR_MS: f64 = 3_600_000.0;

/// What some runs cost.
#[derive(Debug)]
pub struct Seen {
    pub runs: usize,
    pub workflows: i64,
    /// Hours in which at least one of them ran.
    pub hours: f64,
    pub spent: Spent,
    /// The part of it that was spent on queries for work.
    querying: Spent,
    /// How long all of them ran together, in seconds.
    process_seconds: f64,
}

/// What a workflow costs.
#[derive(Debug, PartialEq)]
pub struct Estimate {
    /// Request units of a workflow, without queries for work.
    pub per_workflow: f64,
    pub requests_per_workflow: f64,
    /// Request units of each process for queries for work.
    pub querying_per_second: f64,
}

/// What is needed.
#[derive(Debug, PartialEq)]
pub struct Need {
    /// On average.
    pub units_per_second: f64,
    /// The throughput to provision, with room for peaks.
    pub manual: u64,
    /// The maximum to set for autoscale, likewise.
    pub autoscale: u64,
}

impl Seen {
    /// Adds runs up.
    pub fn of(runs: &[Run]) -> Self {
        let spent = runs.iter().flat_map(|run| run.spent.values().copied()).sum();
        let querying = runs.iter().filter_map(|run| run.spent.get(QUERYING).copied()).sum();
        let ended = |run: &Run| -> i64 { ENDED.iter().filter_map(|counter| run.counted.get(*counter)).sum() };
        let process_ms: u64 = runs.iter().map(|run| run.told_ms.saturating_sub(run.began_ms)).sum();
        Self {
            runs: runs.len(),
            workflows: runs.iter().map(ended).sum(),
            hours: covered_ms(runs.iter().map(|run| (run.began_ms, run.told_ms)).collect()) as f64 / HOUR_MS,
            spent,
            querying,
            process_seconds: process_ms as f64 / 1000.0,
        }
    }

    /// Request units per hour in which something ran.
    pub fn units_per_hour(&self) -> f64 {
        // Less than a second says nothing about an hour, but divides by nearly nothing.
        self.spent.units / self.hours.max(1000.0 / HOUR_MS)
    }

    /// What a workflow costs; `None` if none has ended.
    pub fn estimate(&self) -> Option<Estimate> {
        let workflows = (self.workflows > 0).then_some(self.workflows as f64)?;
        Some(Estimate {
            per_workflow: (self.spent.units - self.querying.units) / workflows,
            requests_per_workflow: self.spent.requests.saturating_sub(self.querying.requests) as f64 / workflows,
            querying_per_second: self.querying.units / self.process_seconds.max(1.0),
        })
    }
}

impl Estimate {
    /// What this many workflows a minute need.
    pub fn need(&self, per_minute: f64, processes: u32) -> Need {
        let units_per_second = per_minute / 60.0 * self.per_workflow + f64::from(processes) * self.querying_per_second;
        Need {
            units_per_second,
            manual: in_steps(units_per_second / LOAD, 400, 100),
            autoscale: in_steps(units_per_second / LOAD, 1000, 1000),
        }
    }
}

/// A throughput in the steps that the service sells.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is a small positive number"
)]
fn in_steps(units: f64, least: u64, step: u64) -> u64 {
    ((units / step as f64).ceil() as u64).saturating_mul(step).max(least)
}

/// How long at least one of the spans lasted.
fn covered_ms(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let mut covered = 0;
    let mut until = 0;
    for (began, ended) in spans {
        covered += ended.saturating_sub(began.max(until));
        until = until.max(ended);
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_several_ran_counts_once() {
        assert_eq!(covered_ms(vec![(10, 20), (15, 30), (12, 14), (40, 45)]), 25);
        assert_eq!(covered_ms(vec![(5, 5)]), 0);
    }

    #[test]
    fn throughput_is_what_the_service_sells() {
        let estimate = Estimate {
            per_workflow: 70.0,
            requests_per_workflow: 4.0,
            querying_per_second: 3.5,
        };
        let need = estimate.need(600.0, 2);
        assert_eq!((need.manual, need.autoscale), (1100, 2000));
        assert!((need.units_per_second - 707.0).abs() < 1e-9);
        let small = estimate.need(1.0, 1);
        assert_eq!((small.manual, small.autoscale), (400, 1000));
    }
}

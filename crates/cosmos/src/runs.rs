//! The cost of the latest processes: each handle writes it beside its totals, in the same request.
//!
//! Totals are sums forever; a run covers what one handle did between two moments, so that cost and work can be
//! compared. The runs of closed handles are kept with the common totals, only the latest.

use crate::usage::{Spent, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many runs of closed handles are kept.
pub(crate) const MAX_RUNS: usize = 16;

/// What one handle has done and what that has cost, up to its last report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// The handle.
    pub handle: String,
    /// When it was opened, in milliseconds since the Unix epoch.
    pub began_ms: u64,
    /// When it last reported, likewise.
    pub told_ms: u64,
    /// What each operation has cost.
    pub spent: BTreeMap<String, Spent>,
    /// By how much each counter has grown. Decreases, when something was deleted, are not subtracted.
    pub counted: BTreeMap<String, i64>,
}

impl Run {
    /// What a handle has done; `None` if it has only read.
    pub(crate) fn new(
        handle: &str,
        began_ms: u64,
        told_ms: u64,
        usage: &Usage,
        counted: BTreeMap<String, i64>,
    ) -> Option<Self> {
        let has_worked = ["commit", "due"]
            .iter()
            .any(|operation| usage.by_operation.contains_key(operation));
        has_worked.then(|| Self {
            handle: handle.to_owned(),
            began_ms,
            told_ms,
            spent: usage
                .by_operation
                .iter()
                .map(|(operation, spent)| ((*operation).to_owned(), *spent))
                .collect(),
            counted,
        })
    }
}

/// The runs of all of these, the latest first. For each handle its latest report counts.
pub(crate) fn merged(runs: impl IntoIterator<Item = Run>) -> Vec<Run> {
    let mut latest: BTreeMap<String, Run> = BTreeMap::new();
    for run in runs {
        match latest.get(&run.handle) {
            Some(known) if known.told_ms >= run.told_ms => {}
            _ => drop(latest.insert(run.handle.clone(), run)),
        }
    }
    let mut runs: Vec<Run> = latest.into_values().collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.told_ms));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(handle: &str, told_ms: u64) -> Run {
        Run {
            handle: handle.to_owned(),
            began_ms: 1,
            told_ms,
            spent: BTreeMap::new(),
            counted: BTreeMap::new(),
        }
    }

    #[test]
    fn the_latest_word_of_each_handle_counts_and_the_latest_run_comes_first() {
        let runs = merged([run("a", 5), run("b", 7), run("a", 9), run("a", 2)]);
        assert_eq!(runs, [run("a", 9), run("b", 7)]);
    }

    #[test]
    fn who_has_only_looked_is_no_run() {
        let mut usage = Usage::default();
        usage.by_operation.insert("tally", Spent::default());
        assert_eq!(Run::new("a", 1, 2, &usage, BTreeMap::new()), None);
        usage.by_operation.insert("due", Spent::default());
        assert!(Run::new("a", 1, 2, &usage, BTreeMap::new()).is_some());
    }
}

//! Totals that commits maintain, so that no query has to count.

use crate::records::head::Head;
use duroxide::providers::SystemMetrics;
use perennial_store::{Commit, Counter};

/// How the names of all counters of workflows begin.
pub const PREFIX: &str = "wf.";

const INSTANCES: Counter = Counter::new("wf.instances");
const RUNNING: Counter = Counter::new("wf.instances.running");
const COMPLETED: Counter = Counter::new("wf.instances.completed");
const FAILED: Counter = Counter::new("wf.instances.failed");
const EXECUTIONS: Counter = Counter::new("wf.executions");
const EVENTS: Counter = Counter::new("wf.events");

fn of_status(head: &Head) -> Counter {
    match head.status() {
        "Completed" => COMPLETED,
        "Failed" => FAILED,
        _ => RUNNING,
    }
}

/// Counts what a turn changes. Only instances that have a name count, as only they are listed.
pub fn count_turn(commit: &mut Commit, before: Option<&Head>, after: &Head, executions: u64, events: u64) {
    let mut add = |counter: Counter, delta: i64| {
        if delta != 0 {
            commit.counters.push((counter, delta));
        }
    };
    let was = before.filter(|head| head.name.is_some()).map(of_status);
    let is = after.name.is_some().then(|| of_status(after));
    if was.is_none() && is.is_some() {
        add(INSTANCES, 1);
    }
    if was != is {
        was.into_iter().for_each(|counter| add(counter, -1));
        is.into_iter().for_each(|counter| add(counter, 1));
    }
    add(EXECUTIONS, executions as i64);
    add(EVENTS, events as i64);
}

/// Counts an instance that is deleted.
pub fn count_deletion(commit: &mut Commit, head: &Head, executions: u64, events: u64) {
    if head.name.is_some() {
        commit.counters.push((INSTANCES, -1));
        commit.counters.push((of_status(head), -1));
    }
    count_pruning(commit, executions, events);
}

/// Counts executions that are removed.
pub fn count_pruning(commit: &mut Commit, executions: u64, events: u64) {
    commit.counters.push((EXECUTIONS, -(executions as i64)));
    commit.counters.push((EVENTS, -(events as i64)));
}

/// The totals in the runtime's form.
pub fn metrics(counters: &[(Counter, i64)]) -> SystemMetrics {
    let total = |counter: Counter| {
        let found = counters.iter().find(|(name, _)| *name == counter);
        found.map_or(0, |(_, total)| u64::try_from(*total).unwrap_or(0))
    };
    SystemMetrics {
        total_instances: total(INSTANCES),
        total_executions: total(EXECUTIONS),
        running_instances: total(RUNNING),
        completed_instances: total(COMPLETED),
        failed_instances: total(FAILED),
        total_events: total(EVENTS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_the_prefix() {
        for counter in [INSTANCES, RUNNING, COMPLETED, FAILED, EXECUTIONS, EVENTS] {
            assert!(counter.0.starts_with(PREFIX), "{counter:?}");
        }
    }
}

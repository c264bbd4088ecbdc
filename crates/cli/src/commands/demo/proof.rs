//! The proof: compares what the store's histories held at some moment with what the ledger says ran after it.

use super::ledger::Entries;
use crate::output::{Fact, fact};
use std::collections::HashSet;

/// Compares histories and ledger again and again: a step that the histories held at one comparison must not have begun
/// by the next.
#[derive(Debug, Default)]
pub struct Watch {
    /// Steps whose outcome the histories held at the last comparison.
    recorded: HashSet<String>,
    /// The ledger, read after those histories.
    seen: Entries,
    /// Steps that began after they had been seen recorded.
    run_again: HashSet<String>,
}

impl Watch {
    /// A first comparison. The ledger must have been read after the histories: an entry that is new at the next
    /// comparison then belongs to a step that began after its outcome was recorded.
    pub fn new(recorded: HashSet<String>, seen: Entries) -> Self {
        Self {
            recorded,
            seen,
            run_again: HashSet::new(),
        }
    }

    /// Another comparison.
    pub fn compare(&mut self, recorded: HashSet<String>, entries: Entries) {
        let begun = entries.since(&self.seen);
        let again = begun.into_keys().filter(|step| self.recorded.contains(step));
        self.run_again.extend(again);
        self.recorded = recorded;
        self.seen = entries;
    }

    /// How many finished steps have been watched.
    pub fn watched(&self) -> usize {
        self.recorded.len()
    }
}

/// The numbers that show whether a finished step ran twice.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof {
    /// Steps whose outcome the histories held when this run started.
    pub recorded_before: usize,
    /// Steps whose outcome they held at the last comparison before the end of this run.
    pub recorded_between: usize,
    /// Of all those, how many ran again afterwards, in this process or in another. Must be 0.
    pub recorded_run_again: usize,
    /// Steps that had been started before this run and whose outcome was not recorded yet.
    pub in_flight_before: usize,
    /// Of those, how many ran again. At-least-once allows it.
    pub in_flight_run_again: usize,
}

impl Proof {
    /// `recorded` and `before`: steps in the histories when this run started, and the ledger then. `watch`: the
    /// comparisons since. `after`: the ledger at the end.
    pub fn new(recorded: &HashSet<String>, before: &Entries, mut watch: Watch, after: &Entries) -> Self {
        let recorded_between = watch.watched();
        watch.compare(HashSet::new(), after.clone());
        let started = before.starts();
        let in_flight: HashSet<&String> = started.keys().filter(|step| !recorded.contains(*step)).collect();
        let now = after.since(before);
        Self {
            recorded_before: recorded.len(),
            recorded_between,
            recorded_run_again: watch.run_again.len(),
            in_flight_before: in_flight.len(),
            in_flight_run_again: now.keys().filter(|step| in_flight.contains(step)).count(),
        }
    }

    /// Whether no finished step ran twice.
    pub fn holds(&self) -> bool {
        self.recorded_run_again == 0
    }

    /// For people and programs.
    pub fn facts(&self) -> Vec<Fact> {
        vec![
            fact(
                "steps_recorded_before",
                "steps recorded as finished before this run",
                self.recorded_before,
            ),
            fact(
                "steps_recorded_between",
                "steps recorded as finished at a later check",
                self.recorded_between,
            ),
            fact(
                "recorded_steps_run_again",
                "  of those, run again",
                self.recorded_run_again,
            ),
            fact(
                "steps_in_flight_before",
                "steps under way when this run started",
                self.in_flight_before,
            ),
            fact(
                "in_flight_steps_run_again",
                "  of those, run again (at least once)",
                self.in_flight_run_again,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(steps: &[&str]) -> HashSet<String> {
        steps.iter().map(|step| step.to_string()).collect()
    }

    /// A ledger in which these steps ran, in this order.
    fn ledger(steps: &[&str]) -> Entries {
        Entries::of(steps)
    }

    fn proof(recorded: &[&str], before: &[&str], looks: &[(&[&str], &[&str])], after: &[&str]) -> Proof {
        let (recorded, before) = (set(recorded), ledger(before));
        let mut watch = Watch::new(recorded.clone(), before.clone());
        for (recorded, entries) in looks {
            watch.compare(set(recorded), ledger(entries));
        }
        Proof::new(&recorded, &before, watch, &ledger(after))
    }

    #[test]
    fn a_finished_step_that_runs_again_breaks_the_proof_and_one_in_flight_does_not() {
        let begun = ["a", "b", "c", "d"];
        let honest = proof(&["a", "b"], &begun, &[], &["a", "b", "c", "d", "c", "e"]);
        assert_eq!(
            (
                honest.recorded_before,
                honest.in_flight_before,
                honest.in_flight_run_again
            ),
            (2, 2, 1)
        );
        assert!(honest.holds());
        assert!(!proof(&["a", "b"], &begun, &[], &["a", "b", "c", "d", "b", "c"]).holds());
    }

    /// A demo that was there from the start has seen nothing finished then: it compares again while it runs.
    #[test]
    fn a_step_that_was_seen_finished_later_and_runs_again_breaks_the_proof() {
        let honest = proof(&[], &[], &[(&["a"], &["a", "b"])], &["a", "b", "b", "c"]);
        assert_eq!((honest.recorded_before, honest.recorded_between), (0, 1));
        assert!(honest.holds());
        assert!(!proof(&[], &[], &[(&["a"], &["a", "b"])], &["a", "b", "a"]).holds());
        // Found at one comparison, and not forgotten at the next.
        let looks: [(&[&str], &[&str]); 2] = [(&["a"], &["a"]), (&["a", "b"], &["a", "b", "a"])];
        let broken = proof(&[], &[], &looks, &["a", "b", "a"]);
        assert_eq!(broken.recorded_run_again, 1);
        assert!(!broken.holds());
    }
}

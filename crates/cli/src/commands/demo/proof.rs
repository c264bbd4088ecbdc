//! The proof: the store's histories at the start of this run, held against the ledger of what ran.

use super::ledger::Starts;
use crate::output::{Fact, fact};
use std::collections::HashSet;

/// The numbers that show whether a finished step ran twice.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof {
    /// Steps whose outcome the histories held when this run started.
    pub recorded_before: usize,
    /// Of those, how many this run executed again. Must be 0.
    pub recorded_run_again: usize,
    /// Steps that an earlier run had started and whose outcome was not recorded yet.
    pub in_flight_before: usize,
    /// Of those, how many this run executed again. At-least-once allows it.
    pub in_flight_run_again: usize,
}

impl Proof {
    /// `recorded`: steps in the histories when this run started. `before` and `now`: starts by earlier runs and by
    /// this one.
    pub fn new(recorded: &HashSet<String>, before: &Starts, now: &Starts) -> Self {
        let in_flight: HashSet<&String> = before.keys().filter(|step| !recorded.contains(*step)).collect();
        Self {
            recorded_before: recorded.len(),
            recorded_run_again: now.keys().filter(|step| recorded.contains(*step)).count(),
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
                "recorded_steps_run_again",
                "  of those, run again",
                self.recorded_run_again,
            ),
            fact(
                "steps_in_flight_before",
                "steps under way when the last run stopped",
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

    fn starts(steps: &[&str]) -> Starts {
        steps.iter().map(|step| (step.to_string(), 1)).collect()
    }

    #[test]
    fn a_finished_step_that_runs_again_breaks_the_proof_and_one_in_flight_does_not() {
        let recorded = HashSet::from(["a".to_owned(), "b".to_owned()]);
        let before = starts(&["a", "b", "c", "d"]);
        let honest = Proof::new(&recorded, &before, &starts(&["c", "e"]));
        assert_eq!(
            (
                honest.recorded_before,
                honest.in_flight_before,
                honest.in_flight_run_again
            ),
            (2, 2, 1)
        );
        assert!(honest.holds());
        assert!(!Proof::new(&recorded, &before, &starts(&["b", "c"])).holds());
    }
}

//! The demo's report: where it starts from, and how it ended.

use super::histories::{Ending, Recorded};
use super::ledger::Entries;
use super::order::Batch;
use super::progress::Counters;
use super::proof::Proof;
use crate::error::CliError;
use crate::output::{Output, fact};
use perennial_bench::Counts;
use std::io;
use std::time::Duration;

/// Says what this run starts from.
pub fn opening(output: &mut Output, batch: &Batch, run: u32, recorded: &Recorded, entries: &Entries) -> io::Result<()> {
    let earlier = entries.starts();
    if recorded.ended.is_empty() && recorded.in_flight == 0 && earlier.is_empty() {
        return output.line(format!(
            "starting batch {} with {} orders (run {run})",
            batch.number, batch.orders
        ));
    }
    output.line(format!(
        "resuming batch {} with {} orders (run {run})",
        batch.number, batch.orders
    ))?;
    let in_flight = earlier.keys().filter(|step| !recorded.steps.contains(*step)).count();
    let started = recorded.ended.len() as u32 + recorded.in_flight;
    output.facts(
        "found in the store",
        &[
            fact(
                "orders_finished_before",
                "orders finished before this run",
                recorded.ended.len(),
            ),
            fact("orders_resumed", "orders resumed in flight", recorded.in_flight),
            fact(
                "orders_not_begun",
                "orders not begun yet",
                batch.orders.saturating_sub(started),
            ),
            fact("steps_recorded", "steps recorded as finished", recorded.steps.len()),
            fact("steps_in_flight", "steps begun and not recorded", in_flight),
        ],
    )
}

/// Says what an interruption means.
pub fn interrupted(output: &mut Output, batch: &Batch, ended: usize) -> io::Result<()> {
    output.line(format!(
        "interrupted: {ended} of {} orders finished; run the same command again to go on where this stopped",
        batch.orders
    ))
}

/// All that is known at the end.
pub struct Closing<'a> {
    pub batch: Batch,
    pub run: u32,
    pub before: &'a Recorded,
    pub after: &'a Recorded,
    /// All executions, of all runs and processes.
    pub entries: &'a Entries,
    pub proof: Proof,
    pub elapsed: Duration,
    pub counts: Counts,
}

impl Closing<'_> {
    /// Writes the closing tables; fails if an order failed or a finished step ran twice.
    pub fn write(&self, output: &mut Output) -> Result<(), CliError> {
        let counters = Counters::of(self.after.ended.values());
        let elapsed_s = self.elapsed.as_secs_f64();
        let per_second = |count: u64| format!("{:.0}", count as f64 / elapsed_s.max(0.001));
        let here = counters.ended().saturating_sub(self.before.ended.len() as u32);
        output.facts(
            &format!("batch {}, run {}", self.batch.number, self.run),
            &[
                fact("orders", "orders", self.batch.orders),
                fact("delivered", "  delivered", counters.delivered),
                fact(
                    "compensated",
                    "  compensated (refunded, stock released)",
                    counters.compensated,
                ),
                fact("failed", "  failed", counters.failed),
                fact("steps", "steps recorded in the histories", self.after.steps.len()),
                fact("retries", "payments tried again", self.after.retries),
                fact("elapsed_s", "seconds of this run", format!("{elapsed_s:.1}")),
                fact(
                    "orders_per_s",
                    "orders finished per second",
                    per_second(u64::from(here)),
                ),
                fact(
                    "activities_per_s",
                    "steps per second",
                    per_second(self.counts.activities),
                ),
                fact(
                    "commits_per_s",
                    "durable commits per second",
                    per_second(self.counts.commits()),
                ),
            ],
        )?;
        self.prove(output)?;
        match self
            .after
            .ended
            .values()
            .find(|ending| matches!(ending, Ending::Failed(_)))
        {
            Some(Ending::Failed(why)) => Err(CliError::Failed(format!(
                "{} orders failed, one with: {why}",
                counters.failed
            ))),
            _ => Ok(()),
        }
    }

    fn prove(&self, output: &mut Output) -> Result<(), CliError> {
        let started = self.entries.starts();
        let executions: u32 = started.values().sum();
        let unwitnessed = self.after.steps.iter().filter(|step| !started.contains_key(*step));
        let unwitnessed = unwitnessed.count();
        let proof = &self.proof;
        let mut facts = proof.facts();
        facts.push(fact("executions", "executions in the ledger, all runs", executions));
        facts.push(fact(
            "steps_without_execution",
            "recorded steps that never ran",
            unwitnessed,
        ));
        output.facts("does any finished step run twice?", &facts)?;
        if !proof.holds() {
            return Err(CliError::Failed(format!(
                "{} steps that were recorded as finished ran again",
                proof.recorded_run_again
            )));
        }
        if unwitnessed > 0 {
            return Err(CliError::Failed(format!(
                "{unwitnessed} steps are recorded as finished but never ran"
            )));
        }
        output.line(conclusion(proof))?;
        Ok(())
    }
}

/// The proof in a sentence.
fn conclusion(proof: &Proof) -> String {
    match (proof.recorded_before, proof.recorded_between, proof.in_flight_run_again) {
        (0, 0, _) => "every step ran; stop a run half-way and start it again to see it go on".to_owned(),
        (0, n, _) => format!("proof: of {n} steps that were seen finished while this run went on, 0 ran again"),
        (n, _, 0) => format!("proof: of {n} steps finished before this run, 0 ran again"),
        (n, _, k) => format!(
            "proof: of {n} steps finished before this run, 0 ran again; {k} that were under way at the \
             interruption ran again, as at-least-once means"
        ),
    }
}

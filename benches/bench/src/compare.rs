//! Interleaved rounds over targets, so that the machine's noise falls on all alike.

use crate::closed_loop::{Measurement, run_case};
use crate::process::load_average;
use crate::report::{Cell, Report, Row};
use crate::{BenchError, Case, Target, Wait};
use std::time::Duration;

/// The plan of a comparison.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The lines of the table.
    pub cases: Vec<Case>,
    /// How often each case is run on each target.
    pub rounds: u32,
    /// How long clients go on starting workflows in one round.
    pub duration: Duration,
    /// When a workflow counts as finished.
    pub wait: Wait,
}

/// A round that is about to be run, for progress displays.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    /// The case.
    pub case: &'a Case,
    /// The name of the target.
    pub target: &'a str,
    /// Which round of this case, from 1.
    pub number: u32,
    /// Position among all rounds of the plan, from 0.
    pub index: usize,
    /// How many rounds the plan has in all.
    pub total: usize,
}

/// Runs every case on every target, round by round in turn (A B A B …), each round on an empty store.
pub async fn compare(
    targets: &[Box<dyn Target>],
    plan: &Plan,
    mut about_to_run: impl FnMut(Round<'_>),
) -> Result<Report, BenchError> {
    let total = plan.cases.len() * targets.len() * plan.rounds as usize;
    let mut index = 0;
    let mut rows = Vec::new();
    let load_before = load_average();
    for case in &plan.cases {
        let mut measured: Vec<Vec<Measurement>> = targets.iter().map(|_| Vec::new()).collect();
        for number in 1..=plan.rounds {
            for (target, of_target) in targets.iter().zip(&mut measured) {
                about_to_run(Round {
                    case,
                    target: target.name(),
                    number,
                    index,
                    total,
                });
                of_target.push(one_round(target.as_ref(), case, plan).await?);
                index += 1;
            }
        }
        let cells = targets
            .iter()
            .zip(measured)
            .map(|(target, rounds)| Cell::new(target.name(), rounds))
            .collect();
        rows.push(Row { case: *case, cells });
    }
    Ok(Report {
        duration_s: plan.duration.as_secs_f64(),
        rounds: plan.rounds,
        wait: plan.wait,
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
        load_before,
        rows,
    })
}

async fn one_round(target: &dyn Target, case: &Case, plan: &Plan) -> Result<Measurement, BenchError> {
    target.wipe()?;
    let opened = target.open().await?;
    let result = run_case(opened.subject(), *case, plan.duration, plan.wait, "bench").await;
    let closed = opened.close().await;
    target.wipe()?;
    closed.and(result)
}

//! The simulator can fail: it must find an engine that is broken on purpose.

use crate::config::Config;
use crate::run::run;
use crate::sweep;
use perennial_workflow::testing::{Mutation, mutate};

/// Every way to break the engine, and a seed that is known to find it; `None` where only the sweep does.
pub const MUTATIONS: [(Mutation, Option<u64>); 21] = [
    (Mutation::SkipFence, Some(194)),
    (Mutation::LeaseFromFetchStart, Some(9)),
    (Mutation::DropClaimed, Some(148)),
    (Mutation::ForgetWakeUp, Some(0)),
    (Mutation::SkipAttempt, Some(0)),
    (Mutation::ForgetCrash, Some(6)),
    (Mutation::PublishBeforeCommit, Some(0)),
    (Mutation::KeepConsumed, Some(0)),
    (Mutation::LoseMessage, Some(1)),
    (Mutation::SendTwice, Some(0)),
    (Mutation::StaleSnapshot, Some(0)),
    (Mutation::IgnoreCancelled, Some(0)),
    (Mutation::Relaxed, Some(1)),
    (Mutation::EarlyTimers, Some(0)),
    (Mutation::NewestFirst, Some(10)),
    (Mutation::ReviveLapsed, Some(316)),
    (Mutation::PruneCurrent, Some(400)),
    (Mutation::TrustSuccess, Some(2)),
    (Mutation::TrustFailure, Some(10)),
    (Mutation::HandOutLapsed, Some(2)),
    (Mutation::DeleteUnderWay, None),
];

/// How a broken engine was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// By which seed, or where in the sweep.
    pub by: String,
    /// What was seen.
    pub violation: String,
}

/// Looks for a mutation: with a seed that is known to find it, among the seeds up to `seeds`, then in the sweep.
pub fn hunt(mutation: Mutation, known: Option<u64>, seeds: u64) -> Option<Found> {
    mutate(Some(mutation));
    let by_seed = |seed: u64| {
        let violation = run(&Config::of_seed(seed), false).violations.into_iter().next()?;
        Some(Found {
            by: format!("seed {seed}"),
            violation,
        })
    };
    let in_sweep = || {
        let (by, violation) = sweep::first_failure()?;
        Some(Found { by, violation })
    };
    let found = match known {
        Some(known) => by_seed(known)
            .or_else(|| (0..seeds).find_map(by_seed))
            .or_else(in_sweep),
        None => in_sweep().or_else(|| (0..seeds).find_map(by_seed)),
    };
    mutate(None);
    found
}

//! The simulator can fail: it must find an engine that is broken on purpose.

use crate::config::Config;
use crate::run::run;
use crate::sweep;
use perennial_workflow::testing::{Mutation, mutate};

/// Every way to break the engine.
pub const MUTATIONS: [Mutation; 21] = [
    Mutation::SkipFence,
    Mutation::LeaseFromFetchStart,
    Mutation::DropClaimed,
    Mutation::ForgetWakeUp,
    Mutation::SkipAttempt,
    Mutation::ForgetCrash,
    Mutation::PublishBeforeCommit,
    Mutation::KeepConsumed,
    Mutation::LoseMessage,
    Mutation::SendTwice,
    Mutation::StaleSnapshot,
    Mutation::IgnoreCancelled,
    Mutation::Relaxed,
    Mutation::EarlyTimers,
    Mutation::NewestFirst,
    Mutation::ReviveLapsed,
    Mutation::PruneCurrent,
    Mutation::DeleteUnderWay,
    Mutation::TrustSuccess,
    Mutation::TrustFailure,
    Mutation::HandOutLapsed,
];

/// How a broken engine was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// By which seed, or where in the sweep.
    pub by: String,
    /// What was seen.
    pub violation: String,
}

/// Looks for a mutation among the seeds, then in the sweep.
pub fn hunt(mutation: Mutation, seeds: u64) -> Option<Found> {
    mutate(Some(mutation));
    let by_seed = (0..seeds).find_map(|seed| {
        let violation = run(&Config::of_seed(seed), false).violations.into_iter().next()?;
        Some(Found {
            by: format!("seed {seed}"),
            violation,
        })
    });
    let found = by_seed.or_else(|| {
        let (by, violation) = sweep::first_failure()?;
        Some(Found { by, violation })
    });
    mutate(None);
    found
}

//! The simulator can fail: it must find an engine that is broken on purpose.

use crate::config::Kind;
use crate::run::run;
use crate::sweep;
use perennial_workflow::testing::{Mutation, mutate};
use std::ops::Range;

/// A mutation, how processes use the store, and the seed that is known to find the mutation.
pub type Broken = (Mutation, Kind, u64);

/// Every mutation.
pub const MUTATIONS: &[Broken] = &[
    (Mutation::SkipFence, Kind::Alone, 10),
    (Mutation::LeaseFromFetchStart, Kind::Alone, 17),
    (Mutation::DropClaimed, Kind::Alone, 243),
    (Mutation::ForgetWakeUp, Kind::Alone, 0),
    (Mutation::SkipAttempt, Kind::Alone, 0),
    (Mutation::ForgetCrash, Kind::Alone, 6),
    (Mutation::PublishBeforeCommit, Kind::Alone, 0),
    (Mutation::KeepConsumed, Kind::Alone, 0),
    (Mutation::LoseMessage, Kind::Alone, 1),
    (Mutation::SendTwice, Kind::Alone, 0),
    (Mutation::StaleSnapshot, Kind::Alone, 0),
    (Mutation::IgnoreCancelled, Kind::Alone, 0),
    (Mutation::Relaxed, Kind::Alone, 1),
    (Mutation::EarlyTimers, Kind::Alone, 3),
    (Mutation::NewestFirst, Kind::Alone, 12),
    (Mutation::ReviveLapsed, Kind::Alone, 316),
    (Mutation::PruneCurrent, Kind::Alone, 1391),
    (Mutation::TrustSuccess, Kind::Alone, 6),
    (Mutation::TrustFailure, Kind::Alone, 10),
    (Mutation::HandOutLapsed, Kind::Alone, 19),
    (Mutation::ReadOrdered, Kind::Alone, 0),
    (Mutation::HandOutCancelled, Kind::Alone, 4),
    (Mutation::CancelOrdered, Kind::Alone, 101),
    (Mutation::RenewAcked, Kind::Alone, 0),
    (Mutation::Reorder, Kind::Alone, 16),
    (Mutation::IgnoreLease, Kind::Shared, 1),
    (Mutation::TrustHints, Kind::Shared, 1),
    (Mutation::KeepClaimsHere, Kind::Shared, 1),
    (Mutation::DeleteIntentFirst, Kind::Shared, 3),
    (Mutation::LoseStaged, Kind::Shared, 123),
    (Mutation::DeliverTwice, Kind::Shared, 9),
    (Mutation::NoTombstone, Kind::Shared, 9),
    (Mutation::SplitCommit, Kind::Shared, 38),
    (Mutation::ForgetConsumed, Kind::Shared, 470),
    (Mutation::LeaveToOwners, Kind::Shared, 518),
    (Mutation::LoseInline, Kind::Shared, 3),
    (Mutation::SkipClaim, Kind::Shared, 0),
    (Mutation::HangOnClose, Kind::Shared, 0),
];

/// How a broken engine was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// By which seed, or where in the sweep.
    pub by: String,
    /// What was seen.
    pub violation: String,
}

/// Looks for a mutation: by the seed that is known to find it, then among these seeds, then in the sweep.
pub fn hunt((mutation, kind, known): Broken, mut seeds: Range<u64>) -> Option<Found> {
    mutate(Some(mutation));
    let by_seed = |seed: u64| {
        let violation = run(&kind.of_seed(seed), false).violations.into_iter().next()?;
        let by = format!("{} seed {seed}", kind.name());
        Some(Found { by, violation })
    };
    let in_sweep = || {
        let (by, violation) = sweep::first_failure(kind)?;
        Some(Found { by, violation })
    };
    let found = by_seed(known).or_else(|| seeds.find_map(by_seed)).or_else(in_sweep);
    mutate(None);
    found
}

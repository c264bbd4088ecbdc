//! The simulator can fail: it must find an engine that is broken on purpose.

use crate::config::Kind;
use crate::run::run;
use crate::sweep;
use perennial_workflow::testing::{Mutation, mutate};
use std::ops::Range;

/// Where a broken engine is known to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// By this seed.
    Seed(u64),
    /// In the sweep.
    Sweep,
}

/// A mutation, how processes use the store, and where the mutation is known to be found.
pub type Broken = (Mutation, Kind, Where);

/// Every mutation.
pub const MUTATIONS: &[Broken] = &[
    (Mutation::SkipFence, Kind::Alone, Where::Seed(10)),
    (Mutation::LeaseFromFetchStart, Kind::Alone, Where::Seed(17)),
    (Mutation::DropClaimed, Kind::Alone, Where::Seed(243)),
    (Mutation::ForgetWakeUp, Kind::Alone, Where::Seed(0)),
    (Mutation::SkipAttempt, Kind::Alone, Where::Seed(0)),
    (Mutation::ForgetCrash, Kind::Alone, Where::Seed(6)),
    (Mutation::PublishBeforeCommit, Kind::Alone, Where::Seed(0)),
    (Mutation::KeepConsumed, Kind::Alone, Where::Seed(0)),
    (Mutation::LoseMessage, Kind::Alone, Where::Seed(1)),
    (Mutation::SendTwice, Kind::Alone, Where::Seed(0)),
    (Mutation::StaleSnapshot, Kind::Alone, Where::Seed(0)),
    (Mutation::IgnoreCancelled, Kind::Alone, Where::Seed(0)),
    (Mutation::Relaxed, Kind::Alone, Where::Seed(1)),
    (Mutation::EarlyTimers, Kind::Alone, Where::Seed(3)),
    (Mutation::NewestFirst, Kind::Alone, Where::Seed(12)),
    (Mutation::ReviveLapsed, Kind::Alone, Where::Seed(316)),
    (Mutation::PruneCurrent, Kind::Alone, Where::Seed(1391)),
    (Mutation::TrustSuccess, Kind::Alone, Where::Seed(6)),
    (Mutation::TrustFailure, Kind::Alone, Where::Seed(10)),
    (Mutation::HandOutLapsed, Kind::Alone, Where::Seed(19)),
    (Mutation::ReadOrdered, Kind::Alone, Where::Seed(0)),
    (Mutation::HandOutCancelled, Kind::Alone, Where::Seed(4)),
    (Mutation::CancelOrdered, Kind::Alone, Where::Seed(101)),
    (Mutation::RenewAcked, Kind::Alone, Where::Seed(0)),
    (Mutation::Reorder, Kind::Alone, Where::Seed(16)),
    (Mutation::IgnoreLease, Kind::Shared, Where::Seed(1)),
    (Mutation::TrustHints, Kind::Shared, Where::Seed(1)),
    (Mutation::KeepClaimsHere, Kind::Shared, Where::Seed(1)),
    (Mutation::DeleteIntentFirst, Kind::Shared, Where::Seed(3)),
    (Mutation::LoseStaged, Kind::Shared, Where::Seed(123)),
    (Mutation::DeliverTwice, Kind::Shared, Where::Seed(9)),
    (Mutation::NoTombstone, Kind::Shared, Where::Seed(9)),
    (Mutation::SplitCommit, Kind::Shared, Where::Seed(38)),
    (Mutation::ForgetConsumed, Kind::Shared, Where::Seed(470)),
    (Mutation::LeaveToOwners, Kind::Shared, Where::Seed(518)),
    (Mutation::LoseInline, Kind::Shared, Where::Seed(3)),
    (Mutation::SkipClaim, Kind::Shared, Where::Seed(0)),
    (Mutation::HangOnClose, Kind::Shared, Where::Seed(0)),
];

/// How a broken engine was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// By which seed, or where in the sweep.
    pub by: String,
    /// What was seen.
    pub violation: String,
}

/// Looks for a mutation: where it is known to be found, then among these seeds, then in the sweep.
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
    let found = match known {
        Where::Seed(known) => by_seed(known).or_else(|| seeds.find_map(by_seed)).or_else(in_sweep),
        Where::Sweep => in_sweep().or_else(|| seeds.find_map(by_seed)),
    };
    mutate(None);
    found
}

//! Ways to break leases on purpose, to prove that the tests find it.
//!
//! Outside of this crate's own tests, nothing of this is compiled.

/// One defect.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// All nonces are equal.
    EqualContent,
    /// An owner takes its lease to be valid until it is told otherwise.
    ServeAfterLease,
    /// An owner measures its lease from the moment when it learnt that the renewal succeeded.
    MeasureFromReply,
    /// A standby measures from the moment before it asked.
    SeenBeforeAsked,
    /// A standby takes over after half the length.
    TakeEarly,
    /// A standby overwrites the lease whatever its version.
    SkipVersion,
    /// A refused write is taken not to have happened.
    TrustRefusal,
    /// A dropped acquisition leaves the lease to run out.
    ForgetWithdrawal,
    /// The time of modification is compared with the wall clock of this machine.
    TrustWallClock,
}

#[cfg(test)]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Breaks every lease on this thread, or mends them all.
#[cfg(test)]
pub(super) fn mutate(mutation: Option<Mutation>) {
    ACTIVE.set(mutation);
}

/// Whether the leases on this thread have this defect.
#[cfg(test)]
pub(super) fn is(mutation: Mutation) -> bool {
    ACTIVE.get() == Some(mutation)
}

/// `mutant!(Name, wrong, right)` is `right`, or `wrong` where the mutation is active.
#[cfg(test)]
macro_rules! mutant {
    ($name:ident, $wrong:expr, $right:expr) => {
        if $crate::lease::mutation::is($crate::lease::mutation::Mutation::$name) {
            $wrong
        } else {
            $right
        }
    };
}

/// What is right: nothing is broken outside of tests.
#[cfg(not(test))]
macro_rules! mutant {
    ($name:ident, $wrong:expr, $right:expr) => {
        $right
    };
}

pub(super) use mutant;

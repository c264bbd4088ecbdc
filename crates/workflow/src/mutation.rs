//! Ways to break the engine on purpose, to prove that the tests find a broken engine.
//!
//! Without the feature `testing`, nothing of this is compiled.

/// One defect. Those marked *store* are made by the test's own store, in the commits that the engine sends it.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// A turn replaces the head whatever its version, and its claim lapses while it commits.
    SkipFence,
    /// A lease starts when a fetch starts, not when the work is handed out.
    LeaseFromFetchStart,
    /// What was claimed for a fetch that failed or was dropped is not released.
    DropClaimed,
    /// Waiting fetches are not woken.
    ForgetWakeUp,
    /// Deliveries are not counted.
    SkipAttempt,
    /// Work that a killed process had fetched does not count as handed out.
    ForgetCrash,
    /// Activities are offered before the turn that schedules them is durable.
    PublishBeforeCommit,
    /// A message that a turn consumed stays in the store (*store*).
    KeepConsumed,
    /// A turn's messages to other instances are not stored (*store*).
    LoseMessage,
    /// A client's message is stored twice.
    SendTwice,
    /// A turn leaves the cache unchanged.
    StaleSnapshot,
    /// Activities that a turn cancels stay queued.
    IgnoreCancelled,
    /// Commits are reported before they are durable (*store*).
    Relaxed,
    /// Timers are stored as due at once (*store*).
    EarlyTimers,
    /// The newest message comes first.
    NewestFirst,
    /// An expired lease becomes valid again when the clock is put back.
    ReviveLapsed,
    /// Pruning removes every execution but the one that was current when it began.
    PruneCurrent,
    /// A deletion ignores commits that are under way.
    DeleteUnderWay,
    /// A commit whose reply was lost is taken to have happened (*store*).
    TrustSuccess,
    /// A commit whose reply was lost is taken not to have happened (*store*).
    TrustFailure,
    /// A turn is handed out although another dispatcher claimed it while it was read.
    HandOutLapsed,
    /// Another process's lease on an instance or an activity is ignored, and (*store*) so is the version that it wrote.
    IgnoreLease,
    /// What was read before a claim is used after it.
    TrustHints,
    /// An activity is handed out on a claim that other processes cannot see.
    KeepClaimsHere,
    /// An intent is removed before its message is delivered.
    DeleteIntentFirst,
    /// A message that is delivered again gets another id.
    DeliverTwice,
    /// A message from an outbox leaves no tombstone, whatever became of its intent.
    NoTombstone,
    /// A turn that is larger than a commit is written as several commits (*store*).
    SplitCommit,
    /// The head does not record which messages were consumed.
    ForgetConsumed,
    /// Work with another preferred owner is left to it for ever.
    LeaveToOwners,
    /// A message that is taken out of a head gets no record.
    LoseInline,
    /// A process that finds a pending turn drops the rest of it.
    LoseStaged,
    /// An instance is handed out on a claim that was not written (*store*).
    SkipClaim,
    /// A process that leaves a shared store hangs.
    HangOnClose,
    /// Readers see a turn when it is ordered.
    ReadOrdered,
    /// A queued activity that an ordered turn cancels is handed out.
    HandOutCancelled,
    /// An activity that runs is cancelled when the turn that cancels it is ordered.
    CancelOrdered,
    /// A token can be renewed after its ack.
    RenewAcked,
    /// A commit is made durable before one that was ordered earlier (*store*).
    Reorder,
}

#[cfg(feature = "testing")]
mod active {
    use super::Mutation;
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// Breaks every engine on this thread, or mends them all.
    pub fn mutate(mutation: Option<Mutation>) {
        ACTIVE.set(mutation);
    }

    /// Whether the engines on this thread have this defect.
    pub fn is(mutation: Mutation) -> bool {
        ACTIVE.get() == Some(mutation)
    }
}

#[cfg(feature = "testing")]
pub use active::{is, mutate};

/// `mutant!(Name, wrong, right)` is `right`, or `wrong` where the mutation is active; `mutant!(Name, wrong)` is nothing,
/// or `wrong`. Without the feature `testing`, `wrong` is not compiled.
#[cfg(feature = "testing")]
macro_rules! mutant {
    ($name:ident, $wrong:expr) => {
        if $crate::mutation::is($crate::mutation::Mutation::$name) {
            $wrong;
        }
    };
    ($name:ident, $wrong:expr, $right:expr) => {
        if $crate::mutation::is($crate::mutation::Mutation::$name) {
            $wrong
        } else {
            $right
        }
    };
}

/// What is right: nothing is broken without the feature `testing`.
#[cfg(not(feature = "testing"))]
macro_rules! mutant {
    ($name:ident, $wrong:expr) => {};
    ($name:ident, $wrong:expr, $right:expr) => {
        $right
    };
}

pub(crate) use mutant;

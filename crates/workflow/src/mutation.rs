//! Ways to break the engine on purpose, to prove that the simulator finds what is broken.
//!
//! Without the feature `testing` nothing of this is compiled in but a constant `false`.

/// One thing that is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "testing"), allow(dead_code))]
pub enum Mutation {
    /// A turn replaces the head whatever its version, and its claim lapses while it commits.
    SkipFence,
    /// A lease counts from the start of a fetch.
    LeaseFromFetchStart,
    /// What was claimed for a fetch that failed or was dropped is not put back.
    DropClaimed,
    /// Nobody is woken.
    ForgetWakeUp,
    /// Deliveries are not counted.
    SkipAttempt,
    /// What a process that died had in hand does not count as handed out.
    ForgetCrash,
    /// Activities are offered before the turn that schedules them is durable.
    PublishBeforeCommit,
    /// A message that a turn consumed stays in the store.
    KeepConsumed,
    /// A turn's messages to other instances are not sent.
    LoseMessage,
    /// A message of a client is stored twice.
    SendTwice,
    /// A turn leaves the cache as it was.
    StaleSnapshot,
    /// Activities that a turn cancels go on.
    IgnoreCancelled,
    /// Commits are answered before they are durable.
    Relaxed,
    /// Timers are ready at once.
    EarlyTimers,
    /// The newest message comes first.
    NewestFirst,
    /// A lease that ran out is good again when the clock is put back.
    ReviveLapsed,
    /// Pruning takes what is not the execution that was current when it began.
    PruneCurrent,
    /// A deletion does not mind commits that are under way.
    DeleteUnderWay,
    /// A commit whose reply was lost is taken to have happened; the simulator's store answers so.
    TrustSuccess,
    /// A commit whose reply was lost is taken not to have happened; the simulator's store answers so.
    TrustFailure,
    /// A turn is handed out although another dispatcher took it while it was read.
    HandOutLapsed,
    /// Another process's lease on an instance or an activity does not count, nor does the version that it wrote.
    IgnoreLease,
    /// What was read before a claim is taken for what is there after it.
    TrustHints,
    /// An activity is handed out without a claim that others see.
    KeepClaimsHere,
    /// An intent is removed before its message is delivered.
    DeleteIntentFirst,
    /// A message that is delivered again is a new one.
    DeliverTwice,
    /// A message from an outbox leaves nothing behind, whatever became of its intent.
    NoTombstone,
    /// A turn that is larger than a commit is simply several commits.
    SplitCommit,
    /// The head does not tell which messages were consumed.
    ForgetConsumed,
    /// What is another process's is left to it for ever.
    LeaveToOwners,
    /// A message that is taken out of a head gets no record.
    LoseInline,
    /// What is pending of a turn is not done by who finds it.
    LoseStaged,
    /// An instance is handed out on a claim that is not written.
    SkipClaim,
    /// A process that leaves a shared store waits for what nobody does.
    HangOnClose,
}

#[cfg(feature = "testing")]
mod active {
    use super::Mutation;
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// Breaks every engine that runs on this thread, or mends them all.
    pub fn mutate(mutation: Option<Mutation>) {
        ACTIVE.set(mutation);
    }

    /// Whether this is broken.
    pub fn is(mutation: Mutation) -> bool {
        ACTIVE.get() == Some(mutation)
    }
}

#[cfg(feature = "testing")]
pub use active::{is, mutate};

/// Whether this is broken: never.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub const fn is(_: Mutation) -> bool {
    false
}

//! How an engine works on its store: alone, or beside other processes.
//!
//! Everything that differs between the two is decided here and nowhere else. What a process does alone is in
//! [`exclusive`], what it does beside others in [`shared`]; both are called with what they need, and neither checks the mode.

use crate::board::{ClaimId, Handed, QueuedMessage, Reservation, Want, Window, WorkWant};
use crate::engine::Engine;
use crate::exclusive;
use crate::instance::{Snapshot, Trust};
use crate::order::Sequencer;
use crate::outbox;
use crate::queued::NewMessage;
use crate::read::Freshness;
use crate::records::head::{Head, Lease};
use crate::records::lanes::LaneLayout;
use crate::records::work::Activity;
use crate::recover;
use crate::settings::Settings;
use crate::shared::{self, Arrival, ArrivalClaim, Shared};
use crate::turn::{self, Turn};
use crate::work::{self, Worker};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Commit, Committed, Draft, Key, Op, Order, Record, Result, Sharing, Store, Version};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// Whether other processes work on the store too.
pub enum Mode {
    /// The store belongs to this process. The board and the cache are the truth, and claims live in memory.
    Exclusive,
    /// Other processes read and write it too. The board and the cache hold hints, and claims are conditional writes.
    Shared(Arc<Shared>),
}

/// What an engine is made with.
impl Mode {
    /// The mode that a store demands.
    pub fn of(store: &dyn Store, settings: &Settings) -> Self {
        match store.sharing() {
            Sharing::Exclusive => Self::Exclusive,
            Sharing::Shared => Self::Shared(Arc::new(Shared::new(settings))),
        }
    }

    /// Whether other processes work on the store too. For construction: what differs later is a method here.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// A number that every opening of the store has for itself.
    pub fn epoch(&self, store: &dyn Store) -> u64 {
        match self {
            Self::Exclusive => store.epoch(),
            Self::Shared(shared) => shared.seed,
        }
    }

    /// Gives out orders of arrival.
    pub fn sequencer(&self) -> Sequencer {
        match self {
            Self::Exclusive => Sequencer::default(),
            Self::Shared(shared) => Sequencer::of_process(shared.seed),
        }
    }

    /// How the lanes are laid out: beside others, one query must find all work.
    pub fn lanes(&self) -> LaneLayout {
        match self {
            Self::Exclusive => LaneLayout::Split,
            Self::Shared(_) => LaneLayout::Combined,
        }
    }

    /// The name of this process in its records, if others must tell them apart.
    pub fn process_id(&self) -> Option<&Arc<str>> {
        match self {
            Self::Exclusive => None,
            Self::Shared(shared) => Some(&shared.owner),
        }
    }
}

/// Opening and leaving.
impl Mode {
    /// Begins to work on the store, or refuses one that cannot serve.
    pub async fn open(&self, engine: &Arc<Engine>) -> Result<()> {
        match self {
            Self::Exclusive => recover::recover(engine).await,
            Self::Shared(_) => shared::open(engine),
        }
    }

    /// Writes down, or releases, what is only in memory.
    pub async fn leave(&self, engine: &Arc<Engine>) -> Result<()> {
        match self {
            Self::Exclusive => recover::leave(engine).await,
            Self::Shared(shared) => shared::leave(engine, shared).await,
        }
    }
}

/// Commits and reads.
impl Mode {
    /// Makes a commit recognisable, so that its outcome can be found out if the reply is lost.
    pub fn stamp(&self, commit: &mut Commit) {
        if let Self::Shared(shared) = self {
            shared.stamps.mark(commit);
        }
    }

    /// When a cached snapshot counts as the newest without a request.
    pub fn trust(&self, now_ms: u64) -> Trust {
        match self {
            Self::Exclusive => Trust::Always,
            Self::Shared(_) => Trust::At(now_ms),
        }
    }

    /// The cached snapshot of an instance, if it is as new as it must be.
    pub fn cached(&self, engine: &Engine, instance: &str, freshness: Freshness) -> Option<Arc<Snapshot>> {
        match (self, freshness) {
            (Self::Exclusive, _) | (Self::Shared(_), Freshness::Recent) => engine.cache.get(instance, engine.trust()),
            (Self::Shared(_), Freshness::Latest) => None,
        }
    }

    /// The cached snapshot of an instance, if a read of its head has just confirmed that it is the newest.
    pub fn confirmed(&self, engine: &Engine, instance: &Arc<str>, head: Option<&Version>) -> Option<Arc<Snapshot>> {
        match self {
            Self::Exclusive => None,
            Self::Shared(_) => shared::confirmed(engine, instance, head),
        }
    }

    /// Whether a snapshot that took several reads is of one moment.
    pub async fn is_consistent(&self, engine: &Engine, instance: &str, snapshot: &Snapshot) -> Result<bool> {
        match self {
            Self::Exclusive => Ok(true),
            Self::Shared(_) => shared::is_consistent(engine, instance, snapshot).await,
        }
    }

    /// Whether the ack of this commit returns once it is ordered. Beside others, a commit is not known to succeed before its
    /// reply; a turn that needs an outbox or several commits has work to do after the first of them.
    pub fn orders(&self, engine: &Engine, commit: &Commit) -> bool {
        let limits = engine.store.limits();
        matches!(self, Self::Exclusive) && limits.partitions_per_commit > 1 && commit.ops.len() <= limits.ops_per_commit
    }

    /// From here on, reads of an instance show everything that any process had stored before this call. For operations that
    /// remove what they find: what an old read misses would stay.
    pub async fn catch_up(&self, engine: &Engine, instance: &str) -> Result<()> {
        match self {
            Self::Exclusive => {
                engine.outstanding.of(instance).await;
                Ok(())
            }
            Self::Shared(_) => shared::is_surely_absent(engine, Head::key(instance)).await.map(|_| ()),
        }
    }

    /// Whether a record that a read did not find is surely absent. If not, it is there, and every later read finds it.
    pub async fn is_surely_absent(&self, engine: &Engine, key: Key) -> Result<bool> {
        match self {
            Self::Exclusive => Ok(true),
            Self::Shared(_) => shared::is_surely_absent(engine, key).await,
        }
    }
}

/// Messages on their way in.
impl Mode {
    /// Stores a message to an instance and puts it on the board.
    pub async fn send(&self, engine: &Arc<Engine>, message: NewMessage, create: Op) -> Result<()> {
        match self {
            Self::Exclusive => exclusive::send(engine, message, create).await,
            Self::Shared(shared) => shared::send(engine, shared, message, create).await,
        }
    }

    /// Creates messages of one instance; beside others perhaps with a claim on it, for a dispatcher that waits here. `first`
    /// is the message that such a claim is for.
    pub async fn create_messages(
        &self,
        engine: &Arc<Engine>,
        ops: Vec<Op>,
        first: Option<Arrival>,
    ) -> Result<(Committed, Option<(Reservation, ArrivalClaim)>)> {
        match self {
            Self::Exclusive => Ok((engine.commit(Commit::new(ops)).await?, None)),
            Self::Shared(shared) => shared::create_messages(engine, shared, ops, first).await,
        }
    }

    /// Puts a message on the board that a commit has brought while the head was at the version `since`, and the claim that
    /// the same commit made.
    pub fn deliver(
        &self,
        engine: &Engine,
        instance: &Arc<str>,
        order: Order,
        queued: QueuedMessage,
        since: Option<Version>,
        reservation: Option<Reservation>,
    ) {
        match self {
            Self::Exclusive => exclusive::deliver(engine, instance, order, queued),
            Self::Shared(shared) => shared::deliver(engine, shared, instance, order, queued, since, reservation),
        }
    }

    /// The operation that consumes a message: it leaves a tombstone, or nothing. Beside others, a process that has changed
    /// the message since it was handed out has taken over.
    pub fn consume_op(&self, handed: &Handed, key: Key, tomb: Option<Draft>) -> Op {
        match (self, tomb) {
            (Self::Exclusive, Some(tomb)) => Op::Put(tomb),
            (Self::Exclusive, None) => Op::Remove(key),
            (Self::Shared(_), Some(tomb)) => Op::Replace(tomb, handed.version.clone()),
            (Self::Shared(_), None) => Op::Delete(key, handed.version.clone()),
        }
    }
}

/// Fetching.
impl Mode {
    /// A dispatcher has come for turns, on leases of `lock`.
    pub async fn begin_turns(&self, engine: &Arc<Engine>, want: &Want, lock: Duration) {
        if let Self::Shared(shared) = self {
            shared.saw_turn_lock(lock);
            shared::poll_first(engine, shared, want).await;
        }
    }

    /// A worker has come for activities, on leases of `lock`.
    pub async fn begin_work(&self, engine: &Arc<Engine>, want: &Want, lock: Duration) {
        if let Self::Shared(shared) = self {
            shared.saw_work_lock(lock);
            shared::poll_first(engine, shared, want).await;
        }
    }

    /// Looks again before an activity is taken that another process is preferred for.
    pub async fn refresh_foreign(&self, engine: &Arc<Engine>, want: &WorkWant) {
        if let Self::Shared(shared) = self {
            shared::refresh_foreign(engine, shared, want).await;
        }
    }

    /// Polls the store once, for a fetch that does not wait; returns whether there was anything new.
    pub async fn poll_now(&self, engine: &Arc<Engine>, want: &Want) -> bool {
        match self {
            Self::Exclusive => false,
            Self::Shared(shared) => shared::poll_now(engine, shared, want).await,
        }
    }

    /// A fetch is about to wait: whatever other processes bring must wake it.
    pub fn watch(&self, engine: &Arc<Engine>) {
        if let Self::Shared(shared) = self {
            shared::watch(engine, shared);
        }
    }

    /// Claims and reads the turn that a dispatcher has taken from the board; `None` if it turns out that there is none.
    pub async fn acquire_turn(
        &self,
        engine: &Arc<Engine>,
        guard: turn::ClaimGuard,
        window: &Window,
        lock: Duration,
    ) -> Result<Option<turn::Fetched>> {
        match self {
            Self::Exclusive => exclusive::turn::acquire(engine, guard, window, lock).await,
            Self::Shared(shared) => shared::turn::acquire(engine, shared, guard, window, lock).await,
        }
    }

    /// Claims and reads the activity that a worker has taken from the board; `None` if it is gone.
    pub async fn acquire_work(
        &self,
        engine: &Arc<Engine>,
        guard: work::ClaimGuard,
        worker: &Worker,
    ) -> Result<Option<work::Fetched>> {
        match self {
            Self::Exclusive => exclusive::work::acquire(engine, guard, worker).await,
            Self::Shared(shared) => shared::work::acquire(engine, shared, guard, worker).await,
        }
    }

    /// Whether another process is preferred for an activity. One of a session is its holder's.
    pub fn is_foreign(&self, activity: &Activity, order: Order, now_ms: u64) -> bool {
        match self {
            Self::Exclusive => false,
            Self::Shared(shared) => shared.is_foreign(activity, order, now_ms),
        }
    }
}

/// Claims that are held.
impl Mode {
    /// Waits until no other task writes what other processes see of a claim; `None` if there is no such claim.
    pub async fn enter(&self, engine: &Engine, id: ClaimId) -> Option<Option<OwnedMutexGuard<()>>> {
        match self {
            Self::Exclusive => Some(None),
            Self::Shared(_) => engine.enter(id).await.map(Some),
        }
    }

    /// Extends the lease on a turn in the store. Returns the time that it counts from, 0 where only memory counts.
    pub async fn renew_turn(&self, engine: &Arc<Engine>, token: &str, extend: Duration) -> Result<u64, ProviderError> {
        match self {
            Self::Exclusive => Ok(0),
            Self::Shared(shared) => shared::turn::renew(engine, shared, token, extend).await,
        }
    }

    /// Extends the lease on an activity in the store. Returns the time that it counts from, 0 where only memory counts.
    pub async fn renew_work(&self, engine: &Arc<Engine>, token: &str, extend: Duration) -> Result<u64, ProviderError> {
        match self {
            Self::Exclusive => Ok(0),
            Self::Shared(shared) => shared::work::renew(engine, shared, token, extend).await,
        }
    }

    /// Gives a turn back.
    pub async fn abandon_turn(&self, engine: &Arc<Engine>, abandoned: turn::Abandoned) -> Result<(), ProviderError> {
        match self {
            Self::Exclusive => abandoned.put_back(engine),
            Self::Shared(_) => shared::turn::abandon(engine, abandoned).await,
        }
    }

    /// Gives an activity back.
    pub async fn abandon_work(&self, engine: &Arc<Engine>, abandoned: work::Abandoned) -> Result<(), ProviderError> {
        match self {
            Self::Exclusive => abandoned.put_back(engine),
            Self::Shared(shared) => shared::work::abandon(engine, shared, abandoned).await,
        }
    }

    /// Extends the sessions of these workers that were used within `idle`; returns how many.
    pub async fn renew_sessions(
        &self,
        engine: &Engine,
        owners: &[&str],
        extend: Duration,
        idle: Duration,
    ) -> Result<usize> {
        match self {
            Self::Exclusive => Ok(exclusive::work::renew_sessions(engine, owners, extend, idle)),
            Self::Shared(shared) => shared::work::renew_sessions(engine, shared, owners, extend, idle).await,
        }
    }

    /// Forgets sessions that no worker holds and nothing waits for; returns how many.
    pub async fn clean_up_sessions(&self, engine: &Engine) -> Result<usize> {
        match self {
            Self::Exclusive => Ok(exclusive::work::clean_up_sessions(engine)),
            Self::Shared(shared) => shared::work::clean_up_sessions(engine, shared).await,
        }
    }
}

/// Acknowledging.
impl Mode {
    /// Ends an activity and sends its result.
    pub async fn finish_work(
        &self,
        engine: &Arc<Engine>,
        done: work::Done,
        result: Option<(outbox::Outgoing, Op)>,
    ) -> Result<(), ProviderError> {
        match self {
            Self::Exclusive => exclusive::work::finish(engine, done, result).await,
            Self::Shared(shared) => shared::work::finish(engine, shared, done, result).await,
        }
    }

    /// The lease that a turn leaves in the head if `more` is to be done: the next turn then needs no claim.
    pub fn next_lease(&self, now_ms: u64, more: impl FnOnce() -> bool) -> Option<Lease> {
        match self {
            Self::Exclusive => None,
            Self::Shared(shared) => more().then(|| shared.lease(now_ms, shared.turn_lock())),
        }
    }

    /// The records of activities that a turn cancels, if the board does not know all of them.
    pub async fn find_cancelled(&self, engine: &Engine, turn: &Turn) -> Result<Option<Vec<(Order, Key)>>> {
        match self {
            Self::Exclusive => Ok(None),
            Self::Shared(_) => shared::turn::find_cancelled(engine, turn).await.map(Some),
        }
    }

    /// For each activity that a turn schedules, until when its commit claims it for a worker here; 0 if it does not.
    pub fn claim_ahead(&self, engine: &Engine, items: &[WorkItem], now_ms: u64) -> Vec<u64> {
        match self {
            Self::Exclusive => vec![0; items.len()],
            Self::Shared(shared) => shared::work::claim_ahead(engine, shared, items, now_ms),
        }
    }

    /// Notes in the head which messages a turn has consumed, if a sender may store them again.
    pub fn note_consumed(&self, head: &mut Head, handed: &[Handed], now_ms: u64) {
        if let Self::Shared(_) = self {
            shared::turn::note_consumed(head, handed, now_ms);
        }
    }

    /// A turn has scheduled activities: some were claimed `ahead`, some `left` to whichever process takes them.
    pub fn scheduled(&self, engine: &Arc<Engine>, ahead: bool, left: bool) {
        if let Self::Shared(shared) = self {
            shared::work::scheduled(engine, shared, ahead, left);
        }
    }

    /// The commit of a turn has failed, `overtaken` if it met another version of the head than it was built on.
    pub fn turn_failed(&self, engine: &Engine, id: ClaimId, instance: &Arc<str>, overtaken: bool) {
        match self {
            Self::Shared(_) if overtaken => shared::turn::lose(engine, id, instance),
            _ => {
                let (mut board, now_ms) = engine.board.lock();
                board.end_commit(id, now_ms);
            }
        }
    }
}

/// Chores.
impl Mode {
    /// Whether chores are found by the poller, so that no housekeeper is needed.
    pub fn polls_chores(&self) -> bool {
        self.is_shared()
    }

    /// Another process has announced itself.
    pub async fn meet(&self, engine: &Engine, record: Record) -> Result<()> {
        match self {
            Self::Exclusive => Ok(()),
            Self::Shared(shared) => shared::meet(engine, shared, record).await,
        }
    }
}

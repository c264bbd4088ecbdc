//! The engine: what every operation works with.

use crate::board::{Board, Body, ClaimId, Pin, Subject};
use crate::budget::{Budget, Share};
use crate::chores::Housekeeper;
use crate::error;
use crate::instance::{Cache, Trust};
use crate::meters::Meters;
use crate::mode::Mode;
use crate::mutation::mutant;
use crate::order::Sequencer;
use crate::outbox::{KeyedMutex, Outbox};
use crate::outstanding::Outstanding;
use crate::records::chore::Topic;
use crate::records::lanes::LaneLayout;
use crate::records::work::Activity;
use crate::settings::Settings;
use crate::spawn::Spawner;
use crate::tuning::{FAILURE_PAUSE, RETRY_FOR};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{
    ChunkedStore, Clock, Commit, Committed, Error, OnDurable, Order, Refused, Result, RetryStore, Store,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tracing::warn;

pub struct Engine {
    pub store: Arc<dyn Store>,
    /// The same store, as the one that keeps the chunks of large bodies.
    pub parts: Arc<ChunkedStore>,
    pub board: Arc<Board>,
    pub cache: Cache,
    pub clock: Arc<dyn Clock>,
    pub orders: Sequencer,
    pub meters: Arc<Meters>,
    /// What is left of the memory budget for bodies of queued items.
    pub held: Arc<Budget>,
    pub settings: Settings,
    pub closed: AtomicBool,
    /// How the lanes are laid out.
    pub lanes: LaneLayout,
    /// Whether other processes work on the store too, and all that depends on it.
    pub mode: Mode,
    pub outbox: Outbox,
    /// Held to roll a turn of an instance forward, one task at a time.
    pub rolling: KeyedMutex,
    pub housekeeper: Housekeeper,
    /// Acknowledgements that are not durable yet.
    pub outstanding: Arc<Outstanding>,
    /// Starts background tasks.
    pub spawner: Spawner,
    /// Held by the call that recounts all instances, see [`crate::admin::recount`].
    pub counting: Arc<tokio::sync::Mutex<()>>,
}

/// A duration in milliseconds, at most `u64::MAX`.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time `by` later, at most `u64::MAX`.
pub fn later(now_ms: u64, by: Duration) -> u64 {
    now_ms.saturating_add(millis(by))
}

/// Earliest visibility time after `delay`. Adds 1 ms because the clock truncates.
pub fn put_off(now_ms: u64, delay: Duration) -> u64 {
    later(now_ms, delay).saturating_add(1)
}

/// Deadline of a poll that starts now.
pub fn deadline(now_ms: u64, poll: Duration) -> u64 {
    if poll.is_zero() { now_ms } else { put_off(now_ms, poll) }
}

impl Engine {
    pub fn new(store: Arc<dyn Store>, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let meters = Arc::new(Meters::new());
        let mode = Mode::of(&*store, &settings);
        // Part of every token and of the names of staged parts, so that those of another opening are not taken for ours.
        let epoch = mode.epoch(&*store);
        let retrying = Arc::new(RetryStore::new(store, Arc::clone(&clock), RETRY_FOR));
        let parts = Arc::new(ChunkedStore::new(
            retrying,
            Arc::clone(&clock),
            Topic::Parts.lane(),
            epoch,
        ));
        Self {
            board: Arc::new(Board::new(
                Arc::clone(&clock),
                epoch,
                mode.is_shared(),
                Arc::clone(&meters),
            )),
            cache: Cache::new(settings.cache_bytes, Arc::clone(&meters)),
            orders: mode.sequencer(),
            lanes: mode.lanes(),
            mode,
            spawner: Spawner::new(&*clock),
            store: Arc::clone(&parts) as Arc<dyn Store>,
            parts,
            clock,
            meters,
            held: Budget::new(settings.held_bytes),
            settings,
            closed: AtomicBool::new(false),
            outbox: Outbox::default(),
            rolling: KeyedMutex::default(),
            housekeeper: Housekeeper::default(),
            outstanding: Arc::default(),
            counting: Arc::default(),
        }
    }

    /// The name of this process in the ids of its records, where many processes share the store.
    pub fn process_id(&self) -> Option<&str> {
        self.mode.process_id().map(|process| &**process)
    }

    /// Whether the store was closed, or another engine takes over.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends background tasks: the store is being closed, or broke and another engine is about to start on it.
    pub fn retire(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether another process is preferred for an activity.
    pub fn is_foreign(&self, activity: &Activity, order: Order) -> bool {
        self.mode.is_foreign(activity, order, self.clock.now_ms())
    }

    /// The next order of arrival.
    pub fn next_order(&self) -> Order {
        self.orders.next(self.clock.now_ms())
    }

    /// Commits. Transient failures are retried, and lost replies resolved.
    pub async fn commit(&self, mut commit: Commit) -> Result<Committed> {
        self.mode.stamp(&mut commit);
        self.store.commit(commit).await
    }

    /// Orders a commit; `on_durable` is called when it is durable. Transient failures are retried.
    pub async fn order(&self, mut commit: Commit, on_durable: OnDurable) -> Result<(), Refused> {
        self.mode.stamp(&mut commit);
        self.store.order(commit, on_durable).await
    }

    /// A fetch has failed: waits a while before it tries again, so that a dead store is not flooded; fails if the fetch's
    /// time is over.
    pub async fn wait_out(
        &self,
        operation: &'static str,
        error: &Error,
        deadline_ms: u64,
    ) -> Result<(), ProviderError> {
        let left_ms = deadline_ms.saturating_sub(self.clock.now_ms());
        if left_ms == 0 {
            return Err(error::from_store(operation, error));
        }
        warn!(operation, %error, "the store failed; trying again");
        self.clock
            .sleep(FAILURE_PAUSE.min(Duration::from_millis(left_ms)))
            .await;
        Ok(())
    }

    /// When a cached snapshot counts as the newest without a request.
    pub fn trust(&self) -> Trust {
        self.mode.trust(self.clock.now_ms())
    }

    /// The runtime version that an instance is bound to, as far as the cache knows.
    pub fn known_pin(&self, instance: &str) -> Pin {
        let snapshot = self.cache.peek(instance);
        let pinned = snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.head()?.execution.pinned.as_ref());
        Pin::of(pinned)
    }

    /// Waits until no other task writes what other processes see of a claim; `None` if there is no such claim.
    pub async fn enter(&self, id: ClaimId) -> Option<OwnedMutexGuard<()>> {
        let gate = Arc::clone(&self.board.lock().0.claim(id)?.gate);
        Some(gate.lock_owned().await)
    }

    /// Makes the lease that a token names last `extend` from now, and returns what it is on. The store has it as lasting from
    /// `stored_ms`, 0 if it does not: if the clock was put back since, the lease lasts as long here.
    pub fn renew_lease(
        &self,
        operation: &'static str,
        token: &str,
        extend: Duration,
        stored_ms: u64,
        admits: impl Fn(&Subject) -> bool,
    ) -> Result<Subject, ProviderError> {
        let dead = || error::dead_token(operation);
        let id = self.board.claim_of(token).ok_or_else(dead)?;
        let (mut board, now_ms) = self.board.lock();
        board.advance(now_ms);
        let claim = board
            .claim(id)
            .filter(|claim| admits(&claim.subject))
            .ok_or_else(dead)?;
        let is_acked = mutant!(RenewAcked, false, claim.acked);
        if is_acked || claim.until_ms <= now_ms && !claim.committing {
            return Err(dead());
        }
        let subject = claim.subject.clone();
        board.extend(id, later(now_ms.max(stored_ms), extend));
        Ok(subject)
    }

    /// The body of a queued item that the caller keeps too.
    pub fn copied_body(&self, item: &WorkItem, bytes: usize) -> Body {
        self.share_of(bytes)
            .map_or(Body::Stored, |share| Body::Held(Arc::new(item.clone()), Some(share)))
    }

    /// The body of a queued item, as the board keeps it.
    pub fn body(&self, item: WorkItem, bytes: usize) -> Body {
        self.share_of(bytes)
            .map_or(Body::Stored, |share| Body::Held(Arc::new(item), Some(share)))
    }

    /// Memory for a body whose record has `bytes`; `None` if it is too large, or the budget is spent.
    fn share_of(&self, bytes: usize) -> Option<Arc<Share>> {
        let is_small = bytes <= self.settings.held_body_bytes;
        is_small
            .then(|| self.held.take(bytes + size_of::<WorkItem>()))
            .flatten()
    }
}

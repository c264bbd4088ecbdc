//! The engine: what every operation works with.

use crate::admin::two_phase_delete;
use crate::board::{Board, Body, ClaimId, Pin, Subject};
use crate::budget::{Budget, Share};
use crate::chores::Housekeeper;
use crate::error;
use crate::instance::{self, Cache, Snapshot, Trust};
use crate::meters::Meters;
use crate::order::Sequencer;
use crate::outbox::{KeyedMutex, Outbox};
use crate::records::head::Head;
use crate::records::lanes::LaneLayout;
use crate::records::partition;
use crate::records::work::Activity;
use crate::redo;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::spawn::Spawner;
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{ChunkedStore, Clock, Commit, Committed, Error, Order, Result, RetryStore, Sharing, Slot, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tracing::warn;

pub struct Engine {
    pub store: Arc<dyn Store>,
    /// The same, as what keeps the parts of large bodies.
    pub parts: Arc<ChunkedStore>,
    pub board: Arc<Board>,
    pub cache: Cache,
    pub clock: Arc<dyn Clock>,
    pub orders: Sequencer,
    pub meters: Arc<Meters>,
    /// What is left of the memory for the bodies of queued items.
    pub held: Arc<Budget>,
    pub settings: Settings,
    pub closed: AtomicBool,
    /// How the lanes are laid out.
    pub lanes: LaneLayout,
    /// What is needed where many processes share the store.
    pub shared: Option<Shared>,
    pub outbox: Outbox,
    /// Who rolls turns of an instance forward, one at a time.
    pub rolling: KeyedMutex,
    pub housekeeper: Housekeeper,
    /// Starts tasks that nobody waits for.
    pub spawner: Spawner,
    /// Held by the call that counts all instances anew, see [`crate::admin::recount`].
    pub counting: Arc<tokio::sync::Mutex<()>>,
}

/// A duration in milliseconds, as far as those can be counted.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time that is so much later, or the end of time.
pub fn later(now_ms: u64, by: Duration) -> u64 {
    now_ms.saturating_add(millis(by))
}

/// When something may be seen that is put off for so long from now on. Never too soon: clocks tell whole milliseconds, so that
/// now may be almost one more than it says.
pub fn put_off(now_ms: u64, delay: Duration) -> u64 {
    later(now_ms, delay).saturating_add(1)
}

/// Until when somebody waits who is ready to wait for so long from now on.
pub fn deadline(now_ms: u64, poll: Duration) -> u64 {
    if poll.is_zero() { now_ms } else { put_off(now_ms, poll) }
}

/// How long a fetch that failed waits before it tries again.
pub const BREATHER: Duration = Duration::from_millis(500);

/// How long a store that fails for the moment is waited for: less than the runtime's shortest lease.
pub const RETRY_FOR: Duration = Duration::from_secs(4);

impl Engine {
    pub fn new(store: Arc<dyn Store>, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let meters = Arc::new(Meters::new());
        let shared = (store.sharing() == Sharing::Shared).then(|| Shared::new(&settings));
        // Told in every token and in the names of staged parts, so that those of another opening are not taken for ours.
        let epoch = shared.as_ref().map_or_else(|| store.epoch(), |shared| shared.seed);
        let retrying = Arc::new(RetryStore::new(store, Arc::clone(&clock), RETRY_FOR));
        let parts = Arc::new(ChunkedStore::new(retrying, Arc::clone(&clock), epoch));
        Self {
            board: Arc::new(Board::new(
                Arc::clone(&clock),
                epoch,
                shared.is_some(),
                Arc::clone(&meters),
            )),
            cache: Cache::new(settings.cache_bytes, Arc::clone(&meters)),
            orders: shared
                .as_ref()
                .map_or_else(Sequencer::default, |shared| Sequencer::of_process(shared.seed)),
            lanes: if shared.is_some() {
                LaneLayout::Combined
            } else {
                LaneLayout::Split
            },
            shared,
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
            counting: Arc::default(),
        }
    }

    /// What marks the ids of this process's records, where many processes share the store.
    pub fn process_id(&self) -> Option<&str> {
        self.shared.as_ref().map(|shared| &*shared.owner)
    }

    /// Whether the store was let go of.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends what runs by itself: the store broke, and another engine is about to start on it.
    pub fn retire(&self) {
        self.closed.store(true, Ordering::Release);
        self.housekeeper.dismiss();
    }

    /// Whether an activity is another process's to work at, as far as it is anybody's. One of a session is its holder's.
    pub fn is_foreign(&self, activity: &Activity, order: Order) -> bool {
        let now_ms = self.clock.now_ms();
        let by_order = |shared: &Shared| shared.is_foreign(activity.tag.as_deref(), order, now_ms);
        activity.session.is_none() && self.shared.as_ref().is_some_and(by_order)
    }

    /// The next order of arrival.
    pub fn next_order(&self) -> Order {
        self.orders.next(self.clock.now_ms())
    }

    /// Commits. Failures that pass by themselves are waited out, and lost replies resolved.
    pub async fn commit(&self, mut commit: Commit) -> Result<Committed> {
        if let Some(shared) = &self.shared {
            shared.stamps.mark(&mut commit);
        }
        self.store.commit(commit).await
    }

    /// A fetch has failed: waits a while, so that a store that is dead is not asked again and again, or fails if the
    /// fetch's time is over.
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
        self.clock.sleep(BREATHER.min(Duration::from_millis(left_ms))).await;
        Ok(())
    }

    /// The newest snapshot of an instance, from memory or from the store. Where many processes share the store, what
    /// this one has just written or confirmed is taken for the newest.
    pub async fn snapshot(&self, instance: &Arc<str>) -> Result<Arc<Snapshot>> {
        if let Some(snapshot) = self.cache.get(instance, self.trust()) {
            return Ok(snapshot);
        }
        self.newest_snapshot(instance).await
    }

    /// The newest snapshot of an instance, for who must not miss what another process has just done.
    pub async fn sure_snapshot(&self, instance: &Arc<str>) -> Result<Arc<Snapshot>> {
        match self.shared {
            None => self.snapshot(instance).await,
            Some(_) => self.newest_snapshot(instance).await,
        }
    }

    /// What is taken for the newest without asking the store.
    pub fn trust(&self) -> Trust {
        match &self.shared {
            None => Trust::Always,
            Some(_) => Trust::At(self.clock.now_ms()),
        }
    }

    /// The newest snapshot of an instance as the store has it.
    pub async fn newest_snapshot(&self, instance: &Arc<str>) -> Result<Arc<Snapshot>> {
        let partition = partition(instance);
        let slot = Slot::of(&partition);
        loop {
            let began = self.cache.begin(slot);
            let record = self.store.get(&Head::key_in(partition.clone())).await?;
            let version = record.as_ref().map(|record| &record.version);
            if let Some(known) = self.cache.peek(instance)
                && self.shared.is_some()
                && known.head.as_ref().map(|(_, version)| version) == version
            {
                let involved = self.board.lock().0.is_involved(instance);
                self.cache.confirm(instance, self.clock.now_ms(), involved);
                return Ok(known);
            }
            let snapshot = Arc::new(instance::load_from(&*self.store, &partition, record).await?);
            if snapshot.head().is_some_and(|head| head.pending.is_some()) {
                redo::finish(self, &partition).await?;
                continue;
            }
            if snapshot.head().is_some_and(|head| head.deletion.is_some()) {
                return Ok(snapshot);
            }
            if self.shared.is_some() && !self.is_consistent(instance, &snapshot).await? {
                continue;
            }
            let involved = self.board.lock().0.is_involved(instance);
            return Ok(self.cache.fill(instance, slot, began, snapshot, self.trust(), involved));
        }
    }

    /// Whether nobody changed an instance while it was read: its head and the rest of it would not belong together.
    async fn is_consistent(&self, instance: &str, snapshot: &Snapshot) -> Result<bool> {
        let Some((_, version)) = &snapshot.head else {
            return Ok(true);
        };
        if snapshot.is_of_one_moment() {
            return Ok(true);
        }
        let now = self.store.get(&Head::key(instance)).await?;
        Ok(now.is_some_and(|now| now.version == *version))
    }

    /// The same, for callers of the provider.
    pub async fn snapshot_for(&self, operation: &'static str, instance: &str) -> Result<Arc<Snapshot>, ProviderError> {
        let found = match self.snapshot(&Arc::from(instance)).await {
            Ok(snapshot) => self.unless_deleted(instance, snapshot).await,
            failed => failed,
        };
        found.map_err(|e| error::from_store(operation, &e))
    }

    /// What is deleted is gone, even if something is left of it.
    pub async fn unless_deleted(&self, instance: &str, snapshot: Arc<Snapshot>) -> Result<Arc<Snapshot>> {
        match snapshot.head().and_then(|head| head.deletion.as_ref()) {
            Some(mark) if two_phase_delete::is_decided(self, instance, mark).await? => Ok(Arc::default()),
            _ => Ok(snapshot),
        }
    }

    /// Which runtime version an instance is bound to, as far as memory tells.
    pub fn known_pin(&self, instance: &str) -> Pin {
        let snapshot = self.cache.peek(instance);
        let pinned = snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.head()?.execution.pinned.as_ref());
        Pin::of(pinned)
    }

    /// Waits until nobody else writes what others see of a claim, where others see it; `None` if there is no such claim.
    pub async fn enter_shared(&self, id: ClaimId) -> Option<Option<OwnedMutexGuard<()>>> {
        match self.shared {
            None => Some(None),
            Some(_) => self.enter(id).await.map(Some),
        }
    }

    /// Waits until nobody else writes what others see of a claim; `None` if there is no such claim.
    pub async fn enter(&self, id: ClaimId) -> Option<OwnedMutexGuard<()>> {
        let gate = Arc::clone(&self.board.lock().0.claim(id)?.gate);
        Some(gate.lock_owned().await)
    }

    /// Makes the lease that a token names last `extend` from now, and tells what it is on. If the clock was put back since
    /// others were told of it, at `told_ms`, it lasts as long as they were told.
    pub fn renew_lease(
        &self,
        operation: &'static str,
        token: &str,
        extend: Duration,
        told_ms: u64,
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
        if claim.until_ms <= now_ms && !claim.committing {
            return Err(dead());
        }
        let subject = claim.subject.clone();
        board.extend(id, later(now_ms.max(told_ms), extend));
        Ok(subject)
    }

    /// The body of a queued item that somebody else keeps too.
    pub fn copied_body(&self, item: &WorkItem, bytes: usize) -> Body {
        self.share_of(bytes)
            .map_or(Body::Stored, |share| Body::Held(Arc::new(item.clone()), Some(share)))
    }

    /// The body of a queued item, as the board keeps it.
    pub fn body(&self, item: WorkItem, bytes: usize) -> Body {
        self.share_of(bytes)
            .map_or(Body::Stored, |share| Body::Held(Arc::new(item), Some(share)))
    }

    /// The memory for a body whose record has so many bytes; `None` if it is too large, or there is no room for it.
    fn share_of(&self, bytes: usize) -> Option<Arc<Share>> {
        let is_small = bytes <= self.settings.held_body_bytes;
        is_small
            .then(|| self.held.take(bytes + size_of::<WorkItem>()))
            .flatten()
    }
}

//! The engine: what every operation works with.

use crate::admin::condemn;
use crate::board::{Board, Body, Pin, Subject};
use crate::chores::Housekeeper;
use crate::instance::{self, Cache, Snapshot};
use crate::meters::Meters;
use crate::mutation::{self, Mutation};
use crate::order::Sequencer;
use crate::outbox::{Lines, Outbox};
use crate::records::partition;
use crate::redo;
use crate::settings::Settings;
use crate::{error, recover};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Clock, Commit, Committed, Error, Order, Patient, Result, Slot, Store, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::warn;

/// Durable workflows on a store: give it to `duroxide::runtime::Runtime` and `duroxide::Client` as their provider.
///
/// Clones share one engine.
#[derive(Clone)]
pub struct Workflows {
    pub(crate) engine: Arc<Engine>,
}

impl Workflows {
    /// Opens the workflows of a store, on the machine's clock.
    pub async fn open(store: Arc<dyn Store>, settings: Settings) -> Result<Self> {
        Self::open_with_clock(store, settings, SystemClock::shared()).await
    }

    /// Opens the workflows of a store, on a clock of the caller's.
    pub async fn open_with_clock(store: Arc<dyn Store>, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let engine = Arc::new(Engine::new(store, settings, clock));
        recover::recover(&engine).await?;
        Ok(Self { engine })
    }

    /// Writes down what is only in memory and lets go of the store. Runtimes on it must be shut down first.
    pub async fn close(&self) -> Result<()> {
        if self.engine.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.engine.housekeeper.dismiss();
        let left = recover::leave(&self.engine).await;
        self.engine.store.close().await.and(left)
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.engine.is_closed()
    }
}

pub struct Engine {
    pub store: Arc<dyn Store>,
    pub board: Arc<Board>,
    pub cache: Cache,
    pub clock: Arc<dyn Clock>,
    pub orders: Sequencer,
    pub meters: Arc<Meters>,
    pub settings: Settings,
    pub closed: AtomicBool,
    pub outbox: Outbox,
    /// Who rolls turns of an instance forward, one at a time.
    pub rolling: Lines,
    pub housekeeper: Housekeeper,
}

/// A duration in milliseconds, as far as those can be counted.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time that is so much later, or the end of time.
pub fn later(now_ms: u64, by: Duration) -> u64 {
    now_ms.saturating_add(millis(by))
}

/// How long a fetch that failed waits before it tries again.
pub const BREATHER: Duration = Duration::from_millis(500);

/// How long a store that fails for the moment is waited for: less than the runtime's shortest lease.
const PATIENCE: Duration = Duration::from_secs(4);

impl Engine {
    fn new(store: Arc<dyn Store>, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let meters = Arc::new(Meters::new());
        Self {
            board: Arc::new(Board::new(Arc::clone(&clock), store.epoch(), Arc::clone(&meters))),
            cache: Cache::new(settings.cache_bytes, Arc::clone(&meters)),
            orders: Sequencer::default(),
            store: Arc::new(Patient::new(store, Arc::clone(&clock), PATIENCE)),
            clock,
            meters,
            settings,
            closed: AtomicBool::new(false),
            outbox: Outbox::default(),
            rolling: Lines::default(),
            housekeeper: Housekeeper::default(),
        }
    }

    /// Whether the store was let go of.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The next order of arrival.
    pub fn next_order(&self) -> Order {
        self.orders.next(self.clock.now_ms())
    }

    /// Commits. Failures that pass by themselves are waited out, and lost replies resolved.
    pub async fn commit(&self, mut commit: Commit) -> Result<Committed> {
        if mutation::is(Mutation::Relaxed) {
            commit = commit.relaxed();
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

    /// The newest snapshot of an instance, from memory or from the store.
    pub async fn snapshot(&self, instance: &Arc<str>) -> Result<Arc<Snapshot>> {
        if let Some(snapshot) = self.cache.get(instance) {
            return Ok(snapshot);
        }
        let partition = partition(instance);
        let slot = Slot::of(&partition);
        loop {
            let began = self.cache.begin(slot);
            let snapshot = Arc::new(instance::load(&*self.store, instance).await?);
            if snapshot.head().is_some_and(|head| head.pending.is_some()) {
                redo::finish(self, &partition).await?;
                continue;
            }
            if snapshot.head().is_some_and(|head| head.condemned.is_some()) {
                return Ok(snapshot);
            }
            self.cache.fill(instance, slot, began, Arc::clone(&snapshot));
            return Ok(snapshot);
        }
    }

    /// The same, for callers of the provider.
    pub async fn snapshot_for(&self, operation: &'static str, instance: &str) -> Result<Arc<Snapshot>, ProviderError> {
        let failed = |e: Error| error::from_store(operation, &e);
        let snapshot = self.snapshot(&Arc::from(instance)).await.map_err(failed)?;
        match snapshot.head().and_then(|head| head.condemned.as_ref()) {
            // What is deleted is gone, even if something is left of it.
            Some(mark) if condemn::is_decided(self, instance, mark).await.map_err(failed)? => Ok(Arc::default()),
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

    /// Makes the lease that a token names last `extend` from now, and tells what it is on.
    pub fn renew_lease(
        &self,
        operation: &'static str,
        token: &str,
        extend: Duration,
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
        board.extend(id, later(now_ms, extend));
        Ok(subject)
    }

    /// The body of a queued item, as the board keeps it.
    pub fn body(&self, item: WorkItem, bytes: usize) -> Body {
        if bytes <= self.settings.held_body_bytes {
            Body::Held(Arc::new(item))
        } else {
            Body::Stored
        }
    }
}

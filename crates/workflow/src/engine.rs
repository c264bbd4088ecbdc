//! The engine: what every operation works with.

use crate::board::{Board, Body, Letter, Pin, Sort, Task};
use crate::instance::{self, Cache, Snapshot};
use crate::meters::Meters;
use crate::order::Sequencer;
use crate::records::work::Activity;
use crate::records::{message, partition};
use crate::settings::Settings;
use crate::{error, recover};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{
    Clock, Commit, Committed, Durability, Key, Order, Patient, Result, Slot, Store, SystemClock, Version,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
        recover::leave(&self.engine).await?;
        self.engine.store.close().await
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.engine.closed.load(Ordering::Acquire)
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
}

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
        }
    }

    /// The next order of arrival.
    pub fn next_order(&self) -> Order {
        self.orders.next(self.clock.now_ms())
    }

    /// Commits. Failures that pass by themselves are waited out, and lost replies resolved.
    pub async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.store.commit(commit).await
    }

    /// The newest snapshot of an instance, from memory or from the store.
    pub async fn snapshot(&self, instance: &Arc<str>) -> Result<Arc<Snapshot>> {
        if let Some(snapshot) = self.cache.get(instance) {
            return Ok(snapshot);
        }
        let slot = Slot::of(&partition(instance));
        let began = self.cache.begin(slot);
        let snapshot = Arc::new(instance::load(&*self.store, instance).await?);
        self.cache.fill(instance, slot, began, Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// The same, for callers of the provider.
    pub async fn snapshot_for(&self, operation: &'static str, instance: &str) -> Result<Arc<Snapshot>, ProviderError> {
        self.snapshot(&Arc::from(instance))
            .await
            .map_err(|e| error::from_store(operation, &e))
    }

    /// Which runtime version an instance is bound to, as far as memory tells.
    pub fn known_pin(&self, instance: &str) -> Pin {
        let snapshot = self.cache.peek(instance);
        let pinned = snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.head()?.execution.pinned.as_ref());
        Pin::of(pinned)
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

/// A message that a commit creates, before its version is known.
pub struct Post {
    pub instance: Arc<str>,
    pub order: Order,
    pub due_ms: u64,
    pub sort: Sort,
    pub body: Body,
    /// Which operation of the commit creates it.
    pub op: usize,
}

impl Post {
    /// Prepares a message and the operation that creates it.
    pub fn new(engine: &Engine, item: WorkItem, due_ms: u64, op: usize) -> Result<Option<(Self, perennial_store::Op)>> {
        let Some(instance) = message::target(&item).map(Arc::<str>::from) else {
            return Ok(None);
        };
        let order = engine.next_order();
        let draft = message::draft(&instance, &item, order, due_ms, 0)?;
        let sort = Sort::of(&item);
        let body = engine.body(item, draft.body.len());
        Ok(Some((
            Self {
                instance,
                order,
                due_ms,
                sort,
                body,
                op,
            },
            perennial_store::Op::Create(draft),
        )))
    }

    /// The message as it stands on the board once it is stored.
    pub fn letter(&self, version: Version) -> Letter {
        Letter {
            version,
            due_ms: self.due_ms,
            attempts: 0,
            noted: 0,
            old: false,
            sort: self.sort,
            body: self.body.clone(),
        }
    }
}

/// An activity that a commit creates, before its version is known.
pub struct Offer {
    pub order: Order,
    pub key: Key,
    pub activity: Activity,
    pub body: Body,
    /// Which operation of the commit creates it.
    pub op: usize,
}

impl Offer {
    /// Prepares an activity and the operation that creates it; `None` for items that are not activities.
    pub fn new(engine: &Engine, item: WorkItem, op: usize) -> Result<Option<(Self, perennial_store::Op)>> {
        let Some(activity) = Activity::of(&item) else {
            return Ok(None);
        };
        let order = engine.next_order();
        let draft = crate::records::work::draft(&activity, &item, order, 0, 0)?;
        let (key, body) = (draft.key.clone(), engine.body(item, draft.body.len()));
        Ok(Some((
            Self {
                order,
                key,
                activity,
                body,
                op,
            },
            perennial_store::Op::Create(draft),
        )))
    }

    /// The activity as it stands on the board once it is stored.
    pub fn task(&self, version: Version) -> Task {
        Task {
            key: self.key.clone(),
            version,
            activity: self.activity.clone(),
            attempts: 0,
            noted: 0,
            old: false,
            body: self.body.clone(),
            due_ms: 0,
        }
    }
}

/// The version that an operation wrote. A store that does not tell breaks the contract.
pub fn written(committed: &Committed, op: usize) -> Version {
    committed.version(op).cloned().unwrap_or_else(|| Version::number(0))
}

/// How a delivery count is written down: at once and for good if the item may have brought down a process before.
pub fn note_durability(old: bool) -> Durability {
    if old { Durability::Durable } else { Durability::Relaxed }
}

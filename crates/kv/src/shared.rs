//! One store in memory that many handles share, as processes share a database: for tests and simulation.

use crate::store::closed;
use crate::{EngineError, MemoryDisk, MemoryStore, Settings};
use async_trait::async_trait;
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Durability, Key, Lane, Limits, ListFilter, ListPage, Op,
    Record, Result, ScanPage, ScanQuery, Sharing, SignalSender, Signals, Store,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A database in memory. Each [`open`](Self::open) gives a handle that knows nothing of the others.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use perennial_kv::{Settings, SharedMemory};
/// use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId, Sharing, Store};
///
/// let database = SharedMemory::new(Settings::CLOUD_LIMITS).unwrap();
/// let (one, other) = (database.open(), database.open());
/// assert_eq!(one.sharing(), Sharing::Shared);
/// let key = Key::new(Partition::new("order-1"), RecordId::of("head"));
/// one.commit(Commit::new(vec![Op::Create(Draft::new(key.clone(), "{}"))])).await.unwrap();
/// one.close().await.unwrap();
/// assert!(one.get(&key).await.is_err());
/// assert!(other.get(&key).await.unwrap().is_some());
/// # });
/// ```
#[derive(Clone)]
pub struct SharedMemory {
    store: Arc<MemoryStore>,
    disk: MemoryDisk,
    signal_capacity: usize,
}

impl SharedMemory {
    /// A new, empty database; [`Settings::CLOUD_LIMITS`] are the limits of one in the cloud.
    pub fn new(limits: Limits) -> std::result::Result<Self, EngineError> {
        Self::on_disk(&MemoryDisk::default(), Settings::with_limits(limits))
    }

    /// The database on an existing disk. Handles of an earlier database on the same disk are fenced off.
    pub fn on_disk(disk: &MemoryDisk, settings: Settings) -> std::result::Result<Self, EngineError> {
        let signal_capacity = settings.signal_capacity;
        Ok(Self {
            store: Arc::new(MemoryStore::open_disk(disk, settings)?),
            disk: disk.clone(),
            signal_capacity,
        })
    }

    /// A new handle, as another process would have.
    pub fn open(&self) -> Arc<dyn Store> {
        Arc::new(Handle {
            store: Arc::clone(&self.store),
            signals: SignalSender::new(self.signal_capacity),
            closed: AtomicBool::new(false),
        })
    }

    /// The store behind all handles: lets tests bypass the handles.
    pub fn raw(&self) -> &Arc<MemoryStore> {
        &self.store
    }

    /// The disk of the database: lets tests damage records and find leftovers behind the store's back.
    pub fn disk(&self) -> &MemoryDisk {
        &self.disk
    }
}

/// One handle of a [`SharedMemory`].
struct Handle {
    store: Arc<MemoryStore>,
    /// Signals this handle's own commits only: a database does not notify other processes.
    signals: SignalSender,
    closed: AtomicBool,
}

impl Handle {
    fn check(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(closed()),
            false => Ok(()),
        }
    }
}

/// The lanes that a commit puts records into.
fn lanes(commit: &Commit) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for place in commit.ops.iter().filter_map(|op| Op::draft(op)?.place.as_ref()) {
        if !lanes.contains(&place.lane) {
            lanes.push(place.lane.clone());
        }
    }
    lanes
}

#[async_trait]
impl Store for Handle {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }

    fn epoch(&self) -> u64 {
        0
    }

    async fn commit(&self, mut commit: Commit) -> Result<Committed> {
        self.check()?;
        commit.durability = Durability::Durable;
        let lanes = lanes(&commit);
        let committed = self.store.commit(commit).await?;
        for lane in &lanes {
            self.signals.placed(lane);
        }
        Ok(committed)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.check()?;
        self.store.get(key).await
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.check()?;
        self.store.scan(query).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.check()?;
        let page = self.store.due(query).await?;
        // A database returns what is ready; when the next record is due, only its writer knows.
        Ok(DuePage {
            next_due_ms: None,
            ..page
        })
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.check()?;
        self.store.list(filter, after, limit).await
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.check()?;
        self.store.counters().await
    }

    fn signals(&self) -> Signals {
        self.signals.subscribe()
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

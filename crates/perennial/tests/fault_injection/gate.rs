//! A store that stops at chosen points until it is told to go on.

use async_trait::async_trait;
use perennial_kv::{EngineError, MemoryDisk, MemoryStore, SharedMemory};
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Error, HealthWatch, Key, Limits, ListFilter, ListPage,
    Partition, Record, Result, ScanPage, ScanQuery, Sharing, Signals, Store,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// Where a call stops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Before a record is read.
    Get,
    /// After a record was read, before the reply.
    Got,
    /// Before a partition is read.
    Scan,
    /// Before a due query.
    Due,
    /// Before a commit.
    Commit,
    /// After a commit, before its reply.
    Reply,
}

type Guard = (Door, oneshot::Sender<()>, oneshot::Receiver<Way>);

/// What happens to a stopped call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    On,
    Lost,
}

/// A memory store with such points.
pub struct Gate {
    inner: Arc<dyn Store>,
    guards: Mutex<Vec<Guard>>,
    is_down: AtomicBool,
    /// A partition of which reads are old, with what they show.
    lagging: Mutex<Option<(Partition, Vec<Record>)>>,
}

/// A call that will stop.
pub struct Stopped {
    came: oneshot::Receiver<()>,
    go: oneshot::Sender<Way>,
}

impl Stopped {
    /// Waits until a call has stopped.
    pub async fn came(&mut self) {
        (&mut self.came).await.unwrap();
    }

    /// Lets it through.
    pub fn go(self) {
        self.go.send(Way::On).ok();
    }

    /// Drops a stopped commit: it does not get to the store, and its outcome is unknown.
    pub fn lose(self) {
        self.go.send(Way::Lost).ok();
    }
}

impl Gate {
    /// A store on this disk.
    pub fn open(disk: &MemoryDisk) -> Arc<Self> {
        Self::open_with(disk, perennial_kv::Settings::default()).unwrap()
    }

    /// A store on this disk, unless the disk fails.
    pub fn open_with(
        disk: &MemoryDisk,
        settings: perennial_kv::Settings,
    ) -> std::result::Result<Arc<Self>, EngineError> {
        let inner = MemoryStore::open_disk(disk, settings)?;
        Ok(Self::before(Arc::new(inner)))
    }

    /// A store that other processes use, too.
    pub fn shared(database: &SharedMemory) -> Arc<Self> {
        Self::before(database.open())
    }

    fn before(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            guards: Mutex::default(),
            is_down: AtomicBool::new(false),
            lagging: Mutex::default(),
        })
    }

    /// Makes reads of a partition show it as it is now, until a commit to it through this store returns: session consistency.
    pub async fn lag(&self, partition: Partition) {
        let all = ScanQuery::all(partition.clone(), usize::MAX);
        let records = self.inner.scan(&all).await.unwrap().records;
        *self.lagging.lock().unwrap() = Some((partition, records));
    }

    /// What an old read of a partition shows, if its reads are old.
    fn old(&self, partition: &Partition) -> Option<Vec<Record>> {
        let lagging = self.lagging.lock().unwrap();
        lagging
            .as_ref()
            .filter(|(of, _)| of == partition)
            .map(|(_, records)| records.clone())
    }

    fn catch_up(&self, written: &[Partition]) {
        let mut lagging = self.lagging.lock().unwrap();
        if lagging
            .as_ref()
            .is_some_and(|(partition, _)| written.contains(partition))
        {
            *lagging = None;
        }
    }

    /// Makes commits fail, or succeed again.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Stops the next call that reaches this point.
    pub fn stop_next(&self, door: Door) -> Stopped {
        let (arrive, came) = oneshot::channel();
        let (go, wait) = oneshot::channel();
        self.guards.lock().unwrap().push((door, arrive, wait));
        Stopped { came, go }
    }

    async fn pass(&self, door: Door) -> Way {
        let guard = {
            let mut guards = self.guards.lock().unwrap();
            let at = guards.iter().position(|guard| guard.0 == door);
            at.map(|at| guards.remove(at))
        };
        if let Some((_, arrive, wait)) = guard {
            arrive.send(()).ok();
            return wait.await.unwrap_or(Way::On);
        }
        Way::On
    }
}

#[async_trait]
impl Store for Gate {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn sharing(&self) -> Sharing {
        self.inner.sharing()
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        if self.pass(Door::Commit).await == Way::Lost {
            return Err(Error::UnknownOutcome("the request was lost".to_owned()));
        }
        if self.is_down.load(Ordering::Relaxed) {
            return Err(Error::Unavailable("the store is down".to_owned()));
        }
        let written: Vec<Partition> = commit.ops.iter().map(|op| op.key().partition.clone()).collect();
        let outcome = self.inner.commit(commit).await;
        self.catch_up(&written);
        self.pass(Door::Reply).await;
        outcome
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.pass(Door::Get).await;
        if let Some(old) = self.old(&key.partition) {
            return Ok(old.into_iter().find(|record| record.key == *key));
        }
        let found = self.inner.get(key).await;
        self.pass(Door::Got).await;
        found
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.pass(Door::Scan).await;
        if let Some(mut records) = self.old(&query.partition) {
            records.retain(|record| query.includes(&record.key.id));
            return Ok(ScanPage { records, next: None });
        }
        self.inner.scan(query).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.pass(Door::Due).await;
        self.inner.due(query).await
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.inner.list(filter, after, limit).await
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.inner.counters().await
    }

    fn signals(&self) -> Signals {
        self.inner.signals()
    }

    fn health(&self) -> HealthWatch {
        self.inner.health()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

//! The stores of this crate, for the scenario suites.
#![allow(dead_code, clippy::unwrap_used)]

use async_trait::async_trait;
use duroxide::provider_validation::ProviderFactory;
use duroxide::providers::Provider;
use perennial_kv::{MemoryDisk, MemoryStore};
use perennial_scenarios::Backend;
use perennial_store::{Limits, Store};
use perennial_workflow::{Settings, Workflows, testing};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Where a store's data is, and how it is opened.
#[async_trait]
pub trait Medium: Send + Sync {
    /// An empty place.
    fn new() -> Self;
    /// Opens the store that is there.
    async fn open(&self) -> Arc<dyn Store>;
    /// What a crash does to what is there.
    fn crash(&self) {}
    /// How many messages a turn brings at most.
    fn messages_per_turn() -> usize {
        usize::MAX
    }
    /// How workflows are opened on it.
    fn settings() -> Settings {
        Settings::default()
    }
}

/// Memory that outlives the store on it.
pub struct Memory(MemoryDisk);

#[async_trait]
impl Medium for Memory {
    fn new() -> Self {
        Self(MemoryDisk::default())
    }

    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::open_disk(&self.0, perennial_kv::Settings::default()).unwrap())
    }

    fn crash(&self) {
        self.0.crash();
    }
}

/// Memory under an engine that caches nothing: every instance and every queued body is read whenever it is needed.
pub struct NoCache(Memory);

#[async_trait]
impl Medium for NoCache {
    fn new() -> Self {
        Self(Memory::new())
    }

    async fn open(&self) -> Arc<dyn Store> {
        self.0.open().await
    }

    fn crash(&self) {
        self.0.crash();
    }

    fn settings() -> Settings {
        Settings {
            cache_bytes: 1,
            held_body_bytes: 0,
            ..Settings::default()
        }
    }
}

/// Memory with the limits of a cloud database: a hundred operations and one partition in a commit. Byte limits belong
/// to another layer.
pub struct Cloud(Memory);

/// Those limits.
pub const CLOUD: Limits = Limits {
    bytes_per_commit: usize::MAX,
    bytes_per_record: usize::MAX,
    ..perennial_kv::Settings::CLOUD_LIMITS
};

#[async_trait]
impl Medium for Cloud {
    fn new() -> Self {
        Self(Memory::new())
    }

    async fn open(&self) -> Arc<dyn Store> {
        let settings = perennial_kv::Settings::with_limits(CLOUD);
        Arc::new(MemoryStore::open_disk(&self.0.0, settings).unwrap())
    }

    fn crash(&self) {
        self.0.crash();
    }

    fn messages_per_turn() -> usize {
        92
    }
}

/// A directory of its own.
pub struct Directory(TempDir);

#[async_trait]
impl Medium for Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn open(&self) -> Arc<dyn Store> {
        let path = self.0.path().join("store");
        Arc::new(perennial_fjall::open(path, perennial_fjall::Settings::default()).unwrap())
    }
}

/// The number of the next bucket.
static BUCKETS: AtomicU64 = AtomicU64::new(0);

/// A bucket in memory, under SlateDB.
pub struct Bucket(perennial_slatedb::Bucket);

#[async_trait]
impl Medium for Bucket {
    fn new() -> Self {
        let number = BUCKETS.fetch_add(1, Ordering::Relaxed);
        let location = perennial_slatedb::Location::parse(&format!("slatedb+memory:suite-{number}"));
        Self(location.unwrap().connect().unwrap())
    }

    async fn open(&self) -> Arc<dyn Store> {
        let opening = perennial_slatedb::Opening::new(perennial_slatedb::Settings::default());
        let engine = opening
            .open(&self.0, perennial_slatedb::Shard::default())
            .await
            .unwrap();
        // Reading the queues blocks.
        let store = tokio::task::spawn_blocking(move || {
            perennial_kv::KvStore::with_engine(engine, perennial_kv::Settings::default()).unwrap()
        });
        Arc::new(store.await.unwrap())
    }
}

/// A medium with workflows on it.
pub struct Fresh<M> {
    last: Mutex<Option<Workflows>>,
    // Dropped after the store that is on it.
    media: Mutex<Vec<Arc<M>>>,
}

impl<M: Medium> Fresh<M> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            media: Mutex::default(),
            last: Mutex::default(),
        }
    }

    fn last(&self) -> Workflows {
        self.last.lock().unwrap().clone().unwrap()
    }

    fn medium(&self) -> Arc<M> {
        Arc::clone(self.media.lock().unwrap().last().unwrap())
    }

    async fn begin(&self) -> Arc<dyn Provider> {
        self.media.lock().unwrap().push(Arc::new(M::new()));
        self.reopen().await
    }

    async fn reopen(&self) -> Arc<dyn Provider> {
        let workflows = Workflows::open(self.medium().open().await, M::settings())
            .await
            .unwrap();
        *self.last.lock().unwrap() = Some(workflows.clone());
        Arc::new(workflows)
    }
}

#[async_trait]
impl<M: Medium + 'static> Backend for Fresh<M> {
    fn messages_per_turn(&self) -> usize {
        M::messages_per_turn()
    }

    async fn open(&self) -> Arc<dyn Provider> {
        self.begin().await
    }

    async fn restart(&self) -> Arc<dyn Provider> {
        let last = self.last.lock().unwrap().take().unwrap();
        last.close().await.unwrap();
        drop(last);
        self.reopen().await
    }

    async fn crash(&self) -> Arc<dyn Provider> {
        let last = self.last.lock().unwrap().take().unwrap();
        testing::let_go(&last).await;
        drop(last);
        self.medium().crash();
        self.reopen().await
    }

    async fn plant_undecodable_message(&self, instance: &str) {
        testing::plant_message(&self.last(), instance, br#"{"item":{"FromTheFuture":{}},"attempts":0}"#)
            .await
            .unwrap();
        testing::plant_message(&self.last(), instance, b"no envelope at all")
            .await
            .unwrap();
    }

    async fn plant_undecodable_work(&self, instance: &str) {
        testing::plant_activity(&self.last(), instance, br#"{"item":{"FromTheFuture":{}},"attempts":0}"#)
            .await
            .unwrap();
        testing::plant_activity(&self.last(), instance, b"no envelope at all")
            .await
            .unwrap();
    }
}

#[async_trait]
impl<M: Medium + 'static> ProviderFactory for Fresh<M> {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        self.begin().await
    }

    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        testing::corrupt_history(&self.last(), instance).await.unwrap();
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        testing::max_attempts(&self.last(), instance)
    }
}

/// A shared database in memory: every opening is another process.
pub struct Many(perennial_kv::SharedMemory);

#[async_trait]
impl Medium for Many {
    fn new() -> Self {
        Self(perennial_kv::SharedMemory::new(perennial_kv::Settings::CLOUD_LIMITS).unwrap())
    }

    async fn open(&self) -> Arc<dyn Store> {
        self.0.open()
    }

    fn messages_per_turn() -> usize {
        92
    }
}

/// The time of a paused runtime, which jumps when every task waits.
pub struct Virtual {
    began: tokio::time::Instant,
    began_ms: u64,
}

impl Virtual {
    /// It is some day in 2027.
    pub fn new() -> Arc<Self> {
        Self::at(1_800_000_000_000)
    }

    /// It is this time, in milliseconds since the Unix epoch.
    pub fn at(began_ms: u64) -> Arc<Self> {
        Arc::new(Self {
            began: tokio::time::Instant::now(),
            began_ms,
        })
    }
}

#[async_trait]
impl perennial_store::Clock for Virtual {
    fn now_ms(&self) -> u64 {
        self.began_ms + self.began.elapsed().as_millis() as u64
    }

    #[allow(clippy::disallowed_methods)]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

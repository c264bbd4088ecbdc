//! The setup of the tests: a memory store with small limits, a clock that is set by hand, and a chunked store above.

use crate::faulty::FaultyStore;
use async_trait::async_trait;
use perennial_kv::{MemoryDisk, MemoryStore, Settings, Table};
use perennial_store::{
    ChunkedStore, Clock, Commit, Draft, DueQuery, Error, Key, Lane, Limits, Op, Order, Partition, Place, RecordId,
    ScanQuery, Store, Swept,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const KB: usize = 1024;
pub const SMALL: Limits = Limits {
    ops_per_commit: 20,
    bytes_per_commit: 128 * KB,
    bytes_per_record: 64 * KB,
    partitions_per_commit: 1,
    bytes_per_key: usize::MAX,
};
pub const TINY: Limits = Limits {
    ops_per_commit: 4,
    bytes_per_commit: 2 * KB,
    bytes_per_record: KB,
    partitions_per_commit: 1,
    bytes_per_key: usize::MAX,
};
pub const MINUTE: u64 = 60_000;
pub const DAY: u64 = 24 * 60 * MINUTE;

/// A clock that stands still until it is moved.
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_000_000)))
    }

    pub fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    async fn sleep(&self, duration: Duration) {
        self.advance(duration.as_millis() as u64);
    }
}

pub struct Fixture {
    pub disk: MemoryDisk,
    pub memory: Arc<MemoryStore>,
    pub faulty: Arc<FaultyStore>,
    pub clock: Arc<ManualClock>,
    pub chunked: Arc<ChunkedStore>,
}

impl Fixture {
    pub fn new(limits: Limits) -> Self {
        let disk = MemoryDisk::default();
        let memory = Arc::new(MemoryStore::open_disk(&disk, Settings::with_limits(limits)).unwrap());
        let faulty = FaultyStore::with(memory.clone());
        let clock = ManualClock::new();
        let chunked = Arc::new(ChunkedStore::new(faulty.clone(), clock.clone(), chunk_lane(), 1));
        Self {
            disk,
            memory,
            faulty,
            clock,
            chunked,
        }
    }

    /// How many records there are, chunks included.
    pub fn count(&self) -> usize {
        let tables = [Table::Records, Table::Queue, Table::Listed];
        tables.map(|table| self.disk.count(table)).iter().sum()
    }

    /// Sweeps until nothing more is deleted, over a time in which everything becomes due.
    pub async fn sweep(&self) {
        for _ in 0..3 {
            self.clock.advance(DAY);
            sweep(&self.chunked, self.clock.now_ms()).await.unwrap();
        }
    }

    pub async fn put(&self, id: &str, body: &str) {
        let op = Op::Put(Draft::new(key(id), body.to_owned()));
        self.chunked.commit(Commit::new(vec![op])).await.unwrap();
    }

    pub async fn remove(&self, id: &str) {
        self.chunked
            .commit(Commit::new(vec![Op::Remove(key(id))]))
            .await
            .unwrap();
    }

    pub async fn body(&self, id: &str) -> Option<String> {
        body(&*self.chunked, id).await.unwrap()
    }
}

/// The lane of the manifests.
pub fn chunk_lane() -> Lane {
    Lane::topic("chores", Some("parts".into()))
}

/// Sweeps what is due at a time; returns how many sets were kept and how many removed.
pub async fn sweep(chunked: &ChunkedStore, now_ms: u64) -> Result<(usize, usize), Error> {
    let page = chunked.due(&DueQuery::new(&chunk_lane(), now_ms, 10_000)).await?;
    let (mut kept, mut removed) = (0, 0);
    for record in page.records {
        match chunked.sweep(&record.key).await? {
            Swept::Kept => kept += 1,
            Swept::Removed => removed += 1,
            Swept::Nothing => {}
        }
    }
    Ok((kept, removed))
}

pub fn key(id: &str) -> Key {
    Key::new(Partition::new("p"), RecordId::from_raw(id))
}

pub fn queued(id: &str, body: &str, order: u64) -> Draft {
    let place = Place {
        lane: Lane::new("work"),
        order: Order(order),
        due_ms: 0,
    };
    Draft::new(key(id), body.to_owned()).placed(place)
}

pub async fn body(store: &dyn Store, id: &str) -> Result<Option<String>, Error> {
    let record = store.get(&key(id)).await?;
    Ok(record.map(|record| String::from_utf8(record.body.to_vec()).unwrap()))
}

/// The records of the partition that are not chunks, with their bodies.
pub async fn scan(store: &dyn Store) -> Result<Vec<(String, String)>, Error> {
    let page = store.scan(&ScanQuery::all(Partition::new("p"), 10_000)).await?;
    assert_eq!(page.next, None);
    let records = page.records.into_iter().map(|record| {
        let body = String::from_utf8(record.body.to_vec()).unwrap();
        (record.key.id.as_str().to_owned(), body)
    });
    Ok(records.filter(|(id, _)| !id.starts_with("part/")).collect())
}

pub async fn work(store: &dyn Store, limit: usize) -> Vec<(String, String)> {
    let page = store.due(&DueQuery::new(&Lane::new("work"), 0, limit)).await.unwrap();
    let records = page.records.into_iter().map(|record| {
        let body = String::from_utf8(record.body.to_vec()).unwrap();
        (record.key.id.as_str().to_owned(), body)
    });
    records.collect()
}

/// Text of exactly this many bytes, different for each seed, with characters of every width and cost.
pub fn text(bytes: usize, seed: u64) -> String {
    let alphabet = ["a", "\"", "\\", "é", "\u{0}", "😀", "\n", "漢", "z", "{"];
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let next = alphabet[(state % 10) as usize];
        text.push_str(if text.len() + next.len() <= bytes { next } else { "x" });
    }
    text
}

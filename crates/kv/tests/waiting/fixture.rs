//! A store on such an engine, and short names for what tests do with it.

use crate::engine::{Control, Remote};
use perennial_kv::{KvStore, MemoryDisk, Settings};
use perennial_store::{Commit, Draft, Key, Lane, Listing, Op, Order, Partition, Place, RecordId, Store, Version};
use std::sync::Arc;

pub const WORK: Lane = Lane::new("work");

/// Nothing is known that was not just written.
pub const FORGETFUL: usize = 0;

pub struct Fixture {
    pub disk: MemoryDisk,
    pub control: Arc<Control>,
    pub store: Arc<KvStore<Remote>>,
}

/// Opens a store on a thread that may block.
pub async fn open(disk: &MemoryDisk, control: &Arc<Control>, settings: Settings) -> Arc<KvStore<Remote>> {
    let engine = Remote::new(disk, control);
    let opening = tokio::task::spawn_blocking(move || KvStore::with_engine(engine, settings));
    let store = opening.await.unwrap().unwrap();
    control.begin();
    Arc::new(store)
}

impl Fixture {
    pub async fn new() -> Self {
        let settings = Settings {
            recent_records: FORGETFUL,
            ..Settings::default()
        };
        Self::with(settings).await
    }

    pub async fn with(settings: Settings) -> Self {
        let disk = MemoryDisk::default();
        let control = Control::new(&disk);
        let store = open(&disk, &control, settings).await;
        let fixture = Self { disk, control, store };
        fixture.control.take_rounds();
        fixture
    }

    pub async fn body(&self, id: &str) -> Option<String> {
        let record = self.store.get(&key(id)).await.unwrap()?;
        Some(String::from_utf8(record.body.to_vec()).unwrap())
    }

    pub async fn version(&self, id: &str) -> Version {
        self.store.get(&key(id)).await.unwrap().unwrap().version
    }

    pub async fn put(&self, id: &str, body: &str) {
        self.store.commit(put(&[id], body)).await.unwrap();
    }
}

pub fn key(id: &str) -> Key {
    Key::new(Partition::new("p"), RecordId::of(id))
}

pub fn draft(id: &str, body: &str) -> Draft {
    Draft::new(key(id), body.to_owned())
}

pub fn queued(id: &str, order: u64) -> Draft {
    draft(id, "queued").placed(Place {
        lane: WORK,
        order: Order(order),
        due_ms: 0,
    })
}

pub fn listed(id: &str, status: &'static str) -> Draft {
    draft(id, "listed").listed(Listing {
        kind: "thing".into(),
        status: status.into(),
        name: "n".into(),
        parent: None,
        created_ms: 0,
        completed_ms: None,
    })
}

/// A commit that writes these records.
pub fn put(ids: &[&str], body: &str) -> Commit {
    Commit::new(ids.iter().map(|id| Op::Put(draft(id, body))).collect())
}

/// A commit that creates these records.
pub fn create(ids: &[&str], body: &str) -> Commit {
    Commit::new(ids.iter().map(|id| Op::Create(draft(id, body))).collect())
}

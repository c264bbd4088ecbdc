//! The memory store keeps the contract, alone and shared, with and without the limits of a cloud database.

#![allow(clippy::unwrap_used)]

use perennial_kv::{MemoryDisk, MemoryStore, Settings, SharedMemory, Table};
use perennial_store::conformance::StoreFactory;
use perennial_store::{Key, Limits, Store};
use std::sync::{Arc, Mutex};

struct Factory {
    disk: MemoryDisk,
    limits: Limits,
}

impl Factory {
    fn with(limits: Limits) -> Self {
        Self {
            disk: MemoryDisk::default(),
            limits,
        }
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::open_disk(&self.disk, Settings::with_limits(self.limits)).unwrap())
    }
}

fn put_nonsense(disk: &MemoryDisk, key: &Key) {
    for table in [Table::Records, Table::Queue, Table::Listed] {
        for (name, _) in disk.entries(table) {
            if name.ends_with(key.id.as_str().as_bytes()) {
                disk.put_raw(table, name, "\u{1}cut");
            }
        }
    }
}

#[async_trait::async_trait]
impl StoreFactory for Factory {
    async fn create(&self) -> Arc<dyn Store> {
        self.open()
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        self.open()
    }

    async fn damage(&self, store: Arc<dyn Store>, key: &Key) -> Option<Arc<dyn Store>> {
        drop(store);
        put_nonsense(&self.disk, key);
        Some(self.open())
    }
}

mod without_limits {
    use super::*;
    perennial_store::conformance_tests!(Factory::with(Limits::NONE));
}

mod with_the_limits_of_a_cloud_database {
    use super::*;
    perennial_store::conformance_tests!(Factory::with(Settings::CLOUD_LIMITS));
}

/// Handles of one database, each of which may be closed while the others work on.
struct Shared {
    disk: MemoryDisk,
    database: Mutex<SharedMemory>,
}

impl Shared {
    fn with(limits: Limits) -> Self {
        let disk = MemoryDisk::default();
        let database = SharedMemory::on_disk(&disk, Settings::with_limits(limits)).unwrap();
        Self {
            disk,
            database: Mutex::new(database),
        }
    }

    fn open(&self) -> Arc<dyn Store> {
        self.database.lock().unwrap().open()
    }
}

#[async_trait::async_trait]
impl StoreFactory for Shared {
    async fn create(&self) -> Arc<dyn Store> {
        self.open()
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        store.close().await.unwrap();
        self.open()
    }

    async fn damage(&self, store: Arc<dyn Store>, key: &Key) -> Option<Arc<dyn Store>> {
        drop(store);
        let limits = self.open().limits();
        put_nonsense(&self.disk, key);
        *self.database.lock().unwrap() = SharedMemory::on_disk(&self.disk, Settings::with_limits(limits)).unwrap();
        Some(self.open())
    }
}

mod shared_without_limits {
    use super::*;
    perennial_store::conformance_tests!(Shared::with(Limits::NONE));
}

mod shared_with_the_limits_of_a_cloud_database {
    use super::*;
    perennial_store::conformance_tests!(Shared::with(Settings::CLOUD_LIMITS));
}

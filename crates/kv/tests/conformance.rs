//! The memory store keeps the contract, with and without the limits of a cloud database.

#![allow(clippy::unwrap_used)]

use perennial_kv::{MemoryDisk, MemoryStore, Settings, Table};
use perennial_store::conformance::StoreFactory;
use perennial_store::{Key, Limits, Store};
use std::sync::Arc;

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
        for table in [Table::Records, Table::Queue, Table::Listed] {
            for (name, _) in self.disk.entries(table) {
                if name.ends_with(key.id.as_str().as_bytes()) {
                    self.disk.put_raw(table, name, "\u{1}cut");
                }
            }
        }
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

//! A chunked store passes the conformance suite.

use crate::faulty::FaultyStore;
use crate::fixture::{KB, SMALL, chunk_lane};
use perennial_kv::{MemoryDisk, MemoryStore, Settings, Table};
use perennial_store::conformance::StoreFactory;
use perennial_store::{ChunkedStore, Key, Limits, Store, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Factory {
    disk: MemoryDisk,
    limits: Limits,
    nonce: AtomicU64,
    rewrites_json: bool,
}

impl Factory {
    fn with(limits: Limits) -> Self {
        Self {
            disk: MemoryDisk::default(),
            limits,
            nonce: AtomicU64::new(0),
            rewrites_json: false,
        }
    }

    fn open(&self) -> Arc<dyn Store> {
        let memory = MemoryStore::open_disk(&self.disk, Settings::with_limits(self.limits)).unwrap();
        let nonce = self.nonce.fetch_add(1, Ordering::Relaxed);
        let below = FaultyStore::with(Arc::new(memory));
        *below.rewrites_json.lock() = self.rewrites_json;
        Arc::new(ChunkedStore::new(below, SystemClock::shared(), chunk_lane(), nonce))
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

mod over_a_store_with_small_limits {
    use super::*;
    perennial_store::conformance_tests!(Factory::with(SMALL));
}

mod over_a_store_with_the_limits_of_a_cloud_database {
    use super::*;
    perennial_store::conformance_tests!(Factory::with(Settings::CLOUD_LIMITS));
}

mod over_a_store_that_rewrites_json {
    use super::*;
    perennial_store::conformance_tests!(Factory {
        rewrites_json: true,
        ..Factory::with(SMALL)
    });
}

mod over_a_store_with_limits_of_bytes_alone {
    use super::*;
    perennial_store::conformance_tests!(Factory::with(Limits {
        bytes_per_commit: 128 * KB,
        bytes_per_record: 64 * KB,
        ..Limits::NONE
    }));
}

mod over_a_store_without_limits {
    use super::*;
    perennial_store::conformance_tests!(Factory::with(Limits::NONE));
}

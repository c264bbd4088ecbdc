//! The whole contract, with reads that take a random time and a memory that knows next to nothing.

use crate::engine::Control;
use crate::fixture::open;
use perennial_kv::{MemoryDisk, Settings, Table};
use perennial_store::conformance::StoreFactory;
use perennial_store::{Key, Store};
use std::sync::Arc;

struct Factory {
    disk: MemoryDisk,
    control: Arc<Control>,
    recent_records: usize,
    blocking_reads: usize,
}

impl Factory {
    fn new(recent_records: usize, blocking_reads: usize) -> Self {
        let disk = MemoryDisk::default();
        let control = Control::new(&disk);
        control.delay(300, 1);
        Self {
            disk,
            control,
            recent_records,
            blocking_reads,
        }
    }

    async fn open(&self) -> Arc<dyn Store> {
        let settings = Settings {
            recent_records: self.recent_records,
            blocking_reads: self.blocking_reads,
            ..Settings::default()
        };
        open(&self.disk, &self.control, settings).await
    }
}

#[async_trait::async_trait]
impl StoreFactory for Factory {
    async fn create(&self) -> Arc<dyn Store> {
        self.open().await
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        store.close().await.unwrap();
        self.open().await
    }

    async fn damage(&self, store: Arc<dyn Store>, key: &Key) -> Option<Arc<dyn Store>> {
        store.close().await.unwrap();
        for table in [Table::Records, Table::Queue, Table::Listed] {
            for (name, _) in self.disk.entries(table) {
                if name.ends_with(key.id.as_str().as_bytes()) {
                    self.disk.put_raw(table, name, "\u{1}cut");
                }
            }
        }
        Some(self.open().await)
    }
}

mod with_a_memory_that_knows_nothing {
    use super::*;
    perennial_store::conformance_tests!(Factory::new(0, 128));
}

mod with_a_small_memory_and_few_threads {
    use super::*;
    perennial_store::conformance_tests!(Factory::new(8, 2));
}

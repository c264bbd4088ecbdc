//! The embedded store passes the conformance suite.

#![allow(clippy::unwrap_used)]

use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use perennial_fjall::Settings;
use perennial_store::conformance::StoreFactory;
use perennial_store::{Key, Store};
use std::sync::Arc;
use tempfile::TempDir;

struct Factory(TempDir);

impl Factory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> Arc<dyn Store> {
        Arc::new(perennial_fjall::open(self.0.path(), Settings::default()).unwrap())
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
        let db = Database::builder(self.0.path().join("data")).open().unwrap();
        for table in ["records", "queue", "listed"] {
            let table = db.keyspace(table, KeyspaceCreateOptions::default).unwrap();
            let names: Vec<_> = table.iter().map(|entry| entry.key().unwrap()).collect();
            for name in names {
                if name.ends_with(key.id.as_str().as_bytes()) {
                    table.insert(name, "\u{1}cut").unwrap();
                }
            }
        }
        db.persist(PersistMode::SyncAll).unwrap();
        drop(db);
        Some(self.open())
    }
}

perennial_store::conformance_tests!(Factory::new());

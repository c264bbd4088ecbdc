//! The store in a bucket passes the conformance suite: in memory, and in a directory with every object synced.

#![allow(clippy::unwrap_used)]

mod support;

use perennial_kv::KvStore;
use perennial_slatedb::{Bucket, DirectoryLock, Location, Opening, Settings, Shard};
use perennial_store::conformance::StoreFactory;
use perennial_store::{Key, Store};
use slatedb::Db;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

struct Factory {
    bucket: Bucket,
    directory: Option<TempDir>,
}

impl Factory {
    fn in_memory() -> Self {
        Self {
            bucket: support::bucket(),
            directory: None,
        }
    }

    fn in_files() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            bucket: Location::Directory(directory.path().into()).connect().unwrap(),
            directory: Some(directory),
        }
    }

    async fn open(&self) -> Arc<dyn Store> {
        let settings = Settings::default();
        let mut opening = Opening::new(settings.clone());
        if let Some(directory) = &self.directory {
            opening = opening.guard(DirectoryLock::acquire(&PathBuf::from(directory.path())).unwrap());
        }
        let engine = opening.open(&self.bucket, Shard(0)).await.unwrap();
        Arc::new(KvStore::with_engine(engine, settings.store).unwrap())
    }
}

#[async_trait::async_trait]
impl StoreFactory for Factory {
    async fn create(&self) -> Arc<dyn Store> {
        self.open().await
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        self.open().await
    }

    async fn damage(&self, store: Arc<dyn Store>, key: &Key) -> Option<Arc<dyn Store>> {
        drop(store);
        let path = match self.directory {
            Some(_) => "0/db",
            None => "some/prefix/0/db",
        };
        let db = Db::open(path, self.bucket.objects().clone()).await.unwrap();
        for table in ["r", "q", "l"] {
            let mut found = db.scan_prefix(table, ..).await.unwrap();
            while let Some(entry) = found.next().await.unwrap() {
                if entry.key.ends_with(key.id.as_str().as_bytes()) {
                    db.put(entry.key, "\u{1}cut").await.unwrap();
                }
            }
        }
        db.close().await.unwrap();
        Some(self.open().await)
    }
}

mod memory {
    use super::Factory;
    perennial_store::conformance_tests!(Factory::in_memory());
}

mod files {
    use super::Factory;
    perennial_store::conformance_tests!(Factory::in_files());
}

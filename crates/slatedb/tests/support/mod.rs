//! Buckets and engines for tests.

#![allow(dead_code, clippy::unwrap_used)]

pub mod fast;
pub mod gate;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use perennial_kv::{Batch, OrderedKv, Table, Write};
use perennial_slatedb::{Bucket, Opening, Settings, Shard, SlateEngine};
use std::sync::Arc;

/// A bucket in memory of its own.
pub fn bucket() -> Bucket {
    Bucket::new(Arc::new(InMemory::new()), Path::from("some/prefix"), "memory://test")
}

/// The engine of a bucket, opened by the default settings.
pub async fn open(bucket: &Bucket) -> SlateEngine {
    Opening::new(Settings::default()).open(bucket, Shard(0)).await.unwrap()
}

pub fn put(key: &str, value: &str) -> Write {
    Write::Put {
        table: Table::Records,
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

pub fn delete(key: &str) -> Write {
    Write::Delete {
        table: Table::Records,
        key: Bytes::copy_from_slice(key.as_bytes()),
    }
}

pub fn batch(writes: impl IntoIterator<Item = Write>) -> Batch {
    writes.into_iter().collect()
}

/// The value of a record, as a text.
pub fn get(engine: &SlateEngine, key: &str) -> Option<String> {
    let value = engine.get(Table::Records, key.as_bytes()).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

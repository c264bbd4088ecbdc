//! Many threads on few records of a quick engine, with a memory that knows nothing: no commit builds on an old read.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use bytes::Bytes;
use futures::FutureExt;
use perennial_kv::memory::MemoryEngine;
use perennial_kv::{Batch, EngineError, KvStore, MemoryDisk, MemoryStore, OrderedKv, Settings, Table, View};
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, RecordId, Store, Version};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const TASKS: u64 = 8;
const COMMITS: u64 = 1500;
const RECORDS: [&str; 3] = ["a", "b", "c"];

/// Memory that is written by a committer thread, and whose readers let others go first.
struct Plain(MemoryEngine);

impl OrderedKv for Plain {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let value = self.0.get(table, key);
        // What was read is old by the time it is used, if anything can make it so.
        std::thread::yield_now();
        value
    }

    fn view(&self) -> Box<dyn View + '_> {
        self.0.view()
    }

    fn write(&self, batch: Batch, sync: bool) -> Result<(), EngineError> {
        self.0.write(batch, sync)
    }
}

fn key(id: &str) -> Key {
    Key::new(Partition::new("p"), RecordId::of(id))
}

/// A commit that succeeded: which versions it replaced or deleted, and which it wrote.
#[derive(Default)]
struct Success {
    id: &'static str,
    created: bool,
    consumed: Option<Version>,
    written: Option<Version>,
}

/// Creates, replaces and deletes records at random; returns what succeeded.
async fn hammer(store: Arc<dyn Store>, task: u64, is_inline: bool) -> Vec<Success> {
    let mut successes = Vec::new();
    let mut random = task;
    for _ in 0..COMMITS {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let id = RECORDS[(random >> 33) as usize % RECORDS.len()];
        let draft = Draft::new(key(id), task.to_string());
        let found = store.get(&key(id)).await.unwrap();
        let version = found.map(|record| record.version);
        let op = match &version {
            None => Op::Create(draft),
            Some(version) if (random >> 40).is_multiple_of(2) => Op::Replace(draft, version.clone()),
            Some(version) => Op::Delete(key(id), version.clone()),
        };
        let created = matches!(op, Op::Create(_));
        // Another record that makes the commits of different records meet.
        let other = Op::Remove(key(["x", "y"][(random >> 50) as usize % 2]));
        let mut commit = Commit::new(vec![op, other]);
        if (random >> 45).is_multiple_of(2) {
            commit = commit.relaxed();
        }
        let mut committing = store.commit(commit);
        let outcome = match is_inline {
            // Complete within its first poll, whatever other threads do.
            true => committing.as_mut().now_or_never().unwrap(),
            false => committing.await,
        };
        match outcome {
            Ok(committed) => successes.push(Success {
                id,
                created,
                consumed: version,
                written: committed.version(0).cloned(),
            }),
            Err(Error::Conflict { op: 0, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    successes
}

async fn check(store: Arc<dyn Store>, is_inline: bool) {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(hammer(store.clone(), task, is_inline)))
        .collect();
    let mut by_record: HashMap<&str, Vec<Success>> = HashMap::new();
    for task in tasks {
        for success in task.await.unwrap() {
            by_record.entry(success.id).or_default().push(success);
        }
    }
    for id in RECORDS {
        let successes = &by_record[id];
        let written: HashSet<_> = successes.iter().filter_map(|success| success.written.clone()).collect();
        let mut left = written.clone();
        for version in successes.iter().filter_map(|success| success.consumed.as_ref()) {
            assert!(left.remove(version), "{id}: {version:?} was replaced or deleted twice");
        }
        let created = successes.iter().filter(|success| success.created).count();
        let deleted = successes.iter().filter(|success| success.written.is_none()).count();
        assert!(created > 10 && deleted > 10, "{id}: too little happened");
        assert_eq!(left.len(), created - deleted, "{id}: a record was created over another");
        let now = store.get(&key(id)).await.unwrap().map(|record| record.version);
        assert_eq!(
            left,
            now.into_iter().collect(),
            "{id}: what there is was written by none"
        );
    }
}

fn settings(recent_records: usize) -> Settings {
    Settings {
        recent_records,
        ..Settings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commits_of_many_threads_build_on_each_other() {
    for recent_records in [0, 2, 1000] {
        let engine = Plain(MemoryDisk::default().engine());
        let store = KvStore::with_engine(engine, settings(recent_records)).unwrap();
        check(Arc::new(store), false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn they_do_so_without_a_committer() {
    for recent_records in [0, 2, 1000] {
        let store = MemoryStore::open(settings(recent_records)).unwrap();
        check(Arc::new(store), true).await;
    }
}

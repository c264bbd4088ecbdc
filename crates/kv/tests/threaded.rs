//! The committer thread, on an engine that a test can block and break.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use futures::FutureExt;
use futures::future::join_all;
use perennial_kv::memory::MemoryEngine;
use perennial_kv::{Batch, EngineError, KvStore, MemoryDisk, OrderedKv, Settings, Table, View};
use perennial_store::conformance::StoreFactory;
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, RecordId, Store};
use std::sync::{Arc, Condvar, Mutex};

/// Memory that is written by the committer thread, one batch at a time through a gate.
struct Gated {
    memory: MemoryEngine,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

/// A gate that is shut until this is dropped.
struct Shut(Arc<Gate>);

impl Gate {
    fn shut(self: &Arc<Self>) -> Shut {
        *self.is_shut.lock().unwrap() = true;
        Shut(Arc::clone(self))
    }

    fn pass(&self) {
        let is_shut = self.is_shut.lock().unwrap();
        drop(self.opened.wait_while(is_shut, |is_shut| *is_shut).unwrap());
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        *self.0.is_shut.lock().unwrap() = false;
        self.0.opened.notify_all();
    }
}

impl OrderedKv for Gated {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.memory.get(table, key)
    }

    fn view(&self) -> Box<dyn View + '_> {
        self.memory.view()
    }

    fn write(&self, batch: Batch, sync: bool) -> Result<(), EngineError> {
        self.gate.pass();
        self.memory.write(batch, sync)
    }
}

#[derive(Default)]
struct Factory {
    disk: MemoryDisk,
    gate: Arc<Gate>,
}

impl Factory {
    fn open(&self) -> Arc<KvStore<Gated>> {
        let engine = Gated {
            memory: self.disk.engine(),
            gate: self.gate.clone(),
        };
        Arc::new(KvStore::with_engine(engine, Settings::default()).unwrap())
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

    fn hold(&self) -> Option<Box<dyn Send>> {
        Some(Box::new(self.gate.shut()))
    }
}

mod the_contract {
    use super::*;
    perennial_store::conformance_tests!(Factory::default());
}

fn key(id: &str) -> Key {
    Key::new(Partition::new("p"), RecordId::of(id))
}

fn create(id: &str) -> Commit {
    Commit::new(vec![Op::Create(Draft::new(key(id), id.to_owned()))])
}

#[tokio::test]
async fn a_durable_commit_is_not_seen_before_it_is_written_and_a_relaxed_one_is() {
    let factory = Factory::default();
    let store = factory.open();
    let shut = factory.gate.shut();
    let mut durable = Box::pin(store.commit(create("durable")));
    assert!(durable.as_mut().now_or_never().is_none());
    assert!(
        store
            .commit(create("relaxed").relaxed())
            .now_or_never()
            .unwrap()
            .is_ok()
    );
    let get = |id: &str| store.get(&key(id)).now_or_never().unwrap().unwrap();
    assert!(get("durable").is_none() && get("relaxed").is_some());
    let again = store.commit(create("durable")).now_or_never().unwrap();
    assert!(
        matches!(again, Err(Error::Conflict { .. })),
        "conditions are checked against accepted commits: {again:?}"
    );
    drop(shut);
    durable.await.unwrap();
    assert!(get("durable").is_some());
}

#[tokio::test]
async fn commits_that_wait_are_one_group_and_one_sync() {
    let factory = Factory::default();
    let store = factory.open();
    let shut = factory.gate.shut();
    let mut commits: Vec<_> = (0..100)
        .map(|n| Box::pin(store.commit(Commit::new(vec![Op::Put(Draft::new(key(&(n % 7).to_string()), ""))]))))
        .collect();
    for commit in &mut commits {
        assert!(commit.as_mut().now_or_never().is_none());
    }
    drop(shut);
    for outcome in join_all(commits).await {
        outcome.unwrap();
    }
    // The first may have been under way before the others came.
    let stats = store.stats();
    assert!(stats.groups <= 2 && stats.syncs == stats.groups, "{stats:?}");
}

#[tokio::test]
async fn when_a_write_fails_every_waiting_commit_gets_an_error() {
    let factory = Factory::default();
    let store = factory.open();
    store.commit(create("before")).await.unwrap();
    let shut = factory.gate.shut();
    factory.disk.fail_writes("input/output error");
    let mut commits: Vec<_> = (0..50)
        .map(|n| Box::pin(store.commit(create(&n.to_string()))))
        .collect();
    for commit in &mut commits {
        assert!(commit.as_mut().now_or_never().is_none());
    }
    drop(shut);
    for outcome in join_all(commits).await {
        assert!(
            matches!(outcome, Err(Error::UnknownOutcome(_) | Error::Closed(_))),
            "{outcome:?}"
        );
    }
    let outcome = store.commit(create("after")).await;
    assert!(
        matches!(&outcome, Err(Error::Closed(why)) if why.contains("open the store again")),
        "{outcome:?}"
    );
    assert!(store.get(&key("0")).await.unwrap().is_none());
    drop(store);
    factory.disk.crash();
    let store = factory.open();
    assert!(store.get(&key("before")).await.unwrap().is_some());
    store.commit(create("after")).await.unwrap();
}

#[tokio::test]
async fn dropping_the_store_finishes_what_was_accepted() {
    let factory = Factory::default();
    let store = factory.open();
    for n in 0..100 {
        drop(store.commit(create(&n.to_string())).now_or_never());
    }
    store.commit(create("relaxed").relaxed()).await.unwrap();
    drop(store);
    factory.disk.crash();
    let store = factory.open();
    for id in (0..100).map(|n: u32| n.to_string()).chain(["relaxed".to_owned()]) {
        assert!(store.get(&key(&id)).await.unwrap().is_some(), "{id}");
    }
}

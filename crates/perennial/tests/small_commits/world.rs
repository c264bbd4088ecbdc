//! A disk, a process on it that may die and start again, and a runtime that runs a story.

use crate::clock::Virtual;
use crate::store::{FailingStore, Fault};
use crate::turns::*;
use duroxide::providers::{Provider, TagFilter};
use perennial_kv::{MemoryDisk, Table};
use perennial_store::Clock;
use perennial_workflow::{Settings, Workflows, testing};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(5);
/// After this long without work the story is over.
const QUIET: Duration = Duration::from_secs(40);
/// A call that takes longer never returns: the process is killed.
const STUCK: Duration = Duration::from_secs(60);

/// A call that did not return.
pub struct Dead;

/// The world of one test.
pub struct World {
    pub disk: MemoryDisk,
    pub clock: Arc<dyn Clock>,
    pub store: Arc<FailingStore>,
    pub workflows: Workflows,
}

impl World {
    /// An empty disk and a process without faults on it.
    pub async fn new() -> Self {
        let (disk, clock) = (MemoryDisk::default(), Virtual::new());
        let (store, workflows) = boot(&disk, &(clock.clone() as Arc<dyn Clock>)).await;
        Self {
            disk,
            clock,
            store,
            workflows,
        }
    }

    /// The process ends cleanly and another one starts, with this fault.
    pub async fn meet(&mut self, fault: Option<(usize, Fault)>) {
        self.workflows.close().await.unwrap();
        (self.store, self.workflows) = boot(&self.disk, &self.clock).await;
        self.store.expect(fault);
    }

    /// The process dies and another one starts, without a fault.
    pub async fn restart(&mut self) {
        self.store.kill();
        testing::let_go(&self.workflows).await;
        self.disk.crash();
        (self.store, self.workflows) = boot(&self.disk, &self.clock).await;
    }

    /// The process dies, and the next one dies while it opens the store, or later.
    pub async fn die_and_open_dying(&mut self, fault: (usize, Fault)) {
        self.store.kill();
        testing::let_go(&self.workflows).await;
        self.disk.crash();
        let store = FailingStore::open(&self.disk);
        store.expect(Some(fault));
        let opened = Workflows::open_with_clock(store.clone(), Settings::default(), Arc::clone(&self.clock)).await;
        match opened {
            Ok(workflows) => (self.store, self.workflows) = (store, workflows),
            Err(_) => {
                drop(store);
                self.disk.crash();
                (self.store, self.workflows) = boot(&self.disk, &self.clock).await;
            }
        }
    }

    /// The queued records whose ids contain this.
    pub fn queued(&self, part: &str) -> Vec<String> {
        let entries = self.disk.entries(Table::Queue).into_iter();
        let keys = entries.map(|(key, _)| String::from_utf8_lossy(&key).into_owned());
        keys.filter(|key| key.contains(part)).collect()
    }

    /// Makes a call, unless the process dies over it or it never returns.
    pub async fn call<T>(&self, call: impl Future<Output = T>) -> Result<T, Dead> {
        let outcome = tokio::time::timeout(STUCK, call).await.map_err(|_| Dead)?;
        if self.store.is_dead() { Err(Dead) } else { Ok(outcome) }
    }

    /// Does all the work there is, as a runtime would. What fails is tried again when its lease has ended.
    pub async fn tell(&self, story: Story) -> Result<(), Dead> {
        loop {
            let store = &self.workflows;
            let Ok(turn) = self.call(store.fetch_orchestration_item(LEASE, QUIET, None)).await? else {
                continue;
            };
            if let Some((item, token, _)) = turn {
                let reply = story(&item);
                let events = events(&item, reply.kinds);
                let parent = item.instance.split_once("::").map(|(parent, _)| parent);
                let metadata = metadata(reply.status, parent);
                let ack =
                    store.ack_orchestration_item(&token, 1, events, reply.work, reply.messages, metadata, Vec::new());
                self.call(ack).await?.ok();
                continue;
            }
            let none = Duration::ZERO;
            let Ok(work) = self
                .call(store.fetch_work_item(LEASE, none, None, &TagFilter::DefaultOnly))
                .await?
            else {
                continue;
            };
            let Some((item, token, _)) = work else { return Ok(()) };
            self.work(item, &token).await?;
            while let Ok(Some((item, token, _))) = self
                .call(store.fetch_work_item(LEASE, none, None, &TagFilter::DefaultOnly))
                .await?
            {
                self.work(item, &token).await?;
            }
        }
    }

    async fn work(&self, item: duroxide::providers::WorkItem, token: &str) -> Result<(), Dead> {
        let done = Some(completed(&item));
        self.call(self.workflows.ack_work_item(token, done)).await?.ok();
        Ok(())
    }

    /// Runs a story to its end, whatever happens on the way.
    pub async fn tell_on(&mut self, story: Story) {
        let mut again = self.tell(story).await.is_err();
        // A call that hangs in the background is only known to be lost when the process is gone.
        again |= self.store.hung();
        if again {
            self.restart().await;
            assert!(self.tell(story).await.is_ok(), "nothing happens to the second process");
        }
    }

    /// What each instance has consumed, in order.
    pub async fn histories(&self, instances: &[&str]) -> BTreeMap<String, Vec<String>> {
        let mut all = BTreeMap::new();
        for instance in instances {
            let history = self.workflows.read(instance).await.unwrap();
            all.insert((*instance).to_owned(), consumed(&history));
        }
        all
    }

    /// Lets time pass until every tombstone is gone, and returns what is still queued.
    pub async fn leftovers(&self) -> Vec<String> {
        self.clock.sleep(Duration::from_secs(3 * 3600)).await;
        let queued = self.disk.entries(Table::Queue).into_iter();
        let records = self.disk.entries(Table::Records).into_iter();
        let redo = records.filter(|(key, _)| String::from_utf8_lossy(key).contains("redo/"));
        queued
            .chain(redo)
            .map(|(key, _)| String::from_utf8_lossy(&key).into_owned())
            .collect()
    }
}

async fn boot(disk: &MemoryDisk, clock: &Arc<dyn Clock>) -> (Arc<FailingStore>, Workflows) {
    let store = FailingStore::open(disk);
    let opened = Workflows::open_with_clock(store.clone(), Settings::default(), Arc::clone(clock)).await;
    (store, opened.unwrap())
}

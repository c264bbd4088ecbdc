//! The ledger: records in the store that say which steps were executed, by which run.
//!
//! It is the demo's witness. Workflow histories say which steps are *recorded*; the ledger says which really *ran*. The
//! workflow engine knows nothing of it: an entry is the demo's own record, committed before its step does anything, so
//! that no crash loses one, and kept beside the workflows, so that every process on the store reads and writes the same
//! ledger.

use super::order::Step;
use crate::error::CliError;
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, Record, RecordId, Result, ScanQuery, Store};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many records are read at once.
const PAGE: usize = 1_000;

/// The ledger, open for one run.
pub struct Ledger {
    store: Arc<dyn Store>,
    run: u32,
    written: AtomicU64,
}

/// How often each step was started, by its name.
pub type Starts = HashMap<String, u32>;

/// One execution of a step, as it is stored.
#[derive(Serialize, Deserialize)]
struct Entry {
    run: u32,
    step: String,
}

/// One run of the demo, as it is stored.
#[derive(Serialize, Deserialize)]
struct Begun {
    pid: u32,
}

/// The entries of a batch: the step of each execution, by the entry's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries(BTreeMap<String, String>);

impl Entries {
    /// Reads what all runs have recorded about a batch so far.
    pub async fn read(store: &dyn Store, batch: u32) -> std::result::Result<Self, CliError> {
        let could_not = |error| CliError::failed(&format!("read the ledger of batch {batch}"), error);
        let mut entries = Self::default();
        for record in scan(store, entries_of(batch), false).await.map_err(could_not)? {
            let entry: Entry = serde_json::from_slice(&record.body)
                .map_err(|e| CliError::failed(&format!("decode {} of the ledger", record.key), e))?;
            entries.0.insert(record.key.id.to_string(), entry.step);
        }
        Ok(entries)
    }

    /// A ledger in which these steps ran.
    #[cfg(test)]
    pub fn of(steps: &[&str]) -> Self {
        let entry = |(number, step): (usize, &&str)| (format!("ran/{number:03}"), step.to_string());
        Self(steps.iter().enumerate().map(entry).collect())
    }

    /// How often each step was started.
    pub fn starts(&self) -> Starts {
        count(self.0.values())
    }

    /// How often each step was started since `earlier` was read.
    pub fn since(&self, earlier: &Self) -> Starts {
        let new = self.0.iter().filter(|(name, _)| !earlier.0.contains_key(*name));
        count(new.map(|(_, step)| step))
    }
}

fn count<'a>(steps: impl Iterator<Item = &'a String>) -> Starts {
    let mut starts = Starts::new();
    for step in steps {
        *starts.entry(step.clone()).or_default() += 1;
    }
    starts
}

impl Ledger {
    /// Begins a new run. Runs that begin at the same time, in other processes, have other numbers.
    pub async fn begin(store: Arc<dyn Store>) -> std::result::Result<Self, CliError> {
        let could_not = |error| CliError::failed("begin a run in the ledger", error);
        let mut run = 1 + scan(&*store, runs(), true).await.map_err(could_not)?.len() as u32;
        loop {
            match enter(
                &*store,
                run_key(run),
                &Begun {
                    pid: std::process::id(),
                },
            )
            .await
            {
                Ok(()) => break,
                Err(Error::Conflict { .. }) => run += 1,
                Err(error) => return Err(could_not(error)),
            }
        }
        Ok(Self {
            store,
            run,
            written: AtomicU64::new(0),
        })
    }

    /// The number of this run, from 1.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Records that a step begins. Durable when it returns.
    pub async fn started(&self, step: Step) -> Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let id = RecordId::of("ran").number(u64::from(self.run)).number(number);
        let entry = Entry {
            run: self.run,
            step: step.to_string(),
        };
        enter(&*self.store, Key::new(entries_of(step.order.batch), id), &entry).await
    }
}

/// Removes everything that earlier demos have recorded; returns whether there was anything.
pub async fn remove(store: &dyn Store, batches: u32) -> Result<bool> {
    let mut found = false;
    for partition in (1..=batches).map(entries_of).chain([runs()]) {
        let records = scan(store, partition, true).await?;
        found |= !records.is_empty();
        for some in records.chunks(store.limits().ops_per_commit) {
            let ops = some.iter().map(|record| Op::Remove(record.key.clone()));
            store.commit(Commit::new(ops.collect())).await?;
        }
    }
    Ok(found)
}

/// No workflow has a partition of this name.
fn entries_of(batch: u32) -> Partition {
    Partition::new(format!("demo:ledger-{batch}"))
}

fn runs() -> Partition {
    Partition::new("demo:runs")
}

fn run_key(run: u32) -> Key {
    Key::new(runs(), RecordId::of("run").number(u64::from(run)))
}

async fn enter(store: &dyn Store, key: Key, body: &impl Serialize) -> Result<()> {
    let body = serde_json::to_vec(body).map_err(|error| Error::Invalid(error.to_string()))?;
    let create = Op::Create(Draft::new(key, body));
    store.commit(Commit::new(vec![create])).await.map(drop)
}

async fn scan(store: &dyn Store, partition: Partition, keys_only: bool) -> Result<Vec<Record>> {
    let mut query = ScanQuery::all(partition, PAGE);
    query.keys_only = keys_only;
    let mut records = Vec::new();
    loop {
        let page = store.scan(&query).await?;
        records.extend(page.records);
        query.after = page.next;
        if query.after.is_none() {
            return Ok(records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::{Action, Order};
    use super::*;

    async fn store() -> Arc<dyn Store> {
        perennial::open("memory:").await.unwrap().store()
    }

    #[tokio::test]
    async fn what_was_written_is_read_back_by_batch_and_by_time() {
        let store = store().await;
        assert_eq!(Entries::read(&*store, 1).await.unwrap(), Entries::default());
        let step = Order { batch: 1, number: 7 }.step(Action::PackLine, 2);
        let other = Order { batch: 11, number: 7 }.step(Action::PackLine, 2);
        let first = Ledger::begin(Arc::clone(&store)).await.unwrap();
        first.started(step).await.unwrap();
        let before = Entries::read(&*store, 1).await.unwrap();
        let second = Ledger::begin(Arc::clone(&store)).await.unwrap();
        assert_eq!((first.run(), second.run()), (1, 2));
        // The earlier run still goes on, in another process.
        first.started(step).await.unwrap();
        second.started(step).await.unwrap();
        second.started(other).await.unwrap();
        let entries = Entries::read(&*store, 1).await.unwrap();
        assert_eq!(before.starts(), Starts::from([("1/7/pack-line#2".into(), 1)]));
        assert_eq!(entries.since(&before), Starts::from([("1/7/pack-line#2".into(), 2)]));
        assert_eq!(entries.starts(), Starts::from([("1/7/pack-line#2".into(), 3)]));
        assert_eq!(Entries::read(&*store, 11).await.unwrap().starts().len(), 1);
    }

    #[tokio::test]
    async fn runs_that_begin_at_the_same_time_have_numbers_of_their_own() {
        let store = store().await;
        let begin = || Ledger::begin(Arc::clone(&store));
        let (a, b, c) = tokio::join!(begin(), begin(), begin());
        let mut runs = [a, b, c].map(|ledger| ledger.unwrap().run());
        runs.sort_unstable();
        assert_eq!(runs, [1, 2, 3]);
    }

    #[tokio::test]
    async fn what_is_removed_is_gone() {
        let store = store().await;
        assert!(!remove(&*store, 1).await.unwrap());
        let ledger = Ledger::begin(Arc::clone(&store)).await.unwrap();
        for number in 0..250 {
            let step = Order { batch: 2, number }.step(Action::HandOver, 1);
            ledger.started(step).await.unwrap();
        }
        assert!(remove(&*store, 2).await.unwrap());
        assert_eq!(Entries::read(&*store, 2).await.unwrap(), Entries::default());
        assert_eq!(Ledger::begin(store).await.unwrap().run(), 1);
    }
}

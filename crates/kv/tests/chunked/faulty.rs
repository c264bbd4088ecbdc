//! A store that runs something just before a call, fails on demand, and counts.

use async_trait::async_trait;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Error, Key, Limits, ListFilter, ListPage, OnDurable, Op,
    Record, Refused, Result, ScanPage, ScanQuery, Sharing, Signals, Store,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Runs before a call.
pub type Event = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// How a commit fails.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It does not happen.
    Before,
    /// It happens, and the reply is lost.
    After,
    /// It happens, and what it wrote is overwritten before its lost reply is resolved: it has no versions.
    Overwritten,
}

pub struct FaultyStore {
    inner: Arc<dyn Store>,
    /// Before the next commit that writes a record of the caller.
    pub before_final: Mutex<VecDeque<Event>>,
    /// Before the next commit of chunks alone.
    pub before_staging: Mutex<VecDeque<Event>>,
    /// Before the next read of chunks.
    pub before_chunks: Mutex<VecDeque<Event>>,
    /// Which commits fail, counted from now.
    pub faults: Mutex<Vec<(usize, Fault)>>,
    /// Every second commit loses its reply.
    pub loses_replies: Mutex<bool>,
    /// JSON comes back as a document database writes it: without spaces, properties in order of their names.
    pub rewrites_json: Mutex<bool>,
    /// Reports itself as shared, and counts the absence of a record as two operations.
    pub is_shared: Mutex<bool>,
    pub commits: Mutex<usize>,
    pub reads: Mutex<usize>,
}

impl FaultyStore {
    pub fn with(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            before_final: Mutex::default(),
            before_staging: Mutex::default(),
            before_chunks: Mutex::default(),
            faults: Mutex::default(),
            loses_replies: Mutex::default(),
            rewrites_json: Mutex::default(),
            is_shared: Mutex::default(),
            commits: Mutex::default(),
            reads: Mutex::default(),
        })
    }

    /// Fails the commit with this number, counted from now.
    pub fn fail(&self, number: usize, fault: Fault) {
        let base = *self.commits.lock();
        self.faults.lock().push((base + number, fault));
    }

    async fn happen(events: &Mutex<VecDeque<Event>>) {
        let event = events.lock().pop_front();
        if let Some(event) = event {
            event().await;
        }
    }

    fn count_twice(&self, commit: &Commit) -> Result<()> {
        let absent = commit.ops.iter().filter(|op| matches!(op, Op::Absent(_))).count();
        let (actual, limit) = (commit.ops.len() + absent, self.inner.limits().ops_per_commit);
        match *self.is_shared.lock() && actual > limit {
            true => Err(Error::TooLarge {
                what: "the number of operations in the commit",
                actual,
                limit,
            }),
            false => Ok(()),
        }
    }

    fn rewrite(&self, record: &mut Record) {
        if *self.rewrites_json.lock() {
            let json = serde_json::from_slice::<serde_json::Value>(&record.body);
            if let Ok(json) = json {
                record.body = json.to_string().into();
            }
        }
    }

    /// What happens before a commit, and the fault that it has.
    async fn begin(&self, commit: &Commit) -> Result<Option<Fault>> {
        self.count_twice(commit)?;
        let number = {
            let mut commits = self.commits.lock();
            *commits += 1;
            *commits - 1
        };
        match commit.ops.iter().map(Op::key).all(is_chunk) {
            true => Self::happen(&self.before_staging).await,
            false => Self::happen(&self.before_final).await,
        }
        Ok(self.fault(number))
    }

    async fn make(&self, commit: Commit, fault: Option<Fault>) -> Result<Committed> {
        match fault {
            None => self.inner.commit(commit).await,
            Some(Fault::Before) => Err(Error::Unavailable("cut off".to_owned())),
            Some(Fault::After) => {
                self.inner.commit(commit).await?;
                Err(Error::UnknownOutcome("the reply was lost".to_owned()))
            }
            Some(Fault::Overwritten) => {
                let mut committed = self.inner.commit(commit).await?;
                committed.versions.fill(None);
                Ok(committed)
            }
        }
    }

    fn fault(&self, number: usize) -> Option<Fault> {
        let faults = self.faults.lock();
        let planned = faults.iter().find(|(at, _)| *at == number).map(|(_, fault)| *fault);
        let is_lost = *self.loses_replies.lock() && number.is_multiple_of(2);
        planned.or_else(|| is_lost.then_some(Fault::After))
    }
}

fn is_chunk(key: &Key) -> bool {
    key.id.as_str().starts_with("part/")
}

#[async_trait]
impl Store for FaultyStore {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn sharing(&self) -> Sharing {
        match *self.is_shared.lock() {
            true => Sharing::Shared,
            false => self.inner.sharing(),
        }
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        let fault = self.begin(&commit).await?;
        self.make(commit, fault).await
    }

    async fn order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        let outcome = match self.begin(&commit).await {
            Ok(None) => return self.inner.order(commit, on_durable).await,
            Ok(fault) => self.make(commit, fault).await,
            Err(error) => Err(error),
        };
        Refused::or_call(outcome, on_durable)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        *self.reads.lock() += 1;
        let mut found = self.inner.get(key).await?;
        found.iter_mut().for_each(|record| self.rewrite(record));
        Ok(found)
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        *self.reads.lock() += 1;
        if query.under.as_ref().is_some_and(|id| id.as_str().starts_with("part/")) && !query.keys_only {
            Self::happen(&self.before_chunks).await;
        }
        let mut page = self.inner.scan(query).await?;
        page.records.iter_mut().for_each(|record| self.rewrite(record));
        Ok(page)
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        *self.reads.lock() += 1;
        let mut page = self.inner.due(query).await?;
        page.records.iter_mut().for_each(|record| self.rewrite(record));
        Ok(page)
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.inner.list(filter, after, limit).await
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.inner.counters().await
    }

    fn signals(&self) -> Signals {
        self.inner.signals()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

//! A store with small commits, one of which fails.

use async_trait::async_trait;
use perennial_kv::{MemoryDisk, MemoryStore, Settings};
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Error, Key, Limits, ListFilter, ListPage, Record, Result,
    ScanPage, ScanQuery, Sharing, Signals, Store,
};
use perennial_workflow::testing;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// How a commit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies before the commit takes effect.
    DieBefore,
    /// The process dies after the commit has taken effect.
    DieAfter,
    /// The commit takes effect and its reply is lost.
    LostReply,
    /// The commit takes effect and never returns; the rest goes on.
    Hang,
    /// The store cannot be reached for longer than any caller retries.
    Outage,
}

/// Every kind of fault.
pub const FAULTS: [Fault; 5] = [
    Fault::DieBefore,
    Fault::DieAfter,
    Fault::LostReply,
    Fault::Hang,
    Fault::Outage,
];

const OUTAGE: Duration = Duration::from_secs(12);

/// A memory store with the limits of a cloud database, on which one commit fails.
pub struct FailingStore {
    inner: MemoryStore,
    fault: Mutex<Option<(usize, Fault)>>,
    commits: AtomicUsize,
    calls: AtomicUsize,
    dead: AtomicBool,
    out_until: Mutex<Option<Instant>>,
}

impl FailingStore {
    /// Opens the store on a disk.
    pub fn open(disk: &MemoryDisk) -> Arc<Self> {
        let limits = Limits {
            bytes_per_commit: usize::MAX,
            bytes_per_record: usize::MAX,
            ..Settings::CLOUD_LIMITS
        };
        let inner = MemoryStore::open_disk(disk, Settings::with_limits(limits)).unwrap();
        Arc::new(Self {
            inner,
            fault: Mutex::default(),
            commits: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
            out_until: Mutex::default(),
        })
    }

    /// Makes the commit with this number fail, counted from now.
    pub fn expect(&self, fault: Option<(usize, Fault)>) {
        self.commits.store(0, SeqCst);
        *self.fault.lock().unwrap() = fault;
    }

    fn fault(&self) -> Option<(usize, Fault)> {
        *self.fault.lock().unwrap()
    }

    /// How many commits were requested since.
    pub fn commits(&self) -> usize {
        self.commits.load(SeqCst)
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }

    /// Whether the process has died.
    pub fn is_dead(&self) -> bool {
        self.dead.load(SeqCst)
    }

    /// Whether a commit never returned.
    pub fn hung(&self) -> bool {
        self.fault()
            .is_some_and(|(at, fault)| fault == Fault::Hang && at < self.commits())
    }

    /// The process dies.
    pub fn kill(&self) {
        self.dead.store(true, SeqCst);
    }

    fn check(&self) -> Result<()> {
        self.calls.fetch_add(1, SeqCst);
        if self.is_dead() {
            return Err(Error::Closed("the process is dead".to_owned()));
        }
        if self
            .out_until
            .lock()
            .unwrap()
            .is_some_and(|until| Instant::now() < until)
        {
            return Err(Error::Unavailable("the network is down".to_owned()));
        }
        Ok(())
    }

    async fn commit_part(&self, commit: Commit) -> Result<Committed> {
        self.check()?;
        // Another task may run between any two commits.
        tokio::task::yield_now().await;
        self.check()?;
        let number = self.commits.fetch_add(1, SeqCst);
        match self.fault().filter(|(at, _)| *at == number).map(|(_, fault)| fault) {
            None => self.inner.commit(commit).await,
            Some(Fault::DieBefore) => {
                self.kill();
                self.check().map(|()| Committed::default())
            }
            Some(Fault::DieAfter) => {
                self.inner.commit(commit).await.ok();
                self.kill();
                self.check().map(|()| Committed::default())
            }
            Some(Fault::LostReply) => {
                self.inner.commit(commit).await?;
                Err(Error::UnknownOutcome("the reply was lost".to_owned()))
            }
            Some(Fault::Hang) => {
                self.inner.commit(commit).await?;
                std::future::pending().await
            }
            Some(Fault::Outage) => {
                *self.out_until.lock().unwrap() = Some(Instant::now() + OUTAGE);
                Err(Error::Unavailable("the network is down".to_owned()))
            }
        }
    }
}

#[async_trait]
impl Store for FailingStore {
    fn limits(&self) -> Limits {
        testing::advertised(self.inner.limits())
    }

    fn sharing(&self) -> Sharing {
        self.inner.sharing()
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        let mut all = Committed::default();
        for part in testing::parts(commit, &self.inner.limits()) {
            let committed = self.commit_part(part).await;
            let before = all.versions.len();
            all.versions
                .extend(committed.map_err(|e| testing::of_part(e, before))?.versions);
        }
        Ok(all)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.check()?;
        self.inner.get(key).await
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.check()?;
        self.inner.scan(query).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.check()?;
        self.inner.due(query).await
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.check()?;
        self.inner.list(filter, after, limit).await
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.check()?;
        self.inner.counters().await
    }

    fn signals(&self) -> Signals {
        self.inner.signals()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

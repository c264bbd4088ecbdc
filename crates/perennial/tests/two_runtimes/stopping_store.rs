//! A store that numbers the positions at which its calls can wait, and waits at one of them.

use async_trait::async_trait;
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Error, Key, Limits, ListFilter, ListPage, OnDurable, Record,
    Refused, Result, ScanPage, ScanQuery, Sharing, Signals, Store,
};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the store demands to wait when it is busy.
pub const BUSY: Duration = Duration::from_millis(1_777);

/// What happens at a position.
pub enum Stop {
    /// The call reports that it is there, and waits until it is released.
    Wait(mpsc::Sender<()>, oneshot::Receiver<()>),
    /// The store is too busy, once.
    Busy,
}

#[derive(Default)]
struct Passed {
    count: usize,
    stop: Option<(usize, Stop)>,
}

/// A store with a position before and one after each of its calls.
pub struct StoppingStore {
    inner: Arc<dyn Store>,
    passed: Mutex<Passed>,
}

impl StoppingStore {
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            passed: Mutex::default(),
        })
    }

    /// Counts from 0 again, and stops at a position.
    pub fn stop_at(&self, stop: Option<(usize, Stop)>) {
        *self.passed.lock().unwrap() = Passed { count: 0, stop };
    }

    /// How many positions were passed.
    pub fn passed(&self) -> usize {
        self.passed.lock().unwrap().count
    }

    /// Whether the position at which it stops was reached.
    pub fn reached(&self) -> bool {
        self.passed.lock().unwrap().stop.is_none()
    }

    async fn pass(&self) -> Result<()> {
        let stop = {
            let mut passed = self.passed.lock().unwrap();
            passed.count += 1;
            let here = passed.count - 1;
            passed.stop.take_if(|(at, _)| *at == here)
        };
        match stop {
            None => Ok(()),
            Some((_, Stop::Busy)) => Err(Error::Throttled { retry_after: BUSY }),
            Some((_, Stop::Wait(came, go))) => {
                came.send(()).ok();
                go.await.ok();
                Ok(())
            }
        }
    }

    /// Only a call that has done nothing may be refused.
    async fn leave<T>(&self, outcome: T) -> T {
        self.pass().await.ok();
        outcome
    }
}

#[async_trait]
impl Store for StoppingStore {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn sharing(&self) -> Sharing {
        self.inner.sharing()
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.pass().await?;
        let outcome = self.inner.commit(commit).await;
        self.leave(outcome).await
    }

    async fn order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        if let Err(error) = self.pass().await {
            return Err(Refused { error, on_durable });
        }
        let outcome = self.inner.order(commit, on_durable).await;
        self.leave(outcome).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.pass().await?;
        let outcome = self.inner.get(key).await;
        self.leave(outcome).await
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.pass().await?;
        let outcome = self.inner.scan(query).await;
        self.leave(outcome).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.pass().await?;
        let outcome = self.inner.due(query).await;
        self.leave(outcome).await
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.pass().await?;
        let outcome = self.inner.list(filter, after, limit).await;
        self.leave(outcome).await
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

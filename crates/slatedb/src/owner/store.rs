//! The store of the process that owns it.

use super::runtime::BucketRuntime;
use crate::lease::{Ended, Handle, Held};
use crate::{Closing, SlateEngine};
use async_trait::async_trait;
use parking_lot::Mutex;
use perennial_kv::{EngineError, KvStore, Stats};
use perennial_store::{
    Clock, Commit, Committed, Counter, Cursor, DuePage, DueQuery, Error, Health, HealthReporter, HealthWatch, Key,
    Limits, ListFilter, ListPage, OnDurable, Outage, Record, Refused, Result, ScanPage, ScanQuery, Sharing, Signals,
    Store, SystemClock,
};
use std::future::Future;
use std::sync::Arc;

/// A store in a bucket, opened by its owner.
///
/// Invariant: nothing that was read is returned unless the lease is held after the read, so a process that was frozen while
/// another one took over returns nothing old. Writes need no such check: the database's epoch fences them.
///
/// Dropping it closes the database and then releases the lease, in the background.
pub struct SlateStore {
    inner: KvStore<SlateEngine>,
    lease: Option<Handle>,
    held: Mutex<Option<Held>>,
    closing: Closing,
    health: Arc<HealthReporter>,
    runtime: Arc<BucketRuntime>,
}

impl SlateStore {
    pub(super) fn new(
        inner: KvStore<SlateEngine>,
        held: Option<Held>,
        failure: impl Future<Output = EngineError> + Send + 'static,
        closing: Closing,
        runtime: &Arc<BucketRuntime>,
    ) -> Self {
        let health = Arc::new(HealthReporter::default());
        let lease = held.as_ref().map(Held::handle);
        let watching = watch(inner.health(), lease.clone(), failure, Arc::clone(&health));
        runtime.handle().spawn(watching);
        Self {
            inner,
            lease,
            held: Mutex::new(held),
            closing,
            health,
            runtime: Arc::clone(runtime),
        }
    }

    /// What this store has done so far.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Fails if the lease is not held any more.
    fn check(&self) -> Result<()> {
        match self.lease.as_ref().map(Handle::check) {
            Some(Err(ended)) => Err(Error::Closed(format!("{ended}; open the store again"))),
            _ => Ok(()),
        }
    }

    /// What was read, if the lease is still held.
    fn guard<T>(&self, read: Result<T>) -> Result<T> {
        self.check()?;
        read.map_err(not_final)
    }
}

/// Another process has taken over. That is not final: this one may own the store again.
fn not_final(error: Error) -> Error {
    match error {
        Error::Fenced(why) => Error::Closed(why),
        error => error,
    }
}

fn broken(why: impl ToString) -> Health {
    Health::Broken(Outage {
        why: why.to_string(),
        since_ms: SystemClock.now_ms(),
    })
}

/// Reports when the store takes no more requests, whatever ends it first.
async fn watch(
    mut store: HealthWatch,
    lease: Option<Handle>,
    failure: impl Future<Output = EngineError> + Send,
    reporter: Arc<HealthReporter>,
) {
    let lost = async {
        match &lease {
            Some(lease) => lease.lost().await,
            None => std::future::pending().await,
        }
    };
    let health = tokio::select! {
        health = store.stopped() => match health {
            Health::Fenced(outage) => Health::Broken(outage),
            health => health,
        },
        ended = lost => match ended {
            Ended::Released => Health::Closed,
            ended => broken(ended),
        },
        error = failure => broken(error),
    };
    reporter.stop(health);
}

/// Releases the lease once the database is closed.
async fn release(held: Option<Held>, closing: Closing) {
    closing.closed().await;
    if let Some(held) = held
        && let Err(error) = held.release().await
    {
        tracing::debug!(%error, "the lease was not released");
    }
}

impl Drop for SlateStore {
    fn drop(&mut self) {
        let Some(held) = self.held.lock().take() else {
            return;
        };
        let (closing, runtime) = (self.closing.clone(), Arc::clone(&self.runtime));
        self.runtime.handle().spawn(async move {
            release(Some(held), closing).await;
            drop(runtime);
        });
    }
}

#[async_trait]
impl Store for SlateStore {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn sharing(&self) -> Sharing {
        Sharing::Exclusive
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.check()?;
        self.inner.commit(commit).await.map_err(not_final)
    }

    async fn order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        if let Err(error) = self.check() {
            return Err(Refused { error, on_durable });
        }
        self.inner.order(commit, on_durable).await.map_err(|refused| Refused {
            error: not_final(refused.error),
            ..refused
        })
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.guard(self.inner.get(key).await)
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.guard(self.inner.scan(query).await)
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.guard(self.inner.due(query).await)
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.guard(self.inner.list(filter, after, limit).await)
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.guard(self.inner.counters().await)
    }

    fn signals(&self) -> Signals {
        self.inner.signals()
    }

    fn health(&self) -> HealthWatch {
        self.health.watch()
    }

    async fn close(&self) -> Result<()> {
        let outcome = self.inner.close().await.map_err(not_final);
        let held = self.held.lock().take();
        release(held, self.closing.clone()).await;
        self.health.stop(Health::Closed);
        outcome
    }
}

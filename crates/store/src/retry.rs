//! A store that retries: every engine puts one between itself and a database.

use crate::{
    Clock, Commit, Committed, Counted, Counter, Cursor, Doubt, Draft, DuePage, DueQuery, Error, HealthWatch, Key,
    Limits, ListFilter, ListPage, OnDurable, Op, Record, RecordPage, Refused, Result, ScanPage, ScanQuery, Sharing,
    Signals, Store, Totals, Version,
};
use async_trait::async_trait;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Retries transient failures, and determines the outcome of a commit whose reply was lost.
///
/// A runtime above treats any error of a provider harshly: it runs an activity twice or fails a workflow. So failures
/// that pass by themselves are waited out here, for at least as long as the server demands.
///
/// # Lost replies
///
/// After [`Error::UnknownOutcome`] the first records that the commit creates are read back, or the first that it writes
/// if it creates none. If one of them is stored as it was written, the commit happened; else it did not, and is made
/// again. This is sound because no other commit can have written the same: on a store that many processes share, the
/// engine marks what it writes with [`Stamps`](crate::Stamps). If another process has overwritten a record since, no
/// version is returned for it: the newer version must not pass for the commit's own. If another process has removed it
/// since, it is written again: a process that removes a record that must not arrive twice remembers it.
///
/// A commit that only deletes leaves no evidence. If any record that it deletes is left, it did not happen; if all are
/// gone, that is as good as if it had, but on a shared store the result says that it is
/// [inferred](Committed::inferred).
///
/// # Dropped futures
///
/// A future that is dropped while it waits to retry, or while it resolves a lost reply, retries and resolves no more: an
/// [ordered](Store::order) commit may then have happened without its call.
pub struct RetryStore {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    retry_for: Duration,
}

/// How many of the records that a commit creates are read before the commit is taken not to have happened.
const EVIDENCE_RECORDS: usize = 4;
const FIRST_WAIT: Duration = Duration::from_millis(5);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The waits between the attempts of one call.
struct Backoff<'a> {
    clock: &'a dyn Clock,
    deadline_ms: u64,
    wait: Duration,
}

impl<'a> Backoff<'a> {
    fn new(clock: &'a dyn Clock, retry_for: Duration) -> Self {
        let deadline_ms = clock.now_ms().saturating_add(retry_for.as_millis() as u64);
        Self {
            clock,
            deadline_ms,
            wait: FIRST_WAIT,
        }
    }

    /// Waits until the next attempt after this error; returns the error if there must be none.
    async fn wait_out(&mut self, error: Error) -> Result<()> {
        let is_over = self.clock.now_ms() >= self.deadline_ms;
        let pause = match error {
            Error::Throttled { retry_after } => retry_after.max(self.wait),
            Error::Unavailable(_) if !is_over => self.wait,
            error => return Err(error),
        };
        if is_over {
            return Err(Error::Throttled { retry_after: pause });
        }
        metrics::counter!("perennial_store_retries_total").increment(1);
        self.clock.sleep(pause).await;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Ok(())
    }
}

impl RetryStore {
    /// Wraps a store; a call is retried for about as long as `retry_for`.
    pub fn new(inner: Arc<dyn Store>, clock: Arc<dyn Clock>, retry_for: Duration) -> Self {
        Self {
            inner,
            clock,
            retry_for,
        }
    }

    /// Repeats a call until its result is not a transient failure, or `retry_for` has passed.
    async fn with_retries<T, Call, Reply>(&self, call: Call) -> Result<T>
    where
        Call: Fn() -> Reply,
        Reply: Future<Output = Result<T>>,
    {
        let mut backoff = Backoff::new(&*self.clock, self.retry_for);
        loop {
            match call().await {
                Err(error) => backoff.wait_out(error).await?,
                result => return result,
            }
        }
    }

    /// Reads a record, however long it takes: without it the outcome of a commit stays unknown, and the caller cannot
    /// go on.
    async fn read_back(&self, key: &Key) -> Result<Option<Record>> {
        loop {
            match self.get(key).await {
                Err(Error::Throttled { .. } | Error::Unavailable(_)) => self.clock.sleep(LONGEST_WAIT).await,
                result => return result,
            }
        }
    }

    /// The outcome of a commit whose reply was lost. It is made again if it did not happen.
    async fn resolve_or_repeat(&self, commit: &Commit, mut why: String, began_ms: u64) -> Result<Committed> {
        let deadline_ms = began_ms.saturating_add(self.retry_for.as_millis() as u64);
        loop {
            match self.resolve(commit).await {
                Ok(Some(committed)) => return Ok(committed),
                Err(Error::Closed(_)) => return Err(Error::UnknownOutcome(why)),
                Err(other) => return Err(other),
                Ok(None) => {}
            }
            if self.clock.now_ms() >= deadline_ms {
                return Err(Error::UnknownOutcome(why));
            }
            metrics::counter!("perennial_store_retries_total").increment(1);
            let outcome = self.with_retries(|| self.inner.commit(commit.clone())).await;
            match outcome {
                Err(Error::UnknownOutcome(again)) => why = again,
                // The first attempt may have happened after all, and what was read of it may have been stale. Reads that
                // follow this conflict are at least as new as it.
                Err(Error::Conflict { .. }) => {
                    return match self.resolve(commit).await? {
                        Some(committed) => Ok(committed),
                        None => outcome,
                    };
                }
                // The store broke with the first attempt, and nothing that it still returns is evidence.
                Err(Error::Closed(_)) => return Err(Error::UnknownOutcome(why)),
                outcome => return outcome,
            }
        }
    }

    /// The outcome of a commit whose reply was lost; `None` if it did not happen.
    async fn resolve(&self, commit: &Commit) -> Result<Option<Committed>> {
        if commit.ops.iter().all(|op| op.draft().is_none()) {
            return self.infer(commit).await;
        }
        if !self.happened(commit).await? {
            return Ok(None);
        }
        let mut versions = Vec::with_capacity(commit.ops.len());
        for op in &commit.ops {
            versions.push(match op.draft() {
                Some(draft) => self.version_written(draft).await?,
                None => None,
            });
        }
        Ok(Some(Committed::of(versions)))
    }

    async fn happened(&self, commit: &Commit) -> Result<bool> {
        let is_new = |op: &&Op| matches!(op, Op::Create(_));
        let created = commit.ops.iter().filter(is_new).filter_map(Op::draft);
        let mut evidence: Vec<&Draft> = created.take(EVIDENCE_RECORDS).collect();
        if evidence.is_empty() {
            evidence.extend(commit.ops.iter().find_map(Op::draft));
        }
        for draft in evidence {
            if self.version_written(draft).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The outcome of a commit that writes nothing: it happened if every record that it deletes is gone, unless another
    /// process deleted them.
    async fn infer(&self, commit: &Commit) -> Result<Option<Committed>> {
        let mut deletes = false;
        for op in &commit.ops {
            if matches!(op, Op::Absent(_)) {
                continue;
            }
            deletes = true;
            if self.read_back(op.key()).await?.is_some() {
                return Ok(None);
            }
        }
        if !deletes {
            return Ok(None);
        }
        Ok(Some(Committed {
            versions: vec![None; commit.ops.len()],
            inferred: self.sharing() == Sharing::Shared,
        }))
    }

    /// The version of a record that is stored as this draft. A record that was overwritten since is not this commit's,
    /// and its version must not pass for it.
    async fn version_written(&self, draft: &Draft) -> Result<Option<Version>> {
        let found = self.read_back(&draft.key).await?;
        let ours = found.filter(|record| draft.is_stored_as(record));
        Ok(ours.map(|record| record.version))
    }
}

#[async_trait]
impl Store for RetryStore {
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
        let began_ms = self.clock.now_ms();
        match self.with_retries(|| self.inner.commit(commit.clone())).await {
            Err(Error::UnknownOutcome(why)) => self.resolve_or_repeat(&commit, why, began_ms).await,
            outcome => outcome,
        }
    }

    async fn order(&self, commit: Commit, mut on_durable: OnDurable) -> std::result::Result<(), Refused> {
        let mut backoff = Backoff::new(&*self.clock, self.retry_for);
        let began_ms = self.clock.now_ms();
        loop {
            let refused = match self.inner.order(commit.clone(), on_durable).await {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            on_durable = refused.on_durable;
            let outcome = match refused.error {
                // The store has tried to make the commit durable at once.
                Error::UnknownOutcome(why) => self.resolve_or_repeat(&commit, why, began_ms).await,
                error => match backoff.wait_out(error).await {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
            };
            return Refused::or_call(outcome, on_durable);
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.with_retries(|| self.inner.get(key)).await
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.with_retries(|| self.inner.scan(query)).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.with_retries(|| self.inner.due(query)).await
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.with_retries(|| self.inner.list(filter, after, limit)).await
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.with_retries(|| self.inner.counters()).await
    }

    async fn list_records(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<RecordPage> {
        self.with_retries(|| self.inner.list_records(filter, after, limit))
            .await
    }

    async fn totals(&self) -> Result<Totals> {
        self.with_retries(|| self.inner.totals()).await
    }

    async fn resolve_doubt(&self, doubt: &Doubt, counted: &Counted) -> Result<bool> {
        // Not retried: the next query for totals will count once more.
        self.inner.resolve_doubt(doubt, counted).await
    }

    fn signals(&self) -> Signals {
        self.inner.signals()
    }

    fn health(&self) -> HealthWatch {
        self.inner.health()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests;

//! A store that retries: every engine puts one between itself and a database.

use crate::{
    Clock, Commit, Committed, Counted, Counter, Cursor, Doubt, Draft, DuePage, DueQuery, Error, HealthWatch, Key,
    Limits, ListFilter, ListPage, Op, Record, RecordPage, Result, ScanPage, ScanQuery, Sharing, Signals, Store, Totals,
    Version,
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
pub struct RetryStore {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    retry_for: Duration,
}

/// How many of the records that a commit creates are read before the commit is taken not to have happened.
const EVIDENCE_RECORDS: usize = 4;
const FIRST_WAIT: Duration = Duration::from_millis(5);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

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
        let deadline_ms = self.clock.now_ms().saturating_add(self.retry_for.as_millis() as u64);
        let mut wait = FIRST_WAIT;
        loop {
            let pause = match call().await {
                Err(Error::Throttled { retry_after }) => retry_after.max(wait),
                Err(Error::Unavailable(why)) if self.clock.now_ms() >= deadline_ms => {
                    return Err(Error::Unavailable(why));
                }
                Err(Error::Unavailable(_)) => wait,
                result => return result,
            };
            if self.clock.now_ms() >= deadline_ms {
                return Err(Error::Throttled { retry_after: pause });
            }
            metrics::counter!("perennial_store_retries_total").increment(1);
            self.clock.sleep(pause).await;
            wait = (wait * 2).min(LONGEST_WAIT);
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
        let deadline_ms = self.clock.now_ms().saturating_add(self.retry_for.as_millis() as u64);
        let mut unknown: Option<String> = None;
        loop {
            let outcome = self.with_retries(|| self.inner.commit(commit.clone())).await;
            let why = match outcome {
                Err(Error::UnknownOutcome(why)) => why,
                // The first attempt may have happened after all, and what was read of it may have been stale. Reads that
                // follow this conflict are at least as new as it.
                Err(Error::Conflict { .. }) if unknown.is_some() => {
                    return match self.resolve(&commit).await? {
                        Some(committed) => Ok(committed),
                        None => outcome,
                    };
                }
                // The store broke with the first attempt, and nothing that it still returns is evidence.
                Err(Error::Closed(_)) if unknown.is_some() => {
                    return Err(Error::UnknownOutcome(unknown.unwrap_or_default()));
                }
                outcome => return outcome,
            };
            match self.resolve(&commit).await {
                Ok(Some(committed)) => return Ok(committed),
                Err(Error::Closed(_)) => return Err(Error::UnknownOutcome(why)),
                Err(other) => return Err(other),
                Ok(None) => {}
            }
            if self.clock.now_ms() >= deadline_ms {
                return Err(Error::UnknownOutcome(why));
            }
            unknown = Some(why);
            metrics::counter!("perennial_store_retries_total").increment(1);
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

//! A store that takes large bodies, over one that does not: it stores them in chunks.

mod chunks;
mod plan;
mod pointer;
mod read;
mod stage;
mod sweep;

pub use chunks::is_manifest;
pub use sweep::Swept;

use crate::{
    Clock, Commit, Committed, Counted, Counter, Cursor, Doubt, DuePage, DueQuery, Error, HealthWatch, Key, Lane,
    Limits, ListFilter, ListPage, OnDurable, Record, RecordPage, Refused, Result, ScanPage, ScanQuery, Sharing,
    Signals, Store, Totals,
};
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The largest size of a record, and of a commit.
const BYTES: usize = 64 * 1024 * 1024;
/// How long staged chunks are kept, unless [`ChunkedStore::staging`] says otherwise.
const STAGING: Duration = Duration::from_secs(10 * 60);
/// Chunks that are in use are checked at least this often.
const LONGEST_WAIT_MS: u64 = 24 * 60 * 60 * 1000;
/// How often a commit is staged, or a read repeated, when other writers interfere each time.
const TRIES: usize = 8;

/// Takes bodies and commits of up to 64 MB on a store that takes far less.
///
/// A body that is too large for its record, or that makes the commit too large, is *spilled*: it is first written in
/// chunks under `part/…` in the same partition, invisible to readers of the record, and the commit itself holds a small
/// pointer in its place. The commit makes everything visible at once. A reader of the record gets the body; versions,
/// queues and listings are those of the record. A store whose own limits are as wide is passed through at no cost.
///
/// Put it above [`RetryStore`](crate::RetryStore), so that every write of chunks is retried by itself.
///
/// # What is left behind
///
/// The chunks of a commit that never came, or of a record that was overwritten or deleted, are garbage. Each set of
/// chunks has a manifest in a lane that the engine chooses among its own, so that no engine sweeps what is another's;
/// pass its key to [`ChunkedStore::sweep`] when it is due, and the set is deleted if no record refers to it. Until then
/// scans of a whole partition return the chunks, so that deleting a partition deletes them too. No caller may write ids
/// under `part`.
///
/// # Why a sweep never deletes chunks in use
///
/// The commit that writes the pointer also rewrites its manifest at the version at which it was staged, and a sweep
/// first deletes or rewrites the manifest at the version that it read. Only one of the two succeeds; a commit that
/// loses stages again. Where a commit already has as many operations as the store takes, there is no room for that
/// condition. Then a set is safe because it is kept for ten minutes, and a commit that is made later than half of that
/// stages again. What remains is a commit with the full number of operations that takes effect more than five minutes
/// after it was sent, or clocks that are further apart than that.
///
/// # What differs from a plain store
///
/// A commit that spills takes its place in the order when its last step is made, not when it is first polled. If the
/// future is dropped before that, nothing happened. One that is [ordered](Store::order) returns when it is durable; if its
/// future is dropped during the last step, the commit may happen without its call.
pub struct ChunkedStore {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    lane: Lane,
    limits: Limits,
    nonce: u64,
    spilled: AtomicU64,
    staging_ms: u64,
}

impl ChunkedStore {
    /// Wraps a store. Manifests wait in `lane` to be swept: a lane, or a topic of one, that holds nothing else. It is
    /// stored, so an engine never changes it. The nonce names what this handle stages: a random number, so that no
    /// other handle of the same data has it.
    pub fn new(inner: Arc<dyn Store>, clock: Arc<dyn Clock>, lane: Lane, nonce: u64) -> Self {
        let limits = inner.limits();
        let chunked = Self {
            inner,
            clock,
            lane,
            limits,
            nonce,
            spilled: AtomicU64::new(0),
            staging_ms: 0,
        };
        chunked.staging(STAGING)
    }

    /// The same store, keeping staged chunks for this long; ten minutes unless set.
    #[must_use]
    pub fn staging(mut self, staging: Duration) -> Self {
        let longest = LONGEST_WAIT_MS;
        self.staging_ms = u64::try_from(staging.as_millis()).map_or(longest, |ms| ms.min(longest));
        self
    }

    /// Like [`due`](Store::due), but bodies that are stored in chunks are left empty, for callers that only need to
    /// know which records there are.
    pub async fn due_inline(&self, query: &DueQuery) -> Result<DuePage> {
        let mut page = self.inner.due(query).await?;
        if !self.is_passthrough() {
            for record in &mut page.records {
                if !matches!(pointer::Pointer::decode(&record.key, &record.body), Ok(None)) {
                    record.body = bytes::Bytes::new();
                }
            }
        }
        Ok(page)
    }

    /// Whether the store below takes as much by itself, so that nothing is ever spilled.
    fn is_passthrough(&self) -> bool {
        self.limits.bytes_per_record >= BYTES && self.limits.bytes_per_commit >= BYTES
    }

    /// The operations whose bodies are spilled; fails if the commit could not succeed.
    fn spilling(&self, commit: &Commit) -> Result<Vec<usize>> {
        plan::check(commit, &self.limits)?;
        plan::spilling(commit, &self.limits)
    }

    /// Stages these bodies of a commit, and makes it.
    async fn commit_spilling(&self, commit: &Commit, spilling: &[usize]) -> Result<Committed> {
        for _ in 0..TRIES {
            if let Some(committed) = self.spill(commit, spilling).await? {
                return Ok(committed);
            }
        }
        let why =
            format!("a commit was staged {TRIES} times, and each time its chunks were gone or too old at the end");
        Err(Error::Unavailable(why))
    }

    /// The number of the next body that is spilled.
    fn next_number(&self) -> u64 {
        self.spilled.fetch_add(1, Ordering::Relaxed)
    }
}

#[async_trait]
impl Store for ChunkedStore {
    fn limits(&self) -> Limits {
        if self.is_passthrough() {
            return self.limits;
        }
        Limits {
            bytes_per_commit: BYTES,
            bytes_per_record: BYTES,
            ..self.limits
        }
    }

    fn sharing(&self) -> Sharing {
        self.inner.sharing()
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        if self.is_passthrough() {
            return self.inner.commit(commit).await;
        }
        match self.spilling(&commit)?.as_slice() {
            [] => self.inner.commit(commit).await,
            spilling => self.commit_spilling(&commit, spilling).await,
        }
    }

    async fn order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        if self.is_passthrough() {
            return self.inner.order(commit, on_durable).await;
        }
        let outcome = match self.spilling(&commit).as_deref() {
            Ok([]) => return self.inner.order(commit, on_durable).await,
            Ok(spilling) => self.commit_spilling(&commit, spilling).await,
            Err(error) => Err(error.clone()),
        };
        Refused::or_call(outcome, on_durable)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        match self.is_passthrough() {
            true => self.inner.get(key).await,
            false => self.get_whole(key).await,
        }
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        match self.is_passthrough() || query.keys_only {
            true => self.inner.scan(query).await,
            false => self.scan_whole(query).await,
        }
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        match self.is_passthrough() {
            true => self.inner.due(query).await,
            false => self.due_whole(query).await,
        }
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.inner.list(filter, after, limit).await
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.inner.counters().await
    }

    async fn list_records(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<RecordPage> {
        let mut page = self.inner.list_records(filter, after, limit).await?;
        if !self.is_passthrough() {
            let mut records = Vec::with_capacity(page.records.len());
            for record in page.records {
                match pointer::Pointer::decode(&record.key, &record.body) {
                    Ok(None) => records.push(record),
                    _ => records.extend(self.get_whole(&record.key).await?),
                }
            }
            page.records = records;
        }
        Ok(page)
    }

    async fn totals(&self) -> Result<Totals> {
        self.inner.totals().await
    }

    async fn resolve_doubt(&self, doubt: &Doubt, counted: &Counted) -> Result<bool> {
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

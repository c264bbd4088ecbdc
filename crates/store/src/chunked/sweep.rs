//! Deletion of chunks that no record refers to.

use super::chunks::{self, Manifest};
use super::pointer::Pointer;
use super::{ChunkedStore, LONGEST_WAIT_MS};
use crate::{Commit, ConflictReason, Draft, Error, Key, Op, Order, Record, Result, ScanQuery, Version};

/// How many keys are requested at a time.
const PAGE: usize = 1_000;

/// The result of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// A record refers to the chunks; they are checked again later.
    Kept,
    /// No record referred to the chunks; they are deleted.
    Removed,
    /// Nothing: the chunks were gone, not due, or changed meanwhile.
    Nothing,
}

impl ChunkedStore {
    /// Checks a set of chunks whose manifest is due in this store's lane, and deletes it if no record refers to it. If
    /// one does, it is checked again after twice the time, in the end once a day.
    ///
    /// May be called for any key in that lane, by several processes at once, and again after any error. A manifest in
    /// another lane belongs to another engine and is refused.
    pub async fn sweep(&self, key: &Key) -> Result<Swept> {
        let Some(nonce) = chunks::nonce_of(&key.id).filter(|_| !self.is_passthrough()) else {
            return Err(not_ours(key));
        };
        // First the manifest, then its owner: an owner that changes after this changes the manifest too.
        let Some(record) = self.inner.get(key).await? else {
            return Ok(Swept::Nothing);
        };
        if record.place.as_ref().is_some_and(|place| place.lane != self.lane) {
            return Err(not_ours(key));
        }
        let now_ms = self.clock.now_ms();
        if record.place.as_ref().is_some_and(|place| place.due_ms > now_ms) {
            return Ok(Swept::Nothing);
        }
        let manifest = Manifest::decode(&record)?;
        let outcome = match self
            .is_in_use(&Key::new(key.partition.clone(), owner_id(&manifest)), nonce)
            .await?
        {
            true => self.postpone(manifest, record, now_ms).await,
            false => self.remove(manifest, record, now_ms).await,
        };
        match outcome {
            Err(Error::Conflict { .. }) => Ok(Swept::Nothing),
            outcome => outcome,
        }
    }

    /// Whether the owner refers to the chunks, or cannot be read well enough to rule it out.
    async fn is_in_use(&self, owner: &Key, nonce: &str) -> Result<bool> {
        let record = match self.inner.get(owner).await {
            Err(Error::Corrupt(_)) => return Ok(true),
            record => record?,
        };
        let Some(record) = record else { return Ok(false) };
        match Pointer::decode(owner, &record.body) {
            Ok(pointer) => Ok(pointer.is_some_and(|pointer| pointer.nonce == nonce)),
            Err(_) => Ok(true),
        }
    }

    async fn postpone(&self, mut manifest: Manifest, record: Record, now_ms: u64) -> Result<Swept> {
        manifest.wait_ms = manifest.wait_ms.max(1).saturating_mul(2).min(LONGEST_WAIT_MS);
        self.rewrite(&manifest, record, now_ms).await?;
        Ok(Swept::Kept)
    }

    async fn remove(&self, manifest: Manifest, record: Record, now_ms: u64) -> Result<Swept> {
        let key = record.key.clone();
        let mut removals = self.chunk_removals(&key).await?;
        let limit = self.limits.ops_per_commit.max(1);
        let mut version = record.version.clone();
        if removals.len() >= limit {
            // More than one commit: before the first chunk is deleted, no writer may come back to the set.
            version = self.rewrite(&manifest, record, now_ms).await?;
        }
        // The manifest goes last: if this is interrupted, it leads to the rest.
        while removals.len() >= limit {
            let ops = removals.split_off(removals.len() - limit.min(removals.len()));
            self.inner.commit(Commit::new(ops).relaxed()).await?;
        }
        removals.insert(0, Op::Delete(key, version));
        // The name that dashboards know: "parts" are chunks.
        metrics::counter!("perennial_store_parts_swept_total").increment(removals.len() as u64);
        self.inner.commit(Commit::new(removals).relaxed()).await?;
        Ok(Swept::Removed)
    }

    /// Rewrites the manifest, due after its wait.
    async fn rewrite(&self, manifest: &Manifest, record: Record, now_ms: u64) -> Result<Version> {
        let order = record.place.as_ref().map_or(Order(0), |place| place.order);
        let draft: Draft = manifest.draft(record.key, &self.lane, order, now_ms)?;
        let commit = Commit::new(vec![Op::Replace(draft, record.version.clone())]).relaxed();
        let committed = self.inner.commit(commit).await?;
        // Without a version, it was overwritten before the lost reply was resolved: it changed meanwhile.
        let changed = Error::Conflict {
            op: 0,
            reason: ConflictReason::Changed,
        };
        committed.version(0).cloned().ok_or(changed)
    }

    /// The removal of every chunk below a manifest.
    async fn chunk_removals(&self, manifest: &Key) -> Result<Vec<Op>> {
        let mut query = ScanQuery::under(manifest.partition.clone(), manifest.id.clone(), PAGE).keys_only();
        let mut ops = Vec::new();
        loop {
            let page = self.inner.scan(&query).await?;
            let chunks = page.records.into_iter().filter(|record| record.key != *manifest);
            ops.extend(chunks.map(|record| Op::Remove(record.key)));
            query.after = page.next;
            if query.after.is_none() {
                return Ok(ops);
            }
        }
    }
}

/// What was to be swept is no manifest of this store's lane.
fn not_ours(key: &Key) -> Error {
    Error::Invalid(format!(
        "{key} is not the manifest of chunks in this store: sweep what is due in its lane"
    ))
}

fn owner_id(manifest: &Manifest) -> crate::RecordId {
    crate::RecordId::from_raw(manifest.owner.as_str())
}

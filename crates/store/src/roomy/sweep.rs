//! Deleting parts that no record refers to.

use super::parts::{self, Anchor};
use super::stub::Stub;
use super::{LONGEST_WAIT_MS, Roomy};
use crate::{Commit, Draft, Error, Key, Op, Order, Record, Result, ScanQuery, Version};

/// How many keys are asked for at a time.
const PAGE: usize = 1_000;

/// What a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// A record refers to the parts; they are looked at again later.
    Kept,
    /// Nobody referred to the parts; they are deleted.
    Removed,
    /// Nothing: the parts were gone, not due, or in somebody else's hands.
    Nothing,
}

impl Roomy {
    /// Looks at a set of parts whose anchor is due in [`parts_lane`](super::parts_lane), and deletes it if no record refers
    /// to it. If one does, it is looked at again after twice the time, at last once a day.
    ///
    /// May be called for any key in that queue, by several processes at once, and again after any error.
    pub async fn sweep(&self, key: &Key) -> Result<Swept> {
        let Some(nonce) = parts::nonce_of(&key.id).filter(|_| !self.is_idle()) else {
            let why = format!("{key} is not the anchor of parts that this store keeps: sweep what is due in its queue");
            return Err(Error::Invalid(why));
        };
        // First the anchor, then its owner: an owner that changes after this changes the anchor too.
        let Some(record) = self.inner.get(key).await? else {
            return Ok(Swept::Nothing);
        };
        let now_ms = self.clock.now_ms();
        if record.place.as_ref().is_some_and(|place| place.due_ms > now_ms) {
            return Ok(Swept::Nothing);
        }
        let anchor = Anchor::decode(&record)?;
        let outcome = match self
            .is_in_use(&Key::new(key.partition.clone(), owner_id(&anchor)), nonce)
            .await?
        {
            true => self.put_off(anchor, record, now_ms).await,
            false => self.remove(anchor, record, now_ms).await,
        };
        match outcome {
            Err(Error::Conflict { .. }) => Ok(Swept::Nothing),
            outcome => outcome,
        }
    }

    /// Whether the owner refers to the parts, or may do so for all that can be told.
    async fn is_in_use(&self, owner: &Key, nonce: &str) -> Result<bool> {
        let record = match self.inner.get(owner).await {
            Err(Error::Corrupt(_)) => return Ok(true),
            record => record?,
        };
        let Some(record) = record else { return Ok(false) };
        match Stub::decode(owner, &record.body) {
            Ok(stub) => Ok(stub.is_some_and(|stub| stub.nonce == nonce)),
            Err(_) => Ok(true),
        }
    }

    async fn put_off(&self, mut anchor: Anchor, record: Record, now_ms: u64) -> Result<Swept> {
        anchor.wait_ms = anchor.wait_ms.max(1).saturating_mul(2).min(LONGEST_WAIT_MS);
        self.rewrite(&anchor, record, now_ms).await?;
        Ok(Swept::Kept)
    }

    async fn remove(&self, anchor: Anchor, record: Record, now_ms: u64) -> Result<Swept> {
        let key = record.key.clone();
        let mut ids = self.slices(&key).await?;
        let limit = self.limits.ops_per_commit.max(1);
        let mut version = record.version.clone();
        if ids.len() >= limit {
            // More than one commit: before the first slice goes, no writer may come back to them.
            version = self.rewrite(&anchor, record, now_ms).await?;
        }
        // The anchor goes last, or who finds the rest if this is interrupted?
        while ids.len() >= limit {
            let ops = ids.split_off(ids.len() - limit.min(ids.len()));
            self.inner.commit(Commit::new(ops).relaxed()).await?;
        }
        ids.insert(0, Op::Delete(key, version));
        metrics::counter!("perennial_store_parts_swept_total").increment(ids.len() as u64);
        self.inner.commit(Commit::new(ids).relaxed()).await?;
        Ok(Swept::Removed)
    }

    /// Writes the anchor anew, due after its wait.
    async fn rewrite(&self, anchor: &Anchor, record: Record, now_ms: u64) -> Result<Version> {
        let order = record.place.as_ref().map_or(Order(0), |place| place.order);
        let draft: Draft = anchor.draft(record.key, order, now_ms)?;
        let commit = Commit::new(vec![Op::Replace(draft, record.version.clone())]).relaxed();
        let committed = self.inner.commit(commit).await?;
        let missing = || Error::Corrupt("a commit did not tell the version that it wrote".to_owned());
        committed.version(0).cloned().ok_or_else(missing)
    }

    /// The removal of every slice below an anchor.
    async fn slices(&self, anchor: &Key) -> Result<Vec<Op>> {
        let mut query = ScanQuery::under(anchor.partition.clone(), anchor.id.clone(), PAGE).keys_only();
        let mut ops = Vec::new();
        loop {
            let page = self.inner.scan(&query).await?;
            let slices = page.records.into_iter().filter(|record| record.key != *anchor);
            ops.extend(slices.map(|record| Op::Remove(record.key)));
            query.after = page.next;
            if query.after.is_none() {
                return Ok(ops);
            }
        }
    }
}

fn owner_id(anchor: &Anchor) -> crate::RecordId {
    crate::RecordId::from_raw(anchor.owner.as_str())
}

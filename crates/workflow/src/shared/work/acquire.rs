//! Claiming an activity where many processes share the store: a conditional write to its record, which hides it from
//! other processes until the lease ends.

use crate::board::{Body, QueuedActivity};
use crate::engine::Engine;
use crate::mutation::mutant;
use crate::queued::written;
use crate::records::envelope::Envelope;
use crate::records::work;
use crate::shared::{self, Shared, batcher};
use duroxide::providers::WorkItem;
use perennial_store::{Error, Op, Order, Place, Result, Version};
use std::sync::Arc;
use std::time::Duration;

/// What became of the attempt to claim an activity.
pub enum Acquired {
    /// It is ours.
    Ours(Arc<WorkItem>),
    /// It is not at the version that was expected: it is gone, or another process has it.
    Lost,
    /// It was not found at that version, by a read that may be older than the poll that returned it.
    Unseen,
}

/// Claims an activity and reads it.
pub async fn acquire(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    order: Order,
    queued: &QueuedActivity,
    lock: Duration,
) -> Result<Acquired> {
    let (item, version) = match &queued.body {
        Body::Held(item, _) => (Arc::clone(item), queued.version.clone()),
        Body::Stored => match engine.store.get(&queued.key).await? {
            None => return Ok(Acquired::Unseen),
            Some(record) if record.version != queued.version => return Ok(Acquired::Unseen),
            Some(record) => (Arc::new(Envelope::open(&record)?.item), record.version),
        },
    };
    // Reading may have taken so long that the lease of a claim made in advance is over.
    let is_claimed = shared::lasts(queued.reserved_ms, engine.clock.now_ms(), lock);
    if mutant!(KeepClaimsHere, true, is_claimed) {
        return Ok(Acquired::Ours(item));
    }
    let (mut version, mut extra_ms) = (version, 0);
    loop {
        let began_ms = engine.clock.now_ms();
        let until_ms = shared::until(began_ms, lock).saturating_add(extra_ms);
        let claimed = write(engine, shared, order, queued, &item, version, until_ms, queued.attempts).await?;
        let Some(claimed) = claimed else {
            return Ok(Acquired::Lost);
        };
        // The reply may have come so late that the lease would end too early.
        let is_good = shared::lasts(until_ms, engine.clock.now_ms(), lock);
        if mutant!(LeaseFromFetchStart, true, is_good) {
            return Ok(Acquired::Ours(item));
        }
        version = claimed;
        // What is large takes long to write: the next lease allows for that.
        extra_ms = engine.clock.now_ms().saturating_sub(began_ms).saturating_mul(2);
    }
}

/// Writes an activity's record again, with this due time and delivery count. `None` if it is not at this version.
#[allow(clippy::too_many_arguments)]
pub async fn write(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    order: Order,
    queued: &QueuedActivity,
    item: &WorkItem,
    version: Version,
    due_ms: u64,
    attempts: u32,
) -> Result<Option<Version>> {
    let place = Place {
        lane: engine.lanes.work(queued.activity.tag.as_ref()),
        order,
        due_ms,
    };
    let draft = work::draft(queued.key.clone(), item, place, attempts, Some(&shared.owner))?;
    let op = Op::Replace(draft, version);
    match batcher::commit(engine, shared, vec![op], Vec::new()).await {
        Ok(joined) => {
            // If another process has overwritten it since, that one has it.
            let version = written(&joined.versions, 0);
            if let Some(version) = &version {
                engine.board.lock().0.noted_task(order, attempts, version.clone());
            }
            Ok(version)
        }
        Err(Error::Conflict { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

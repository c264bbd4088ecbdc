//! Leases on instances that do not exist.
//!
//! A message that a poll returned may be gone, and its instance too, before it is claimed: then the claim creates a head of
//! nothing. The process that made it removes it; if that one dies first, it is a chore for any process.

use crate::engine::Engine;
use crate::records::head::{Head, PhantomLease};
use crate::records::{decode, instance_of, message};
use crate::send::slot_of;
use crate::tuning::PHANTOM_LEASE_RECHECK_MS;
use perennial_store::{Commit, Error, Op, Record, Result, ScanQuery};

/// Notes that a claim on a head may be on nothing.
pub fn note(engine: &Engine, head: &mut Head) {
    if head.is_blank() && !head.parked && head.phantom.is_none() {
        let order = engine.next_order().0;
        head.phantom = Some(PhantomLease { order, due_ms: 0 });
    }
}

/// Removes a head of nothing whose process is gone; if there are messages after all, a dispatcher will claim them.
pub async fn forget(engine: &Engine, record: Record) -> Result<()> {
    let mut head: Head = decode(&record)?;
    let now_ms = engine.clock.now_ms();
    let held = head.lease.as_ref().is_some_and(|lease| lease.until_ms > now_ms);
    let held = held || head.inline.is_some();
    let Some(phantom) = head.phantom.as_mut().filter(|_| !held) else {
        return Ok(());
    };
    phantom.due_ms = now_ms + PHANTOM_LEASE_RECHECK_MS;
    let query = ScanQuery::under(record.key.partition.clone(), message::root(), 1).keys_only();
    let op = match engine.store.scan(&query).await?.records.is_empty() {
        true => Op::Delete(record.key.clone(), record.version),
        false => Op::Replace(head.draft(record.key.clone())?, record.version),
    };
    let instance = instance_of(&record.key.partition);
    engine.cache.forget(instance, slot_of(instance));
    match engine.commit(Commit::new(vec![op])).await {
        // A process has claimed it.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

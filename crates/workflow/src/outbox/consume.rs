//! Consuming messages that came through an outbox.

use super::{Fate, Origin, known};
use crate::board::Handed;
use crate::engine::Engine;
use crate::mutation::mutant;
use crate::records::envelope::Envelope;
use crate::records::message;
use crate::records::tomb::Tomb;
use crate::tuning::INTENT_OUTCOME_WAIT;
use perennial_store::{Commit, Draft, Error, Key, Op, Order, Record, Result};
use std::sync::Arc;

/// Waits briefly until the outcome of these intents is known: then most messages need no tombstone.
pub async fn await_intents(engine: &Engine, origins: impl Iterator<Item = &Origin>) {
    let going = origins.filter(|origin| origin.fate() == Fate::Going);
    let going: Vec<_> = going.map(known).collect();
    if going.is_empty() {
        return;
    }
    tokio::select! {
        biased;
        _ = futures::future::join_all(going) => {}
        () = engine.clock.sleep(INTENT_OUTCOME_WAIT) => {}
    }
}

/// The operation that consumes a message at `now_ms`: it is removed, or replaced by a tombstone. On a shared store the operation
/// is on the version that was handed out: a process that changed the message since has taken over.
pub fn consumption(engine: &Engine, instance: &str, handed: &Handed, now_ms: u64) -> Result<Op> {
    let key = message::key(instance, &handed.id);
    let tomb = match &handed.origin {
        Some(origin) => tomb(origin, key.clone(), handed.order, now_ms)?,
        None => None,
    };
    Ok(engine.mode.consume_op(handed, key, tomb))
}

/// The tombstone that a message must leave, if its intent may be delivered again.
fn tomb(origin: &Origin, key: Key, order: Order, now_ms: u64) -> Result<Option<Draft>> {
    if mutant!(NoTombstone, true, origin.fate() == Fate::Gone) {
        return Ok(None);
    }
    let from = origin.from.clone();
    Tomb { from }.draft(key, order, now_ms).map(Some)
}

/// The operation that removes a message with its instance.
pub async fn removal_op(engine: &Engine, instance: &str, key: Key, order: Order) -> Result<Op> {
    if key.id == message::id(order, engine.process_id()) {
        return Ok(Op::Remove(key));
    }
    let known = engine.board.lock().0.turns().origin(instance, order);
    let origin = match known {
        Some(origin) => Some(origin),
        None => {
            let record = engine.store.get(&key).await?;
            match record.map(|record| Envelope::open(&record)) {
                Some(Ok(Envelope { from: Some(from), .. })) => Some(Arc::new(Origin::new(from, Fate::Unknown))),
                _ => None,
            }
        }
    };
    let now_ms = engine.clock.now_ms();
    let tomb = match origin {
        Some(origin) => tomb(&origin, key.clone(), order, now_ms)?,
        None => None,
    };
    Ok(tomb.map_or_else(|| Op::Remove(key), Op::Put))
}

/// Removes a tombstone that has expired. Its intent has been delivered; if it still exists, it is removed first.
pub async fn sweep(engine: &Engine, record: Record) -> Result<()> {
    let intent = Tomb::open(&record)?.from.key();
    if engine.store.get(&intent).await?.is_some() {
        engine.commit(Commit::new(vec![Op::Remove(intent)])).await?;
    }
    let delete = Commit::new(vec![Op::Delete(record.key, record.version)]);
    match engine.commit(delete).await {
        // Another process has swept it.
        Err(Error::Conflict { .. }) => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

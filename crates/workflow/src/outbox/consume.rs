//! Consuming messages that came through an outbox.

use super::{Fate, Origin, known};
use crate::engine::Engine;
use crate::mutation::{self, Mutation};
use crate::records::envelope::Envelope;
use crate::records::message;
use crate::records::tomb::Tomb;
use perennial_store::{Commit, Error, Key, Op, Order, Record, Result};
use std::sync::Arc;
use std::time::Duration;

/// How long a turn waits to know what became of the intents of its messages.
const WAIT: Duration = Duration::from_millis(100);

/// Waits, but not for long, until it is known what became of these intents: then most need no tombstone.
pub async fn goodbye(engine: &Engine, origins: &[(Order, Arc<Origin>)]) {
    let going = origins.iter().filter(|(_, origin)| origin.fate() == Fate::Going);
    let going: Vec<_> = going.map(|(_, origin)| known(origin)).collect();
    if going.is_empty() {
        return;
    }
    tokio::select! {
        biased;
        _ = futures::future::join_all(going) => {}
        () = engine.clock.sleep(WAIT) => {}
    }
}

/// How a message goes that is consumed at `now_ms`: for good, or with a tombstone in its place.
pub fn consumption(instance: &str, order: Order, origin: Option<&Origin>, now_ms: u64) -> Result<Op> {
    let key = message::key_from(instance, order, origin.map(|origin| &origin.from));
    match origin {
        Some(origin) if origin.fate() != Fate::Gone && !mutation::is(Mutation::NoTombstone) => {
            let tomb = Tomb {
                from: origin.from.clone(),
            };
            Ok(Op::Put(tomb.draft(key, order, now_ms)?))
        }
        _ => Ok(Op::Remove(key)),
    }
}

/// How a message goes that is deleted with its instance.
pub async fn farewell(engine: &Engine, instance: &str, key: Key, order: Order) -> Result<Op> {
    if key == message::key(instance, order) {
        return Ok(Op::Remove(key));
    }
    let known = engine.board.lock().0.turns().origins(instance, &[order]);
    if let Some((_, origin)) = known.first() {
        return consumption(instance, order, Some(origin), engine.clock.now_ms());
    }
    let record = engine.store.get(&key).await?;
    match record.map(|record| Envelope::open(&record)) {
        Some(Ok(Envelope { from: Some(from), .. })) => {
            let origin = Origin::new(from, Fate::Unknown);
            consumption(instance, order, Some(&origin), engine.clock.now_ms())
        }
        _ => Ok(Op::Remove(key)),
    }
}

/// Removes a tombstone whose time has come. Its intent has been delivered, so if it is still there it goes first.
pub async fn sweep(engine: &Engine, record: Record) -> Result<()> {
    let intent = Tomb::open(&record)?.from.key();
    if engine.store.get(&intent).await?.is_some() {
        engine.commit(Commit::new(vec![Op::Remove(intent)])).await?;
    }
    let delete = Commit::new(vec![Op::Delete(record.key, record.version)]);
    match engine.commit(delete).await {
        // Somebody else has swept it.
        Err(Error::Conflict { .. }) => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

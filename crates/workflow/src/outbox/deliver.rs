//! Delivering intents: the message is written first, then the intent is removed.

use super::Fate;
use super::intent::{Intent, State};
use crate::board::{QueuedMessage, Reservation};
use crate::engine::Engine;
use crate::mutation::mutant;
use crate::queued::written;
use crate::records::envelope::Envelope;
use crate::records::intent;
use crate::records::{message, tomb};
use crate::recover;
use crate::shared;
use crate::tuning::DELIVERIES_AT_ONCE;
use futures::{FutureExt, StreamExt};
use perennial_store::{Commit, Error, Op, Order, Partition, Result, Sharing, Version};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tracing::error;

/// Delivers intents of one sender and removes them, from the store and from `intents`; after an error the rest is still in
/// `intents`. Only one task at a time may do this for a sender.
pub async fn carry(engine: &Arc<Engine>, sender: &Partition, intents: &mut VecDeque<Intent>) -> Result<()> {
    let limit = engine.store.limits().ops_per_commit;
    while !intents.is_empty() {
        let batch = intents.len().min(limit);
        mutant!(
            DeleteIntentFirst,
            remove(engine, sender, intents.iter().take(batch)).await?
        );
        let mut groups: BTreeMap<&str, Vec<&Intent>> = BTreeMap::new();
        for intent in intents.iter().take(batch).filter(|intent| intent.is(State::Waiting)) {
            groups.entry(&intent.body.target).or_default().push(intent);
        }
        let mut calls = Vec::with_capacity(groups.len());
        for (target, group) in groups {
            calls.push(serve(engine, sender, target, group).boxed());
        }
        let calls = futures::stream::iter(calls).buffer_unordered(DELIVERIES_AT_ONCE);
        let served: Vec<Result<()>> = calls.collect().await;
        let delivered = intents.iter().take(batch).filter(|intent| intent.is(State::Delivered));
        remove(engine, sender, delivered).await?;
        intents.retain(|intent| intent.is(State::Waiting));
        served.into_iter().collect::<Result<()>>()?;
    }
    Ok(())
}

/// Removes intents that were delivered.
///
/// Another process that delivers an intent rewrites it first. So a process that removes the version it wrote itself knows
/// that no other process has delivered the intent or ever will.
async fn remove(engine: &Engine, sender: &Partition, intents: impl Iterator<Item = &Intent>) -> Result<()> {
    let gone: Vec<&Intent> = intents.collect();
    if gone.is_empty() {
        return Ok(());
    }
    let inferred = loop {
        let removal = |gone: &&Intent| {
            let key = intent::key(sender, gone.order());
            match gone.version.lock().clone() {
                Some(version) => Op::Delete(key, version),
                None => Op::Remove(key),
            }
        };
        match engine.commit(Commit::new(gone.iter().map(removal).collect())).await {
            Err(Error::Conflict { op, .. }) => match gone.get(op) {
                Some(lost) => {
                    *lost.version.lock() = None;
                    lost.origin.tell(Fate::Unknown);
                }
                None => return Ok(()),
            },
            outcome => break outcome?.inferred,
        }
    };
    engine.meters.deliveries.increment(gone.len() as u64);
    for intent in gone.iter().filter(|intent| intent.origin.fate() == Fate::Going) {
        // If another process may have removed it, that process may have delivered it, too.
        intent.origin.tell(if inferred { Fate::Unknown } else { Fate::Gone });
    }
    Ok(())
}

/// Delivers intents to one target, in order.
async fn serve(engine: &Arc<Engine>, sender: &Partition, target: &str, mut group: Vec<&Intent>) -> Result<()> {
    let target: Arc<str> = Arc::from(target);
    let _arriving = engine.board.announce(vec![Arc::clone(&target)]);
    while !group.is_empty() {
        match write(engine, &target, &group).await {
            Err(Error::Conflict { op, .. }) if op < group.len() => {
                let met = group.remove(op);
                meet(engine, &target, met).await?;
                met.set(State::Delivered);
            }
            Err(error) if is_hopeless(&error) => return isolate(engine, sender, &target, group, &error).await,
            outcome => return outcome,
        }
    }
    Ok(())
}

/// Delivers the messages of a group one by one, because one of them makes every commit fail. A message that fails alone is
/// set aside.
async fn isolate(
    engine: &Arc<Engine>,
    sender: &Partition,
    target: &str,
    group: Vec<&Intent>,
    why: &Error,
) -> Result<()> {
    if let [intent] = group.as_slice() {
        set_aside(engine, sender, intent, why).await?;
        intent.set(State::Aside);
        return Ok(());
    }
    for intent in group {
        Box::pin(serve(engine, sender, target, vec![intent])).await?;
    }
    Ok(())
}

/// Writes the messages of a group in one commit and puts them on the board.
async fn write(engine: &Arc<Engine>, target: &Arc<str>, group: &[&Intent]) -> Result<()> {
    let mut ops = Vec::with_capacity(group.len());
    let mut written_as = Vec::with_capacity(group.len());
    for intent in group {
        let order = mutant!(DeliverTwice, engine.next_order(), intent.order());
        let draft = intent.message(engine, order)?;
        written_as.push((order, draft.body.len()));
        ops.push(Op::Create(draft));
    }
    let since = shared::known_version(engine, target);
    let first = group.first().map(|intent| intent.arrival(target));
    let first = first.filter(|_| engine.outbox.is_open());
    let (committed, reservation) = engine.mode.create_messages(engine, ops, first).await?;
    for (op, (intent, (order, bytes))) in group.iter().zip(written_as).enumerate() {
        // A message that is gone or changed already needs no delivery.
        if let Some(version) = written(&committed, op).filter(|_| engine.outbox.is_open()) {
            let queued = intent.queued(engine, order, version, 0, bytes);
            let reservation = reservation.as_ref().filter(|_| op == 0);
            let reservation = reservation.map(|(reservation, _)| reservation.clone());
            post(engine, target, order, queued, since.clone(), reservation);
        }
        intent.set(State::Delivered);
    }
    Ok(())
}

fn is_hopeless(error: &Error) -> bool {
    matches!(error, Error::TooLarge { .. } | Error::Invalid(_) | Error::Corrupt(_))
}

fn post(
    engine: &Engine,
    target: &Arc<str>,
    order: Order,
    queued: QueuedMessage,
    since: Option<Version>,
    reservation: Option<Reservation>,
) {
    if !engine.board.lock().0.turns().has(target, order) {
        engine.mode.deliver(engine, target, order, queued, since, reservation);
    }
}

/// Handles a message that was written before. If the reply to its first delivery was lost, the board may not have it.
async fn meet(engine: &Engine, target: &Arc<str>, intent: &Intent) -> Result<()> {
    let order = intent.order();
    let is_ours = engine.store.sharing() == Sharing::Exclusive && engine.outbox.is_open();
    if !is_ours || engine.board.lock().0.turns().has(target, order) {
        return Ok(());
    }
    let key = message::key(target, &message::id_from(order, &intent.origin.from));
    let Some(record) = engine.store.get(&key).await?.filter(|record| !tomb::is_tomb(record)) else {
        return Ok(());
    };
    if let Ok(envelope) = Envelope::open(&record) {
        let queued = intent.queued(engine, order, record.version, envelope.attempts, record.body.len());
        post(engine, target, order, queued, None, None);
    }
    Ok(())
}

/// Sets an intent aside whose message no store will ever accept.
async fn set_aside(engine: &Engine, sender: &Partition, intent: &Intent, why: &Error) -> Result<()> {
    error!(%sender, target = intent.body.target, %why, "a message cannot be delivered: it is set aside in its sender's outbox");
    let mut draft = intent.body.draft(sender, 0)?;
    draft.place = Some(recover::aside("outbox", intent.order()));
    engine.commit(Commit::new(vec![Op::Put(draft)])).await?;
    engine.meters.quarantined.increment(1);
    Ok(())
}

//! Messages inlined in heads, where many processes share the store.
//!
//! A commit that brings a message and claims the instance for it writes the head anyway. If the message is small it goes
//! into the head, and the turn that consumes it writes the head without it: neither costs a record. It is there for that
//! turn alone. Every other write of the head takes it out, and then it has a record as all messages have. If the process
//! dies, the head itself is due as a message from the end of its lease on.

use crate::board::{Handed, QueuedMessage};
use crate::engine::Engine;
use crate::mutation::mutant;
use crate::records::head::{Head, InlineMessage};
use crate::records::{instance_of, message};
use crate::send::slot_of;
use perennial_store::{Commit, Committed, Draft, Error, Op, Order, Place, Record, RecordId, Result, Version};
use std::sync::Arc;

/// A message that was in a head.
pub struct TakenOut {
    /// Its order of arrival.
    pub order: Order,
    /// The operation that gives it a record.
    create: Op,
}

/// Takes the message out of a head, if there is one.
pub fn take_out(engine: &Engine, instance: &str, head: &mut Head) -> Result<Option<TakenOut>> {
    let inline = head.inline.take();
    let Some(inline) = mutant!(LoseInline, None, inline) else {
        return Ok(None);
    };
    let order = Order(inline.order);
    let create = Op::Create(draft(engine, instance, &inline, 0, 0)?);
    Ok(Some(TakenOut { order, create }))
}

/// Takes a message that was handed out out of its head, to be due at another time.
pub fn put_off(
    engine: &Engine,
    instance: &str,
    head: &mut Head,
    handed: &Handed,
    due_ms: u64,
    attempts: u32,
) -> Result<Option<Op>> {
    let is_this = |inline: &mut Arc<InlineMessage>| handed.inline && inline.order == handed.order.0;
    let Some(inline) = head.inline.take_if(is_this) else {
        return Ok(None);
    };
    draft(engine, instance, &inline, due_ms, attempts).map(|draft| Some(Op::Create(draft)))
}

/// The record of a message that was in a head.
fn draft(engine: &Engine, instance: &str, inline: &InlineMessage, due_ms: u64, attempts: u32) -> Result<Draft> {
    let place = Place {
        lane: engine.lanes.turn(),
        order: Order(inline.order),
        due_ms,
    };
    let id = RecordId::from_raw(inline.id.as_str());
    message::draft(instance, &id, &inline.item, place, attempts, None)
}

/// The message in a head that stays there when these are consumed.
pub fn left(head: &Head, handed: &[Handed]) -> Option<Arc<InlineMessage>> {
    let is_handed = |inline: &Arc<InlineMessage>| handed.iter().any(|handed| handed.order.0 == inline.order);
    head.inline.clone().filter(|inline| !is_handed(inline))
}

/// Whether the messages that this process knows as inlined are in this head. One that is not may long have been consumed by
/// another process.
pub fn are_there(head: Option<&Head>, queued_messages: &[(Order, QueuedMessage)]) -> bool {
    let there = head.and_then(|head| head.inline.as_ref()).map(|inline| inline.order);
    let mut inline = queued_messages.iter().filter(|(_, queued)| queued.inline);
    inline.all(|(order, _)| Some(order.0) == there)
}

/// Writes a head, and the record of the message that was in it.
pub async fn commit(engine: &Engine, instance: &Arc<str>, head: Op, out: Option<TakenOut>) -> Result<Committed> {
    let Some(TakenOut { order, create }) = out else {
        return engine.commit(Commit::new(vec![head])).await;
    };
    let committed = match engine.commit(Commit::new(vec![head.clone(), create])).await {
        // Its sender, whose reply was lost, has stored it once more.
        Err(Error::Conflict { op: 1, .. }) => engine.commit(Commit::new(vec![head])).await?,
        outcome => outcome?,
    };
    has_record(engine, instance, order, committed.version(1));
    Ok(committed)
}

/// A message is not in its head any more: it has a record of this version, or of an unknown one.
fn has_record(engine: &Engine, instance: &Arc<str>, order: Order, version: Option<&Version>) {
    let (mut board, _) = engine.board.lock();
    match version {
        Some(version) => board.noted(instance, order, 0, version.clone()),
        None => {
            board.forget_messages(instance, &[order]);
            board.refresh(instance);
            board.drop_if_idle(instance);
        }
    }
}

/// Takes the message out of a head whose process is gone; returns whether that was done.
pub async fn set_free(engine: &Engine, record: Record, mut head: Head) -> Result<bool> {
    let now_ms = engine.clock.now_ms();
    let is_held = head.lease.as_ref().is_some_and(|lease| lease.until_ms > now_ms);
    if is_held || head.deletion.is_some() || head.pending.is_some() {
        return Ok(false);
    }
    let instance: Arc<str> = Arc::from(instance_of(&record.key.partition));
    let Some(out) = take_out(engine, &instance, &mut head)? else {
        return Ok(false);
    };
    // The lease stays as it is: by another clock it may not be over yet.
    let op = if head.is_nothing() {
        Op::Delete(record.key.clone(), record.version)
    } else {
        Op::Replace(head.draft(record.key.clone())?, record.version)
    };
    engine.cache.forget(&instance, slot_of(&instance));
    match commit(engine, &instance, op, Some(out)).await {
        Ok(_) => Ok(true),
        // Another process was faster.
        Err(Error::Conflict { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

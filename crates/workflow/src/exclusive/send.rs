//! Messages on their way in.

use crate::board::{MessageKind, QueuedMessage};
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::queued::{NewMessage, written};
use crate::records::head::Head;
use perennial_store::{Commit, Error, Op, Order, Result, Slot, Version};
use std::sync::Arc;

/// Stores a message, in the same commit as the operation `with` if there is one; returns the version that this wrote. A start
/// also finds out whether the instance is new, so that its first turn need not read.
pub async fn send(
    engine: &Arc<Engine>,
    new_message: NewMessage,
    create: Op,
    with: Option<Op>,
) -> Result<Option<Version>> {
    let _arriving = engine.board.announce(vec![Arc::clone(&new_message.instance)]);
    let head = Head::key(&new_message.instance);
    let slot = Slot::of(&head.partition);
    let mut committed = None;
    if new_message.sort == MessageKind::Start && engine.cache.peek(&new_message.instance).is_none() {
        let began = engine.cache.begin(slot);
        let mut ops = vec![create.clone(), Op::Absent(head)];
        ops.extend(with.clone());
        match engine.commit(Commit::new(ops)).await {
            Ok(done) => {
                let nothing = Arc::new(Snapshot::default());
                engine
                    .cache
                    .fill(&new_message.instance, slot, began, nothing, engine.trust(), false);
                committed = Some(done);
            }
            Err(Error::Conflict { op: 1, .. }) => {}
            Err(other) => return Err(other),
        }
    }
    let committed = match committed {
        Some(committed) => committed,
        None => {
            let ops = [create].into_iter().chain(with.clone());
            engine.commit(Commit::new(ops.collect())).await?
        }
    };
    engine.meters.messages.increment(1);
    let pin = engine.known_pin(&new_message.instance);
    let (mut board, now_ms) = engine.board.lock();
    if let Some(version) = written(&committed, new_message.op) {
        board.post(
            &new_message.instance,
            new_message.order,
            new_message.queued(version),
            pin,
            now_ms,
        );
    }
    let last = committed.versions.last().filter(|_| with.is_some());
    Ok(last.cloned().flatten())
}

/// Puts a message on the board that an outbox has delivered.
pub fn deliver(engine: &Engine, instance: &Arc<str>, order: Order, queued: QueuedMessage) {
    let pin = engine.known_pin(instance);
    let (mut board, now_ms) = engine.board.lock();
    board.bring_message(instance, order, queued, pin, now_ms);
}

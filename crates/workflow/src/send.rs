//! Messages and activities from outside: of clients, and of tests that fill queues by hand.

use crate::engine::{Engine, put_off};
use crate::error::{from_store, wrong_item};
use crate::mutation::mutant;
use crate::names;
use crate::queued::{NewActivity, NewMessage, written};
use crate::records::partition;
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Applied, Commit, Error, Op, Slot};
use std::sync::Arc;
use std::time::Duration;

const OPERATION: &str = "enqueue_for_orchestrator";

/// Sends a message to an instance, to be seen after `delay`.
pub async fn message(engine: &Arc<Engine>, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
    names::check(OPERATION, &engine.store.limits(), &item)?;
    let due_ms = due_after(engine, delay);
    mutant!(SendTwice, send(engine, item.clone(), due_ms).await.ok());
    send(engine, item, due_ms).await
}

/// Stores a message of a client elsewhere in the same commit as the operation `with`; returns the version that this wrote.
pub async fn message_with(
    engine: &Arc<Engine>,
    item: WorkItem,
    delay: Option<Duration>,
    with: Op,
) -> perennial_store::Result<Applied> {
    if let Err(refused) = names::check(OPERATION, &engine.store.limits(), &item) {
        return Ok(Applied::Refused(refused.message));
    }
    let Some((new_message, create)) = NewMessage::new(engine, item, due_after(engine, delay), 0)? else {
        return Ok(Applied::Refused(
            "the work item is not a message to an instance".to_owned(),
        ));
    };
    let engine = Arc::clone(engine);
    let spawner = engine.spawner;
    let sent = spawner.shield(async move { engine.mode.send_with(&engine, new_message, create, with).await });
    sent.await.map(Applied::Done)
}

/// When a message with this delay is ready.
fn due_after(engine: &Engine, delay: Option<Duration>) -> u64 {
    let delay = delay.filter(|delay| !delay.is_zero());
    delay.map_or(0, |delay| put_off(engine.clock.now_ms(), delay))
}

async fn send(engine: &Arc<Engine>, item: WorkItem, due_ms: u64) -> Result<(), ProviderError> {
    let failed = |e: Error| from_store(OPERATION, &e);
    let new_message = NewMessage::new(engine, item, due_ms, 0).map_err(failed)?;
    let (new_message, create) = new_message.ok_or_else(|| wrong_item(OPERATION, "a message to an instance"))?;
    let engine = Arc::clone(engine);
    engine
        .spawner
        .shield(async move { engine.mode.send(&engine, new_message, create).await.map_err(failed) })
        .await
}

/// Puts an activity into the queue without a turn.
pub async fn activity(engine: &Arc<Engine>, item: WorkItem) -> Result<(), ProviderError> {
    const OPERATION: &str = "enqueue_for_worker";
    let new_activity = NewActivity::new(engine, item, 0, 0).map_err(|e| from_store(OPERATION, &e))?;
    let (new_activity, create) = new_activity.ok_or_else(|| wrong_item(OPERATION, "an activity"))?;
    let engine = Arc::clone(engine);
    engine
        .spawner
        .shield(async move {
            let committed = engine
                .commit(Commit::new(vec![create]))
                .await
                .map_err(|e| from_store(OPERATION, &e))?;
            let (mut board, now_ms) = engine.board.lock();
            if let Some(version) = written(&committed, new_activity.op) {
                board.bring_activity(new_activity.order, new_activity.queued(version), now_ms);
            }
            Ok(())
        })
        .await
}

/// The slot of an instance.
pub fn slot_of(instance: &str) -> Slot {
    Slot::of(&partition(instance))
}

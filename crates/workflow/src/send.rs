//! Messages and activities from outside: clients, and tests that fill lanes by hand.

use crate::engine::{Engine, put_off};
use crate::error::{from_store, wrong_item};
use crate::instance::Snapshot;
use crate::mutation::mutant;
use crate::names;
use crate::queued::{NewActivity, NewMessage, written};
use crate::records::head::Head;
use crate::records::partition;
use crate::shared::{self, Arrival, ArrivalClaim, batcher};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Commit, Error, Op, Slot};
use std::sync::Arc;
use std::time::Duration;

const OPERATION: &str = "enqueue_for_orchestrator";

/// Sends a message to an instance, to be seen after `delay`.
pub async fn message(engine: &Arc<Engine>, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
    names::check(OPERATION, &engine.store.limits(), &item)?;
    let delay = delay.filter(|delay| !delay.is_zero());
    let due_ms = delay.map_or(0, |delay| put_off(engine.clock.now_ms(), delay));
    mutant!(SendTwice, send(engine, item.clone(), due_ms).await.ok());
    send(engine, item, due_ms).await
}

async fn send(engine: &Arc<Engine>, item: WorkItem, due_ms: u64) -> Result<(), ProviderError> {
    let failed = |e: Error| from_store(OPERATION, &e);
    let new_message = NewMessage::new(engine, item, due_ms, 0).map_err(failed)?;
    let (new_message, create) = new_message.ok_or_else(|| wrong_item(OPERATION, "a message to an instance"))?;
    let engine = Arc::clone(engine);
    engine
        .spawner
        .shield(async move { store(&engine, new_message, create).await.map_err(failed) })
        .await
}

/// Stores a message where many processes share the store.
async fn store_shared(engine: &Arc<Engine>, new_message: NewMessage, create: Op) -> Result<(), Error> {
    let since = shared::known_version(engine, &new_message.instance);
    let (arrival_claim, optional) = ArrivalClaim::of(engine, &Arrival::from(&new_message))?.unzip();
    let joined = match batcher::commit(engine, vec![create], optional.into_iter().collect()).await {
        // It was in the head after all, and has been taken out.
        Err(Error::Conflict { .. }) if arrival_claim.is_some() => return Ok(()),
        outcome => outcome?,
    };
    engine.meters.messages.increment(1);
    shared::receive(engine, &new_message, since, arrival_claim.as_ref(), &joined);
    Ok(())
}

/// Stores a message. A start also finds out whether the instance is new, so that nobody has to read to know.
async fn store(engine: &Arc<Engine>, new_message: NewMessage, create: Op) -> Result<(), Error> {
    if engine.shared.is_some() {
        return store_shared(engine, new_message, create).await;
    }
    let _arriving = engine.board.announce(vec![Arc::clone(&new_message.instance)]);
    let head = Head::key(&new_message.instance);
    let slot = Slot::of(&head.partition);
    let mut committed = None;
    if new_message.sort == crate::board::MessageKind::Start && engine.cache.peek(&new_message.instance).is_none() {
        let began = engine.cache.begin(slot);
        let new = Commit::new(vec![create.clone(), Op::Absent(head)]);
        match engine.commit(new).await {
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
        None => engine.commit(Commit::new(vec![create])).await?,
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
    Ok(())
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

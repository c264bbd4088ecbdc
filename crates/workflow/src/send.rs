//! Messages and activities from outside: clients, and tests that fill queues by hand.

use crate::engine::{Engine, put_off};
use crate::error::{from_store, wrong_item};
use crate::instance::Snapshot;
use crate::mutation::{self, Mutation};
use crate::names;
use crate::queued::{Offer, Post, written};
use crate::records::head::Head;
use crate::records::partition;
use crate::shared::{self, Arrival, Foresight, joint};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Commit, Error, Op, Slot};
use std::sync::Arc;
use std::time::Duration;

/// Sends a message to an instance, to be seen after `delay`.
pub async fn message(engine: &Arc<Engine>, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
    const OPERATION: &str = "enqueue_for_orchestrator";
    names::check(OPERATION, &engine.store.limits(), &item)?;
    let delay = delay.filter(|delay| !delay.is_zero());
    let due_ms = delay.map_or(0, |delay| put_off(engine.clock.now_ms(), delay));
    let again = mutation::is(Mutation::SendTwice).then(|| Post::new(engine, item.clone(), due_ms, 0));
    let post = Post::new(engine, item, due_ms, 0).map_err(|e| from_store(OPERATION, &e))?;
    let (post, create) = post.ok_or_else(|| wrong_item(OPERATION, "a message to an instance"))?;
    let engine = Arc::clone(engine);
    engine
        .spawner
        .shield(async move {
            if let Some(Ok(Some((post, create)))) = again {
                store(&engine, post, create).await.ok();
            }
            store(&engine, post, create)
                .await
                .map_err(|e| from_store(OPERATION, &e))
        })
        .await
}

/// Stores a message where many processes share the store.
async fn store_shared(engine: &Arc<Engine>, post: Post, create: Op) -> Result<(), Error> {
    let since = shared::known_version(engine, &post.instance);
    let (foresight, chance) = Foresight::of(engine, &Arrival::from(&post))?.unzip();
    let joined = match joint::commit(engine, vec![create], chance.into_iter().collect()).await {
        // It was in the head after all, and has been taken out.
        Err(Error::Conflict { .. }) if foresight.is_some() => return Ok(()),
        outcome => outcome?,
    };
    engine.meters.messages.increment(1);
    shared::receive(engine, &post, since, foresight.as_ref(), &joined);
    Ok(())
}

/// Stores a message. A start also finds out whether the instance is new, so that nobody has to read to know.
async fn store(engine: &Arc<Engine>, post: Post, create: Op) -> Result<(), Error> {
    if engine.shared.is_some() {
        return store_shared(engine, post, create).await;
    }
    let _arriving = engine.board.announce(vec![Arc::clone(&post.instance)]);
    let head = Head::key(&post.instance);
    let slot = Slot::of(&head.partition);
    let mut committed = None;
    if post.sort == crate::board::Sort::Start && engine.cache.peek(&post.instance).is_none() {
        let began = engine.cache.begin(slot);
        let new = Commit::new(vec![create.clone(), Op::Absent(head)]);
        match engine.commit(new).await {
            Ok(done) => {
                let nothing = Arc::new(Snapshot::default());
                engine
                    .cache
                    .fill(&post.instance, slot, began, nothing, engine.trust(), false);
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
    let pin = engine.known_pin(&post.instance);
    let (mut board, now_ms) = engine.board.lock();
    if let Some(version) = written(&committed, post.op) {
        board.post(&post.instance, post.order, post.letter(version), pin, now_ms);
    }
    Ok(())
}

/// Puts an activity into the queue without a turn.
pub async fn activity(engine: &Arc<Engine>, item: WorkItem) -> Result<(), ProviderError> {
    const OPERATION: &str = "enqueue_for_worker";
    let offer = Offer::new(engine, item, 0, 0).map_err(|e| from_store(OPERATION, &e))?;
    let (offer, create) = offer.ok_or_else(|| wrong_item(OPERATION, "an activity"))?;
    let engine = Arc::clone(engine);
    engine
        .spawner
        .shield(async move {
            let committed = engine
                .commit(Commit::new(vec![create]))
                .await
                .map_err(|e| from_store(OPERATION, &e))?;
            let (mut board, now_ms) = engine.board.lock();
            if let Some(version) = written(&committed, offer.op) {
                board.bring_task(offer.order, offer.task(version), now_ms);
            }
            Ok(())
        })
        .await
}

/// The slot of an instance.
pub fn slot_of(instance: &str) -> Slot {
    Slot::of(&partition(instance))
}

//! Finishing an activity: its record goes and its result comes, in one commit.

use super::next::Next;
use crate::board::{ClaimId, QueuedActivity, Subject};
use crate::engine::Engine;
use crate::error::{dead_token, from_store, wrong_item};
use crate::outbox::{self, Intent};
use crate::queued::{NewMessage, written};
use crate::records::message;
use crate::shared::batcher::{self, OptionalOp};
use crate::shared::{self, Arrival, ArrivalClaim};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Commit, Error, Op, Order};
use std::sync::Arc;
use tracing::{Instrument, debug_span};

const OPERATION: &str = "ack_work_item";

/// Ends an activity, with its result as a message to its instance if it has one.
pub async fn ack(engine: &Arc<Engine>, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
    let id = engine.board.claim_of(token).ok_or_else(|| dead_token(OPERATION))?;
    let new_message = match completion {
        None => None,
        Some(item @ (WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. })) => {
            NewMessage::new(engine, item, 0, 1).map_err(|e| from_store(OPERATION, &e))?
        }
        Some(_) => return Err(wrong_item(OPERATION, "the completion of an activity")),
    };
    let gate = engine.enter_shared(id).await.ok_or_else(|| dead_token(OPERATION))?;
    let (order, queued) = begin(engine, id).ok_or_else(|| dead_token(OPERATION))?;
    let span = debug_span!("activity", instance = %queued.activity.instance, execution = queued.activity.execution,
        activity = queued.activity.id);
    let (engine, spawner) = (Arc::clone(engine), engine.spawner);
    let finish = async move {
        let _gate = gate;
        match engine.shared {
            None => finish(&engine, id, order, queued, new_message).await,
            Some(_) => finish_shared(&engine, id, order, queued, new_message).await,
        }
    };
    spawner.shield(finish.instrument(span)).await
}

/// Checks the claim and makes sure that it does not run out while the commit is under way.
fn begin(engine: &Engine, id: ClaimId) -> Option<(Order, QueuedActivity)> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let claim = board.live_claim(id, now_ms)?;
    let Subject::Work { order } = claim.subject else {
        return None;
    };
    claim.committing = true;
    let took_ms = now_ms.saturating_sub(claim.since_ms);
    board.duration_estimate.ended(took_ms);
    let queued = board.work().activity(order)?.clone();
    Some((order, queued))
}

/// The result, unless its instance was deleted before the answer to the commit came. Whoever cancels an activity or
/// deletes its instance takes its claim away.
async fn still_there(engine: &Engine, id: ClaimId, new_message: Option<NewMessage>) -> Option<NewMessage> {
    let new_message = new_message?;
    if engine.board.lock().0.claim(id).is_some() {
        return Some(new_message);
    }
    let stored = engine
        .store
        .get(&message::key(&new_message.instance, &new_message.id))
        .await;
    // Who cannot tell keeps it: a result that nobody waits for does no harm.
    (!matches!(stored, Ok(None))).then_some(new_message)
}

/// Adds the operation that sends a result: to the activity's own instance, as results go, or by its outbox.
fn address(
    engine: &Engine,
    queued: &QueuedActivity,
    new_message: Option<(NewMessage, Op)>,
    ops: &mut Vec<Op>,
) -> (Option<NewMessage>, Vec<Intent>) {
    let Some((new_message, create)) = new_message else {
        return (None, Vec::new());
    };
    match outbox::detour(engine, &queued.key.partition, &new_message, &create) {
        Some((intent, create)) => {
            ops.push(create);
            (None, vec![intent])
        }
        None => {
            ops.push(create);
            (Some(new_message), Vec::new())
        }
    }
}

async fn finish(
    engine: &Arc<Engine>,
    id: ClaimId,
    order: Order,
    queued: QueuedActivity,
    new_message: Option<(NewMessage, Op)>,
) -> Result<(), ProviderError> {
    let mut ops = vec![Op::Delete(queued.key.clone(), queued.version.clone())];
    let (new_message, intents) = address(engine, &queued, new_message, &mut ops);
    // The claim may go before the result is on the board, if a turn cancels the activity. A deletion must wait all the same.
    let arriving = new_message
        .iter()
        .map(|new_message| Arc::clone(&new_message.instance))
        .collect();
    let _arriving = engine.board.announce(arriving);
    let outcome = engine.commit(Commit::new(ops)).await;
    let new_message = if outcome.is_ok() {
        still_there(engine, id, new_message).await
    } else {
        new_message
    };
    let pin = new_message
        .as_ref()
        .map(|new_message| engine.known_pin(&new_message.instance));
    let (mut board, now_ms) = engine.board.lock();
    match outcome {
        Ok(committed) => {
            engine.meters.activities.increment(1);
            if let Some(session) = &queued.activity.session {
                board.sessions().used(session, now_ms);
            }
            board.withdraw(order);
            let version = new_message
                .as_ref()
                .and_then(|new_message| written(&committed, new_message.op));
            if let (Some(new_message), Some(pin), Some(version)) = (new_message, pin, version) {
                board.post(
                    &new_message.instance,
                    new_message.order,
                    new_message.queued(version),
                    pin,
                    now_ms,
                );
            }
            drop(board);
            outbox::dispatch(engine, &queued.key.partition, intents, &committed);
            Ok(())
        }
        Err(error) => {
            board.end_commit(id, now_ms);
            Err(from_store(OPERATION, &error))
        }
    }
}

/// Ends an activity where many processes share the store: perhaps in one commit with others of its instance, and with
/// the claim of the next one that its worker can have.
async fn finish_shared(
    engine: &Arc<Engine>,
    id: ClaimId,
    order: Order,
    queued: QueuedActivity,
    new_message: Option<(NewMessage, Op)>,
) -> Result<(), ProviderError> {
    let failed = |e: Error| from_store(OPERATION, &e);
    let mut ops = vec![Op::Delete(queued.key.clone(), queued.version.clone())];
    let (new_message, intents) = address(engine, &queued, new_message, &mut ops);
    let since = new_message
        .as_ref()
        .and_then(|new_message| shared::known_version(engine, &new_message.instance));
    let arrival_claim = match &new_message {
        Some(new_message) => ArrivalClaim::of(engine, &Arrival::from(new_message)).map_err(failed)?,
        None => None,
    };
    let (arrival_claim, head) = arrival_claim.unzip();
    let (next, claim) = Next::of(engine, &queued).map_err(failed)?.unzip();
    let heads = usize::from(head.is_some());
    let optional = head.into_iter().chain(claim.map(OptionalOp::from)).collect();
    match batcher::commit(engine, ops, optional).await {
        Ok(joined) => {
            engine.meters.activities.increment(1);
            let made = |optional: usize| joined.taken.get(optional).cloned().flatten();
            {
                let (mut board, now_ms) = engine.board.lock();
                if let Some(session) = &queued.activity.session {
                    board.sessions().used(session, now_ms);
                }
                board.withdraw(order);
                board.drop_claim(id);
            }
            if let Some(next) = next {
                next.resolve(made(heads));
                super::attend(engine);
            }
            outbox::dispatch(engine, &queued.key.partition, intents, &joined.versions);
            if let Some(new_message) = new_message {
                shared::receive(engine, &new_message, since, arrival_claim.as_ref(), &joined);
                if !engine.board.lock().0.is_involved(&new_message.instance) {
                    // Others go on with it.
                    engine.cache.doubt(&new_message.instance);
                }
            }
            Ok(())
        }
        // It was cancelled, or another process has it.
        Err(Error::Conflict { .. }) => {
            let (mut board, _) = engine.board.lock();
            board.withdraw(order);
            board.drop_claim(id);
            Err(dead_token(OPERATION))
        }
        Err(error) => {
            let (mut board, now_ms) = engine.board.lock();
            board.end_commit(id, now_ms);
            Err(from_store(OPERATION, &error))
        }
    }
}

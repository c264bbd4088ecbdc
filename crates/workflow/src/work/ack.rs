//! Finishing an activity: its record goes and its result comes, in one commit.

use super::next::Next;
use crate::board::{ClaimId, Subject, Task};
use crate::engine::Engine;
use crate::error::{dead_token, from_store, wrong_item};
use crate::outbox::{self, Intent};
use crate::queued::{Post, written};
use crate::records::message;
use crate::shared::joint::{self, Chance};
use crate::shared::{self, Arrival, Foresight};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Commit, Error, Op, Order};
use std::sync::Arc;
use tracing::{Instrument, debug_span};

const OPERATION: &str = "ack_work_item";

/// Ends an activity, with its result as a message to its instance if it has one.
pub async fn ack(engine: &Arc<Engine>, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
    let id = engine.board.claim_of(token).ok_or_else(|| dead_token(OPERATION))?;
    let post = match completion {
        None => None,
        Some(item @ (WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. })) => {
            Post::new(engine, item, 0, 1).map_err(|e| from_store(OPERATION, &e))?
        }
        Some(_) => return Err(wrong_item(OPERATION, "the completion of an activity")),
    };
    let gate = engine.enter_shared(id).await.ok_or_else(|| dead_token(OPERATION))?;
    let (order, task) = begin(engine, id).ok_or_else(|| dead_token(OPERATION))?;
    let span = debug_span!("activity", instance = %task.activity.instance, execution = task.activity.execution,
        activity = task.activity.id);
    let (engine, spawner) = (Arc::clone(engine), engine.spawner);
    let finish = async move {
        let _gate = gate;
        match engine.shared {
            None => finish(&engine, id, order, task, post).await,
            Some(_) => finish_shared(&engine, id, order, task, post).await,
        }
    };
    spawner.shield(finish.instrument(span)).await
}

/// Checks the claim and makes sure that it does not run out while the commit is under way.
fn begin(engine: &Engine, id: ClaimId) -> Option<(Order, Task)> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let claim = board.live_claim(id, now_ms)?;
    let Subject::Work { order } = claim.subject else {
        return None;
    };
    claim.committing = true;
    let took_ms = now_ms.saturating_sub(claim.since_ms);
    board.pace.ended(took_ms);
    let task = board.work().task(order)?.clone();
    Some((order, task))
}

/// The result, unless its instance was deleted before the answer to the commit came. Whoever cancels an activity or
/// deletes its instance takes its claim away.
async fn still_there(engine: &Engine, id: ClaimId, post: Option<Post>) -> Option<Post> {
    let post = post?;
    if engine.board.lock().0.claim(id).is_some() {
        return Some(post);
    }
    let stored = engine.store.get(&message::key(&post.instance, &post.id)).await;
    // Who cannot tell keeps it: a result that nobody waits for does no harm.
    (!matches!(stored, Ok(None))).then_some(post)
}

/// Adds the operation that sends a result: to the activity's own instance, as results go, or by its outbox.
fn address(engine: &Engine, task: &Task, post: Option<(Post, Op)>, ops: &mut Vec<Op>) -> (Option<Post>, Vec<Intent>) {
    let Some((post, create)) = post else {
        return (None, Vec::new());
    };
    match outbox::detour(engine, &task.key.partition, &post, &create) {
        Some((intent, create)) => {
            ops.push(create);
            (None, vec![intent])
        }
        None => {
            ops.push(create);
            (Some(post), Vec::new())
        }
    }
}

async fn finish(
    engine: &Arc<Engine>,
    id: ClaimId,
    order: Order,
    task: Task,
    post: Option<(Post, Op)>,
) -> Result<(), ProviderError> {
    let mut ops = vec![Op::Delete(task.key.clone(), task.version.clone())];
    let (post, intents) = address(engine, &task, post, &mut ops);
    // The claim may go before the result is on the board, if a turn cancels the activity. A deletion must wait all the same.
    let arriving = post.iter().map(|post| Arc::clone(&post.instance)).collect();
    let _arriving = engine.board.announce(arriving);
    let outcome = engine.commit(Commit::new(ops)).await;
    let post = if outcome.is_ok() {
        still_there(engine, id, post).await
    } else {
        post
    };
    let pin = post.as_ref().map(|post| engine.known_pin(&post.instance));
    let (mut board, now_ms) = engine.board.lock();
    match outcome {
        Ok(committed) => {
            engine.meters.activities.increment(1);
            if let Some(session) = &task.activity.session {
                board.sessions().used(session, now_ms);
            }
            board.withdraw(order);
            let version = post.as_ref().and_then(|post| written(&committed, post.op));
            if let (Some(post), Some(pin), Some(version)) = (post, pin, version) {
                board.post(&post.instance, post.order, post.letter(version), pin, now_ms);
            }
            drop(board);
            outbox::dispatch(engine, &task.key.partition, intents, &committed);
            Ok(())
        }
        Err(error) => {
            board.settle_claim(id, now_ms);
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
    task: Task,
    post: Option<(Post, Op)>,
) -> Result<(), ProviderError> {
    let failed = |e: Error| from_store(OPERATION, &e);
    let mut ops = vec![Op::Delete(task.key.clone(), task.version.clone())];
    let (post, intents) = address(engine, &task, post, &mut ops);
    let since = post
        .as_ref()
        .and_then(|post| shared::known_version(engine, &post.instance));
    let foresight = match &post {
        Some(post) => Foresight::of(engine, &Arrival::from(post)).map_err(failed)?,
        None => None,
    };
    let (foresight, head) = foresight.unzip();
    let (next, claim) = Next::of(engine, &task).map_err(failed)?.unzip();
    let heads = usize::from(head.is_some());
    let chances = head.into_iter().chain(claim.map(Chance::from)).collect();
    match joint::commit(engine, ops, chances).await {
        Ok(joined) => {
            engine.meters.activities.increment(1);
            let made = |chance: usize| joined.taken.get(chance).cloned().flatten();
            {
                let (mut board, now_ms) = engine.board.lock();
                if let Some(session) = &task.activity.session {
                    board.sessions().used(session, now_ms);
                }
                board.withdraw(order);
                board.drop_claim(id);
            }
            if let Some(next) = next {
                next.settle(made(heads));
                super::attend(engine);
            }
            outbox::dispatch(engine, &task.key.partition, intents, &joined.versions);
            if let Some(post) = post {
                shared::receive(engine, &post, since, foresight.as_ref(), &joined);
                if !engine.board.lock().0.is_involved(&post.instance) {
                    // Others go on with it.
                    engine.cache.doubt(&post.instance);
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
            board.settle_claim(id, now_ms);
            Err(from_store(OPERATION, &error))
        }
    }
}

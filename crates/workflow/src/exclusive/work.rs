//! Activities: a claim in memory needs a read, at most.

use crate::board::{ClaimId, QueuedActivity};
use crate::engine::{Engine, millis};
use crate::outbox::{self, Outgoing};
use crate::queued::{NewMessage, note_durability, written};
use crate::records::{message, work as record};
use crate::work::{ClaimGuard, Done, Fetched, Worker, hand_out, open};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Commit, Committed, Error, Key, Op, Order, Place, Result, Version};
use std::sync::Arc;
use std::time::Duration;

/// Reads the activity that a worker has taken, and hands it out.
pub async fn acquire(engine: &Arc<Engine>, mut guard: ClaimGuard, worker: &Worker) -> Result<Option<Fetched>> {
    let item = match open(engine, &guard.queued).await {
        Ok(Some(item)) => item,
        Ok(None) => {
            guard.put_off();
            return Ok(None);
        }
        Err(Error::Corrupt(why)) => {
            guard.quarantine(&why);
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    if guard.queued.old || guard.queued.attempts > 1 {
        match note(engine, guard.order, &guard.queued, &item).await {
            // It is being deleted, or a fetch that was dropped is still writing its count.
            Err(Error::Conflict { .. }) => {
                refresh(engine, guard.order, &guard.queued.key).await?;
                guard.put_off();
                return Ok(None);
            }
            outcome => outcome?,
        }
    }
    Ok(hand_out(engine, guard, &item, None, worker.lock))
}

/// Writes the delivery count: this activity may be the one that crashes the process.
async fn note(engine: &Arc<Engine>, order: Order, queued: &QueuedActivity, item: &WorkItem) -> Result<()> {
    let place = Place {
        lane: engine.lanes.work(queued.activity.tag.as_ref()),
        order,
        due_ms: queued.due_ms,
    };
    let draft = record::draft(queued.key.clone(), item, place, queued.attempts, None)?;
    let ops = vec![Op::Replace(draft, queued.version.clone())];
    let commit = Commit {
        ops,
        durability: note_durability(queued.old),
        ..Commit::default()
    };
    let (engine, attempts) = (Arc::clone(engine), queued.attempts);
    engine
        .spawner
        .shield(async move {
            let committed = engine.commit(commit).await?;
            if let Some(version) = written(&committed, 0) {
                engine.board.lock().0.noted_task(order, attempts, version);
            }
            Ok(())
        })
        .await
}

/// Takes over the version that the store has of an activity, and returns it. A fetch that was dropped may have left a write
/// of the delivery count under way: what it makes is not on the board before its reply is.
async fn refresh(engine: &Engine, order: Order, key: &Key) -> Result<Option<Version>> {
    let version = engine.store.get(key).await?.map(|record| record.version);
    if let Some(version) = &version {
        engine.board.lock().0.refresh_activity(order, version.clone());
    }
    Ok(version)
}

/// Ends an activity. Nobody else can have ended it, so that another version than the one that is known is a delivery count
/// that was still being written.
async fn end(engine: &Engine, done: &Done, ops: Vec<Op>) -> Result<Committed> {
    let mut commit = Commit::new(ops);
    loop {
        let outcome = engine.commit(commit.clone()).await;
        let Err(Error::Conflict { op: 0, .. }) = &outcome else {
            return outcome;
        };
        let known = match commit.ops.first() {
            Some(Op::Delete(_, version)) => version.clone(),
            _ => return outcome,
        };
        match refresh(engine, done.order, &done.queued.key).await? {
            Some(version) if version != known => {
                if let Some(op) = commit.ops.first_mut() {
                    *op = Op::Delete(done.queued.key.clone(), version);
                }
            }
            _ => return outcome,
        }
    }
}

/// Ends an activity and sends its result.
pub async fn finish(engine: &Arc<Engine>, done: Done, result: Option<(Outgoing, Op)>) -> Result<(), ProviderError> {
    let ending = done.ending(result);
    // The claim may go before the result is on the board, if a turn cancels the activity. A deletion must wait all the same.
    let arriving = ending
        .result
        .iter()
        .map(|result| Arc::clone(&result.instance))
        .collect();
    let _arriving = engine.board.announce(arriving);
    let committed = match end(engine, &done, ending.ops).await {
        Ok(committed) => committed,
        Err(error) => return Err(done.failed(engine, &error)),
    };
    let result = still_there(engine, done.id, ending.result).await;
    let pin = result.as_ref().map(|result| engine.known_pin(&result.instance));
    engine.meters.activities.increment(1);
    let (mut board, now_ms) = engine.board.lock();
    done.leave(&mut board, now_ms);
    let version = result.as_ref().and_then(|result| written(&committed, result.op));
    if let (Some(result), Some(pin), Some(version)) = (result, pin, version) {
        board.post(&result.instance, result.order, result.queued(version), pin, now_ms);
    }
    drop(board);
    outbox::dispatch(engine, &done.queued.key.partition, ending.intents, &committed);
    Ok(())
}

/// The result, unless its instance was deleted before the reply to the commit came. Cancelling an activity or deleting its
/// instance takes its claim away.
async fn still_there(engine: &Engine, id: ClaimId, result: Option<NewMessage>) -> Option<NewMessage> {
    let result = result?;
    if engine.board.lock().0.claim(id).is_some() {
        return Some(result);
    }
    let stored = engine.store.get(&message::key(&result.instance, &result.id)).await;
    // If that is unknown it is kept: a result that no turn waits for does no harm.
    (!matches!(stored, Ok(None))).then_some(result)
}

/// Extends the sessions of these workers that were used within `idle`; returns how many.
pub fn renew_sessions(engine: &Engine, owners: &[&str], extend: Duration, idle: Duration) -> usize {
    let (mut board, now_ms) = engine.board.lock();
    board.renew_sessions(owners, millis(extend), millis(idle), now_ms)
}

/// Forgets sessions that no worker holds and nothing waits for; returns how many.
pub fn clean_up_sessions(engine: &Engine) -> usize {
    let (mut board, now_ms) = engine.board.lock();
    board.sessions().clean_up(now_ms).len()
}

//! Activities: a claim in memory needs a read, at most.

use crate::board::{ClaimId, QueuedActivity};
use crate::engine::{Engine, millis};
use crate::outbox::{self, Outgoing};
use crate::outstanding::Kind;
use crate::queued::{NewMessage, note_durability, written};
use crate::records::{message, work as record};
use crate::turn::lose;
use crate::work::{self, ClaimGuard, Done, Fetched, Worker, hand_out, open};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Commit, Committed, Error, Key, OnDurable, Op, Order, Place, Result, Version};
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
async fn end(engine: &Engine, done: &Done, mut commit: Commit) -> Result<Committed> {
    loop {
        let outcome = engine.commit(commit.clone()).await;
        match &outcome {
            Err(error) if is_outdated(engine, done.order, &mut commit, error).await? => {}
            _ => return outcome,
        }
    }
}

/// Whether a commit that ends an activity failed because its record has another version than the board knew. The commit is
/// changed to that version.
async fn is_outdated(engine: &Engine, order: Order, commit: &mut Commit, error: &Error) -> Result<bool> {
    let (Error::Conflict { op: 0, .. }, Some(Op::Delete(key, known))) = (error, commit.ops.first_mut()) else {
        return Ok(false);
    };
    match refresh(engine, order, key).await? {
        Some(version) if version != *known => {
            *known = version;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Orders the commit that ends an activity. The activity stays on the board, held by a token that is dead, until the commit is
/// durable.
async fn order(
    engine: &Arc<Engine>,
    done: Done,
    result: Option<NewMessage>,
    mut commit: Commit,
) -> Result<(), ProviderError> {
    let instance = Arc::clone(&done.queued.activity.instance);
    let ack = engine.outstanding.begin(&instance, Kind::Work, &commit);
    let number = ack.number();
    let arriving = result.iter().map(|result| Arc::clone(&result.instance)).collect();
    let arriving = engine.board.announce(arriving);
    let (id, activity) = (done.id, done.order);
    let session = done.queued.activity.session.clone();
    let owner = Arc::downgrade(engine);
    let mut on_durable: OnDurable = Box::new(move |outcome| {
        let _arriving = arriving;
        ack.conclude(&owner, |engine| match outcome {
            Ok(committed) => publish(engine, &done, result, &committed),
            Err(error) => lose(engine, id, &error),
        });
    });
    loop {
        let refused = match engine.order(commit.clone(), on_durable).await {
            Ok(()) => break,
            Err(refused) => refused,
        };
        let outdated = is_outdated(engine, activity, &mut commit, &refused.error).await;
        if !matches!(outdated, Ok(true)) {
            drop(refused.on_durable);
            return Err(work::failed(engine, id, &outdated.err().unwrap_or(refused.error)));
        }
        on_durable = refused.on_durable;
    }
    {
        let (mut board, now_ms) = engine.board.lock();
        board.acked(id);
        if let Some(session) = &session {
            board.sessions().used(session, now_ms);
        }
    }
    engine.outstanding.ordered(number).await;
    Ok(())
}

/// Makes the board agree with an activity that has ended.
fn publish(engine: &Engine, done: &Done, result: Option<NewMessage>, committed: &Committed) {
    let pin = result.as_ref().map(|result| engine.known_pin(&result.instance));
    engine.meters.activities.increment(1);
    let (mut board, now_ms) = engine.board.lock();
    done.leave(&mut board, now_ms);
    let version = result.as_ref().and_then(|result| written(committed, result.op));
    if let (Some(result), Some(pin), Some(version)) = (result, pin, version) {
        board.post(&result.instance, result.order, result.queued(version), pin, now_ms);
    }
}

/// Ends an activity and sends its result.
pub async fn finish(engine: &Arc<Engine>, done: Done, result: Option<(Outgoing, Op)>) -> Result<(), ProviderError> {
    let mut ending = done.ending(result);
    let commit = Commit::new(std::mem::take(&mut ending.ops));
    if engine.mode.orders(engine, &commit) {
        return order(engine, done, ending.result, commit).await;
    }
    // The claim may go before the result is on the board, if a turn cancels the activity. A deletion must wait all the same.
    let arriving = ending
        .result
        .iter()
        .map(|result| Arc::clone(&result.instance))
        .collect();
    let _arriving = engine.board.announce(arriving);
    let committed = match end(engine, &done, commit).await {
        Ok(committed) => committed,
        Err(error) => return Err(done.failed(engine, &error)),
    };
    let result = still_there(engine, done.id, ending.result).await;
    publish(engine, &done, result, &committed);
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

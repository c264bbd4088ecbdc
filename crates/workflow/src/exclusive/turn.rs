//! Turns: a claim in memory needs a read, at most.

use crate::board::{Body, MessageKind, Pin, Window};
use crate::engine::Engine;
use crate::outbox;
use crate::queued::{note_durability, written};
use crate::read::Freshness;
use crate::records::message;
use crate::tuning::PUT_OFF_MS;
use crate::turn::{self, Aside, ClaimGuard, Fetched, Opened, Prepared};
use perennial_store::{Commit, Error, Op, Place, Result};
use std::sync::Arc;
use std::time::Duration;

/// Reads the turn that a dispatcher has taken, and hands it out.
pub async fn acquire(
    engine: &Arc<Engine>,
    mut guard: ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Option<Fetched>> {
    let prepared = read(engine, &mut guard, window).await;
    turn::hand_out(engine, guard, prepared, window, lock)
}

/// Reads what a turn needs; `None` if it turns out that there is none.
async fn read(engine: &Arc<Engine>, guard: &mut ClaimGuard, window: &Window) -> Result<Option<Prepared>> {
    let snapshot = engine.read(&guard.instance, Freshness::Latest).await?;
    if snapshot.head().is_some_and(|head| head.deletion.is_some()) {
        guard.put_off(PUT_OFF_MS);
        return Ok(None);
    }
    let pin = Pin::of(snapshot.head().and_then(|head| head.execution.pinned.as_ref()));
    let admitted = window.admits(&pin);
    engine.board.lock().0.pin(&guard.instance, pin);
    if !admitted {
        return Ok(None);
    }
    let Opened {
        items: messages,
        missing,
    } = turn::open(engine, guard).await?;
    // No other process can have taken it: it was deleted, and does not come back.
    engine.board.lock().0.forget_messages(&guard.instance, &missing);
    if guard.queued_messages.is_empty() {
        return Ok(None);
    }
    let Some((name, version)) = turn::workflow_name(&snapshot, &messages) else {
        orphans(engine, guard).await?;
        return Ok(None);
    };
    match note(engine, guard).await {
        // The instance is being deleted, or a fetch that was dropped is still writing their counts.
        Err(Error::Conflict { .. }) => {
            refresh(engine, guard).await?;
            guard.put_off(PUT_OFF_MS);
            return Ok(None);
        }
        outcome => outcome?,
    }
    let attempts = guard.queued_messages.iter().map(|(_, queued)| queued.attempts);
    Ok(Some(Prepared {
        attempt: attempts.max().unwrap_or(1),
        snapshot,
        messages,
        name,
        version,
    }))
}

/// Messages to an instance that does not exist: those for its queues are dropped, others wait for a start.
async fn orphans(engine: &Arc<Engine>, guard: &mut ClaimGuard) -> Result<()> {
    if guard
        .queued_messages
        .iter()
        .any(|(_, queued)| queued.sort != MessageKind::Queue)
    {
        guard.set_aside(Aside::Orphaned);
        return Ok(());
    }
    let orders = guard.orders();
    let now_ms = engine.clock.now_ms();
    let remove = guard
        .handed()
        .iter()
        .map(|handed| outbox::consumption(engine, &guard.instance, handed, now_ms))
        .collect::<Result<Vec<Op>>>()?;
    if remove.iter().any(|op| op.draft().is_some()) {
        engine.housekeeper.call(engine);
    }
    engine.commit(Commit::new(remove).relaxed()).await?;
    engine.board.lock().0.consume(&guard.instance, &orders);
    Ok(())
}

/// Takes over the versions that the store has of messages. A fetch that was dropped may have left a write of their delivery
/// counts under way: what it makes is not on the board before its reply is.
async fn refresh(engine: &Engine, guard: &ClaimGuard) -> Result<()> {
    for (order, queued) in &guard.queued_messages {
        if let Some(record) = engine.store.get(&message::key(&guard.instance, &queued.id)).await? {
            let (mut board, _) = engine.board.lock();
            board.refresh_message(&guard.instance, *order, record.version);
        }
    }
    Ok(())
}

/// Writes delivery counts where memory is not enough: a message that was delivered before, or that was there when the store
/// was opened, may be the one that crashes the process.
async fn note(engine: &Arc<Engine>, guard: &ClaimGuard) -> Result<()> {
    let mut ops = Vec::new();
    let mut noted = Vec::new();
    let mut durability = note_durability(false);
    for (order, queued) in guard
        .queued_messages
        .iter()
        .filter(|(_, queued)| queued.old || queued.attempts > 1)
    {
        let item = match &queued.body {
            Body::Held(item, _) => Arc::clone(item),
            Body::Stored => match message::read(&*engine.store, &guard.instance, &queued.id).await? {
                Some(envelope) => Arc::new(envelope.item),
                None => continue,
            },
        };
        if queued.old {
            durability = note_durability(true);
        }
        let place = Place {
            lane: engine.lanes.turn(),
            order: *order,
            due_ms: queued.due_ms,
        };
        let from = queued.from.as_ref().map(|origin| &origin.from);
        let draft = message::draft(&guard.instance, &queued.id, &item, place, queued.attempts, from)?;
        noted.push((*order, queued.attempts, ops.len()));
        ops.push(Op::Replace(draft, queued.version.clone()));
    }
    if ops.is_empty() {
        return Ok(());
    }
    let commit = Commit {
        ops,
        durability,
        ..Commit::default()
    };
    let (engine, instance) = (Arc::clone(engine), Arc::clone(&guard.instance));
    engine
        .spawner
        .shield(async move {
            let committed = engine.commit(commit).await?;
            let (mut board, _) = engine.board.lock();
            for (order, attempts, op) in noted {
                if let Some(version) = written(&committed, op) {
                    board.noted(&instance, order, attempts, version);
                }
            }
            Ok(())
        })
        .await
}

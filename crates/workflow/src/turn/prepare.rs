//! Reading what a turn needs before it is handed out.

use super::acquire::{self, Acquired};
use super::dedup::was_consumed;
use super::fetch::{Aside, ClaimGuard};
use super::mailbox;
use crate::board::{Body, MessageKind, Pin, Window};
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::outbox;
use crate::queued::{PUT_OFF_MS, note_durability, written};
use crate::records::message;
use crate::shared::Shared;
use duroxide::providers::WorkItem;
use perennial_store::{Commit, Error, Op, Place};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::error;

/// How long an instance is left alone that another process works on, before it is looked at again.
const BUSY_MS: u64 = 1_000;

/// A turn that can be handed out.
pub struct Prepared {
    pub snapshot: Arc<Snapshot>,
    pub messages: Vec<WorkItem>,
    pub name: String,
    pub version: String,
    pub attempt: u32,
}

/// Reads what a turn needs; `None` if it turns out that there is none.
pub async fn prepare(
    engine: &Arc<Engine>,
    taken: &mut ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Option<Prepared>, Error> {
    match &engine.shared {
        None => read(engine, taken, window).await,
        Some(shared) => read_shared(engine, shared, taken, window, lock).await,
    }
}

/// Reads a turn of a store that belongs to this process.
async fn read(engine: &Arc<Engine>, taken: &mut ClaimGuard, window: &Window) -> Result<Option<Prepared>, Error> {
    let snapshot = engine.snapshot(&taken.instance).await?;
    if snapshot.head().is_some_and(|head| head.deletion.is_some()) {
        taken.put_off(PUT_OFF_MS);
        return Ok(None);
    }
    let pin = Pin::of(snapshot.head().and_then(|head| head.execution.pinned.as_ref()));
    let admitted = window.admits(&pin);
    engine.board.lock().0.pin(&taken.instance, pin);
    if !admitted {
        return Ok(None);
    }
    let messages = open(engine, taken).await?;
    if taken.queued_messages.is_empty() {
        return Ok(None);
    }
    let Some((name, version)) = name(&snapshot, &messages) else {
        orphans(engine, taken).await?;
        return Ok(None);
    };
    match note(engine, taken).await {
        // The instance is being deleted, or a fetch that was dropped has just counted its messages.
        Err(Error::Conflict { .. }) => {
            taken.put_off(PUT_OFF_MS);
            return Ok(None);
        }
        outcome => outcome?,
    }
    let attempts = taken.queued_messages.iter().map(|(_, queued)| queued.attempts);
    Ok(Some(Prepared {
        attempt: attempts.max().unwrap_or(1),
        snapshot,
        messages,
        name,
        version,
    }))
}

/// Claims and reads a turn of a store that many processes share.
async fn read_shared(
    engine: &Arc<Engine>,
    shared: &Shared,
    taken: &mut ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Option<Prepared>, Error> {
    let (snapshot, messages) = match acquire::acquire(engine, shared, taken, window, lock).await? {
        Acquired::Ours(snapshot, messages) => (snapshot, messages),
        Acquired::Busy(until_ms) if until_ms > engine.clock.now_ms() => {
            let (mut board, now_ms) = engine.board.lock();
            board.leave_alone(&taken.instance, until_ms.min(now_ms + BUSY_MS), now_ms);
            return Ok(None);
        }
        Acquired::Busy(_) => {
            taken.put_off(PUT_OFF_MS);
            return Ok(None);
        }
        Acquired::Pinned(pin) => {
            engine.board.lock().0.pin(&taken.instance, pin);
            return Ok(None);
        }
        Acquired::Nothing => return Ok(None),
    };
    let messages = unconsumed(&snapshot, taken, messages);
    if taken.queued_messages.is_empty() {
        acquire::release(engine, &taken.instance, &snapshot).await?;
        return Ok(None);
    }
    if messages.is_empty() {
        mailbox::discard(engine, &taken.instance, &taken.queued_messages, &snapshot).await?;
        return Ok(None);
    }
    let Some((name, version)) = name(&snapshot, &messages) else {
        match &snapshot.head {
            // A start is there that a later turn is to have: then it will have these, too.
            Some((head, _)) if head.inline.is_some() => acquire::release(engine, &taken.instance, &snapshot).await?,
            Some((head, version)) if head.is_blank() => {
                mailbox::orphan(
                    engine,
                    &taken.instance,
                    &taken.queued_messages,
                    &messages,
                    version.clone(),
                )
                .await?;
            }
            _ => {
                acquire::release(engine, &taken.instance, &snapshot).await?;
                taken.set_aside(Aside::Orphaned);
            }
        }
        return Ok(None);
    };
    let attempts = taken.queued_messages.iter().map(|(_, queued)| queued.attempts);
    let deliveries = snapshot.head.as_ref().map_or(1, |(head, _)| head.deliveries);
    Ok(Some(Prepared {
        attempt: attempts.max().unwrap_or_default() + deliveries,
        snapshot,
        messages,
        name,
        version,
    }))
}

/// Without those that were recently_consumed before: they are consumed once more, and not handed out.
fn unconsumed(snapshot: &Snapshot, taken: &ClaimGuard, messages: Vec<WorkItem>) -> Vec<WorkItem> {
    let Some(head) = snapshot.head() else { return messages };
    let queued_messages = taken.queued_messages.iter().map(|(_, queued)| queued);
    let both = messages.into_iter().zip(queued_messages);
    both.filter(|(_, queued)| !was_consumed(head, &queued.id))
        .map(|(message, _)| message)
        .collect()
}

/// What the workflow is called: by its head, its history, or the message that starts it.
fn name(snapshot: &Snapshot, messages: &[WorkItem]) -> Option<(String, String)> {
    let unknown = || "unknown".to_string();
    if let Some(head) = snapshot.head()
        && let Some(name) = &head.name
    {
        return Some((name.clone(), head.version.clone().unwrap_or_else(unknown)));
    }
    let started = messages.iter().find_map(|message| match message {
        WorkItem::StartOrchestration {
            orchestration, version, ..
        }
        | WorkItem::ContinueAsNew {
            orchestration, version, ..
        } => Some((orchestration.clone(), version.clone().unwrap_or_else(unknown))),
        _ => None,
    });
    let unnamed = || snapshot.history.damage().map(|_| (unknown(), unknown()));
    snapshot.history.started_as().or(started).or_else(unnamed)
}

/// The messages themselves. What is not in memory is read from the store; what is gone is not taken. A message that cannot
/// be read leaves the board, so that it harms only itself; the next opening of the store tries it again.
pub async fn open(engine: &Engine, taken: &mut ClaimGuard) -> Result<Vec<WorkItem>, Error> {
    let mut messages = Vec::with_capacity(taken.queued_messages.len());
    let (mut gone, mut forgotten) = (HashSet::new(), Vec::new());
    let is_exclusive = engine.shared.is_none();
    for (order, queued) in &taken.queued_messages {
        match &queued.body {
            Body::Held(item, _) => messages.push(WorkItem::clone(item)),
            Body::Stored => match message::read(&*engine.store, &taken.instance, &queued.id).await {
                Ok(Some(envelope)) => messages.push(envelope.item),
                Ok(None) => {
                    gone.insert(*order);
                    // Nobody else can have taken it: it was deleted, and does not come back.
                    forgotten.extend(is_exclusive.then_some(*order));
                }
                Err(Error::Corrupt(why)) => {
                    error!(instance = %taken.instance, id = %queued.id, why, "a message cannot be read: it is set aside");
                    engine.meters.quarantined.increment(1);
                    gone.insert(*order);
                    forgotten.push(*order);
                }
                Err(other) => return Err(other),
            },
        }
    }
    engine.board.lock().0.forget_messages(&taken.instance, &forgotten);
    taken.queued_messages.retain(|(order, _)| !gone.contains(order));
    Ok(messages)
}

/// Messages to an instance that does not exist: those for its lanes are dropped, others wait for a start.
async fn orphans(engine: &Arc<Engine>, taken: &mut ClaimGuard) -> Result<(), Error> {
    if taken
        .queued_messages
        .iter()
        .any(|(_, queued)| queued.sort != MessageKind::Queue)
    {
        taken.set_aside(Aside::Orphaned);
        return Ok(());
    }
    let orders = taken.orders();
    let now_ms = engine.clock.now_ms();
    let remove = taken
        .handed()
        .iter()
        .map(|handed| outbox::consumption(engine, &taken.instance, handed, now_ms))
        .collect::<Result<Vec<Op>, Error>>()?;
    if remove.iter().any(|op| op.draft().is_some()) {
        engine.housekeeper.call(engine);
    }
    engine.commit(Commit::new(remove).relaxed()).await?;
    engine.board.lock().0.consume(&taken.instance, &orders);
    Ok(())
}

/// Writes delivery counts down where memory is not enough: a message that was delivered before, or that was
/// there when the store was opened, may be the one that brings the process down.
async fn note(engine: &Arc<Engine>, taken: &ClaimGuard) -> Result<(), Error> {
    let mut ops = Vec::new();
    let mut noted = Vec::new();
    let mut durability = note_durability(false);
    for (order, queued) in taken
        .queued_messages
        .iter()
        .filter(|(_, queued)| queued.old || queued.attempts > 1)
    {
        let item = match &queued.body {
            Body::Held(item, _) => Arc::clone(item),
            Body::Stored => match message::read(&*engine.store, &taken.instance, &queued.id).await? {
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
        let draft = message::draft(&taken.instance, &queued.id, &item, place, queued.attempts, from)?;
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
    let (engine, instance) = (Arc::clone(engine), Arc::clone(&taken.instance));
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

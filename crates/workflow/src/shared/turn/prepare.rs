//! Claiming and reading a turn before it is handed out.

use super::acquire::{self, Acquired};
use super::dedup::was_consumed;
use super::{abandon, mailbox, release};
use crate::board::Window;
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::shared::{Shared, handover};
use crate::tuning::{LEASED_ELSEWHERE_MS, PUT_OFF_MS};
use crate::turn::{self, Abandoned, Aside, ClaimGuard, Fetched, Prepared};
use duroxide::providers::{ProviderError, WorkItem};
use futures::FutureExt;
use futures::future::BoxFuture;
use perennial_store::{Result, Version};
use std::sync::Arc;
use std::time::Duration;

/// Claims and reads a turn. Its claim is in the store, so it does not stop half-way if the caller goes away: what it got is
/// then given back.
pub async fn acquire(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    mut guard: ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Option<Fetched>> {
    let (owned, shared, window) = (Arc::clone(engine), Arc::clone(shared), window.clone());
    let fetch = {
        let shared = Arc::clone(&shared);
        async move {
            let prepared = prepare(&owned, &shared, &mut guard, &window, lock).await;
            turn::hand_out(&owned, guard, prepared, &window, lock)
        }
    };
    handover::hand_over(engine, &shared, fetch, give_back).await
}

fn give_back(engine: Arc<Engine>, _: Arc<Shared>, token: String) -> BoxFuture<'static, Result<(), ProviderError>> {
    async move {
        let abandoned = Abandoned::of(&engine, &token, None, true)?;
        abandon(&engine, abandoned).await
    }
    .boxed()
}

/// Claims and reads what a turn needs; `None` if it turns out that there is none.
async fn prepare(
    engine: &Arc<Engine>,
    shared: &Shared,
    guard: &mut ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Option<Prepared>> {
    let acquired = acquire::acquire(engine, shared, guard, window, lock).await?;
    let Acquired::Ours(snapshot, messages) = acquired else {
        stand_back(engine, guard, acquired);
        return Ok(None);
    };
    let messages = unconsumed(&snapshot, guard, messages);
    let verdict = assess(&snapshot, guard, &messages);
    let (instance, queued) = (&guard.instance, &guard.queued_messages);
    match verdict {
        Verdict::Turn { name, version } => {
            let attempt = attempt(&snapshot, guard);
            return Ok(Some(Prepared {
                snapshot,
                messages,
                name,
                version,
                attempt,
            }));
        }
        Verdict::Nothing => release(engine, instance, &snapshot).await?,
        Verdict::Consumed => mailbox::discard(engine, instance, queued, &snapshot).await?,
        Verdict::NoInstance(head) => mailbox::orphan(engine, instance, queued, &messages, head).await?,
        Verdict::NoName => {
            release(engine, instance, &snapshot).await?;
            guard.set_aside(Aside::Orphaned);
        }
    }
    Ok(None)
}

/// The instance could not be claimed: it is left alone for as long as that is likely to stay so.
fn stand_back(engine: &Engine, guard: &mut ClaimGuard, acquired: Acquired) {
    match acquired {
        Acquired::Busy(until_ms) if until_ms > engine.clock.now_ms() => {
            let (mut board, now_ms) = engine.board.lock();
            board.leave_alone(&guard.instance, until_ms.min(now_ms + LEASED_ELSEWHERE_MS), now_ms);
        }
        Acquired::Busy(_) => guard.put_off(PUT_OFF_MS),
        Acquired::Pinned(pin) => engine.board.lock().0.pin(&guard.instance, pin),
        Acquired::Nothing | Acquired::Ours(..) => {}
    }
}

/// What a claim on an instance is good for.
enum Verdict {
    /// A turn of this workflow.
    Turn { name: String, version: String },
    /// Nothing: the claim is released. Messages that are there will go with a later turn.
    Nothing,
    /// Nothing: all of its messages were consumed before.
    Consumed,
    /// There is no instance, only the head that the claim has made, at this version.
    NoInstance(Version),
    /// There is an instance, but neither it nor its messages name the workflow.
    NoName,
}

fn assess(snapshot: &Snapshot, guard: &ClaimGuard, messages: &[WorkItem]) -> Verdict {
    if guard.queued_messages.is_empty() {
        return Verdict::Nothing;
    }
    if messages.is_empty() {
        return Verdict::Consumed;
    }
    if let Some((name, version)) = turn::workflow_name(snapshot, messages) {
        return Verdict::Turn { name, version };
    }
    match &snapshot.head {
        // A start is there that a later turn is to have: then it will have these, too.
        Some((head, _)) if head.inline.is_some() => Verdict::Nothing,
        Some((head, version)) if head.is_blank() => Verdict::NoInstance(version.clone()),
        _ => Verdict::NoName,
    }
}

/// How often the messages of a turn were handed out, with this time.
fn attempt(snapshot: &Snapshot, guard: &ClaimGuard) -> u32 {
    let attempts = guard.queued_messages.iter().map(|(_, queued)| queued.attempts);
    let deliveries = snapshot.head.as_ref().map_or(1, |(head, _)| head.deliveries);
    attempts.max().unwrap_or_default() + deliveries
}

/// The messages that were not consumed before. The others are consumed once more, and not handed out.
fn unconsumed(snapshot: &Snapshot, guard: &ClaimGuard, messages: Vec<WorkItem>) -> Vec<WorkItem> {
    let Some(head) = snapshot.head() else { return messages };
    let queued_messages = guard.queued_messages.iter().map(|(_, queued)| queued);
    let both = messages.into_iter().zip(queued_messages);
    both.filter(|(_, queued)| !was_consumed(head, &queued.id))
        .map(|(message, _)| message)
        .collect()
}

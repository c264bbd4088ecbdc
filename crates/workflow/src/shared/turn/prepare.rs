//! Claiming and reading a turn before it is handed out.

use super::acquire::{self, Acquired};
use super::dedup::was_consumed;
use super::{abandon, mailbox};
use crate::board::Window;
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::queued::PUT_OFF_MS;
use crate::shared::{Shared, handover};
use crate::turn::{self, Abandoned, Aside, ClaimGuard, Fetched, Prepared};
use duroxide::providers::{ProviderError, WorkItem};
use futures::FutureExt;
use futures::future::BoxFuture;
use perennial_store::Result;
use std::sync::Arc;
use std::time::Duration;

/// How long an instance is left alone that another process works on, before it is looked at again.
const BUSY_MS: u64 = 1_000;

/// Claims and reads a turn. Its claim is in the store, so it does not stop half-way if the caller goes away: what it got is
/// then given back.
pub async fn acquire(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    mut taken: ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Option<Fetched>> {
    let (owned, shared, window) = (Arc::clone(engine), Arc::clone(shared), window.clone());
    let fetch = {
        let shared = Arc::clone(&shared);
        async move {
            let prepared = prepare(&owned, &shared, &mut taken, &window, lock).await;
            turn::hand_out(&owned, taken, prepared, &window, lock)
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
    taken: &mut ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Option<Prepared>> {
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
    let Some((name, version)) = turn::workflow_name(&snapshot, &messages) else {
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

/// The messages that were not consumed before. The others are consumed once more, and not handed out.
fn unconsumed(snapshot: &Snapshot, taken: &ClaimGuard, messages: Vec<WorkItem>) -> Vec<WorkItem> {
    let Some(head) = snapshot.head() else { return messages };
    let queued_messages = taken.queued_messages.iter().map(|(_, queued)| queued);
    let both = messages.into_iter().zip(queued_messages);
    both.filter(|(_, queued)| !was_consumed(head, &queued.id))
        .map(|(message, _)| message)
        .collect()
}

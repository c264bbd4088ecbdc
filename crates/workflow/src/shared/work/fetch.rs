//! Claiming and reading an activity before it is handed out.

use super::abandon;
use super::acquire::{self, Acquired};
use super::sessions::{self, Tenancy};
use crate::engine::Engine;
use crate::error::from_store;
use crate::shared::{Shared, handover};
use crate::work::{Abandoned, ClaimGuard, Fetched, Worker, hand_out};
use duroxide::providers::ProviderError;
use futures::FutureExt;
use futures::future::BoxFuture;
use perennial_store::{Error, Result};
use std::sync::Arc;
use tracing::trace;

/// Claims and reads an activity. Its claim is in the store, so it does not stop half-way if the caller goes away: what it
/// got is then given back.
pub async fn acquire(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    guard: ClaimGuard,
    worker: &Worker,
) -> Result<Option<Fetched>> {
    let (owned, owned_shared, worker) = (Arc::clone(engine), Arc::clone(shared), worker.clone());
    let fetch = async move { prepare(&owned, &owned_shared, guard, &worker).await };
    handover::hand_over(engine, shared, fetch, give_back).await
}

/// Gives back an activity that its worker did not wait for, and the session that was taken for it.
fn give_back(engine: Arc<Engine>, shared: Arc<Shared>, token: String) -> BoxFuture<'static, Result<(), ProviderError>> {
    async move {
        let id = engine.board.claim_of(&token);
        let took = id.and_then(|id| engine.board.lock().0.claim(id)?.took.take());
        let abandoned = Abandoned::of(&engine, &token, None, true)?;
        abandon(&engine, &shared, abandoned).await?;
        match took {
            None => Ok(()),
            Some((session, owner)) => {
                let released = sessions::release(&engine, &shared, &session, &owner).await;
                released.map_err(|e| from_store("fetch_work_item", &e))
            }
        }
    }
    .boxed()
}

/// Claims and reads an activity; `None` if it is gone, or another process has it or its session.
async fn prepare(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    mut guard: ClaimGuard,
    worker: &Worker,
) -> Result<Option<Fetched>> {
    let mut took = None;
    if let (Some(session), Some(owner)) = (&guard.queued.activity.session, &worker.want.owner) {
        match sessions::acquire(engine, shared, session, owner, worker.session_ms).await? {
            Tenancy::Held => {}
            Tenancy::Taken => took = Some((Arc::clone(session), Arc::clone(owner))),
            // The board knows by now which worker holds it.
            Tenancy::Refused => {
                guard.session_before = None;
                return Ok(None);
            }
        }
    }
    match acquire::acquire(engine, shared, guard.order, &guard.queued, worker.lock).await {
        Ok(Acquired::Ours(item)) => Ok(hand_out(engine, guard, &item, took, worker.lock)),
        Ok(lost) => {
            trace!(instance = %guard.queued.activity.instance, activity = guard.queued.activity.id, "activity not found as it was");
            guard.withdraw(matches!(lost, Acquired::Lost));
            Ok(None)
        }
        Err(Error::Corrupt(why)) => {
            guard.quarantine(&why);
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

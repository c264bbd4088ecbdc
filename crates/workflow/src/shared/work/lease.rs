//! Leases on activities, as other processes see them.

use super::acquire;
use crate::board::{Claim, ClaimId, QueuedActivity, Subject};
use crate::engine::{Engine, put_off};
use crate::error::{dead_token, from_store};
use crate::shared::{Shared, renewal, until};
use crate::work::{ABANDON, Abandoned, RENEW, open};
use duroxide::providers::ProviderError;
use perennial_store::{Order, Result as Stored, Version};
use std::sync::Arc;
use std::time::Duration;

/// The activity of a claim that passes; the claim does not run out until [`resume_lease`].
fn borrow(engine: &Engine, id: ClaimId, passes: impl Fn(&Claim) -> bool) -> Option<(Order, QueuedActivity)> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let claim = board.claim(id).filter(|claim| !claim.committing && passes(claim))?;
    let Subject::Work { order } = claim.subject else {
        return None;
    };
    claim.committing = true;
    let queued = board.work().activity(order)?.clone();
    Some((order, queued))
}

/// The claim may run out again; if its activity is gone or another process's, so is the claim.
fn resume_lease(engine: &Engine, id: ClaimId, order: Order, lost: bool) {
    let (mut board, now_ms) = engine.board.lock();
    board.end_commit(id, now_ms);
    if lost && board.claim(id).is_some() {
        board.withdraw(order);
        board.drop_claim(id);
    }
}

/// Writes the record of an activity again if its claim passes: with this due time, and `uncount` deliveries less; `false` if
/// there is no such claim, or another process has it. Must not be dropped before its end.
async fn rewrite(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    id: ClaimId,
    due_ms: u64,
    uncount: u32,
    passes: impl Fn(&Claim) -> bool,
) -> Stored<bool> {
    let Some(_gate) = engine.enter(id).await else {
        return Ok(false);
    };
    let Some((order, queued)) = borrow(engine, id, passes) else {
        return Ok(false);
    };
    let attempts = queued.attempts.saturating_sub(uncount);
    let written = write(engine, shared, order, &queued, due_ms, attempts).await;
    resume_lease(engine, id, order, matches!(written, Ok(None)));
    Ok(written?.is_some())
}

/// Writes the record of an activity again, with this due time and delivery count. `None` if it is not as it was.
pub async fn write(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    order: Order,
    queued: &QueuedActivity,
    due_ms: u64,
    attempts: u32,
) -> Stored<Option<Version>> {
    let Some(item) = open(engine, queued).await? else {
        return Ok(None);
    };
    let version = queued.version.clone();
    acquire::write(engine, shared, order, queued, &item, version, due_ms, attempts).await
}

/// Gives an activity back in the store, and then on the board. It does not stop half-way if the caller goes away.
pub async fn abandon(engine: &Arc<Engine>, shared: &Arc<Shared>, abandoned: Abandoned) -> Result<(), ProviderError> {
    let (engine, shared) = (Arc::clone(engine), Arc::clone(shared));
    engine
        .spawner
        .shield(async move {
            let now_ms = engine.clock.now_ms();
            let due_ms = abandoned.delay.map_or(0, |delay| put_off(now_ms, delay));
            let uncount = u32::from(abandoned.ignore_attempt);
            let written = rewrite(&engine, &shared, abandoned.id, due_ms, uncount, |_| true).await;
            if !written.map_err(|e| from_store(ABANDON, &e))? {
                return Err(dead_token(ABANDON));
            }
            abandoned.put_back(&engine)
        })
        .await
}

/// Makes a lease on an activity last `extend` from now, in the store. Returns the time that it counts from.
pub async fn renew(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    token: &str,
    extend: Duration,
) -> Result<u64, ProviderError> {
    let shared = Arc::clone(shared);
    renewal::renew(engine, RENEW, token, move |engine, id, now_ms| {
        let shared = Arc::clone(&shared);
        async move {
            let due_ms = until(now_ms, extend);
            rewrite(&engine, &shared, id, due_ms, 0, |claim| claim.until_ms > now_ms).await
        }
    })
    .await
}

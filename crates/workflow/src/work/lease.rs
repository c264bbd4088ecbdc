//! What a worker may do with an activity other than finish it, and with its sessions.

use super::{acquire, fetch, sessions};
use crate::board::{Claim, ClaimId, QueuedActivity, Subject};
use crate::engine::{Engine, millis, put_off};
use crate::error::{dead_token, from_store};
use crate::shared::{self, Shared};
use duroxide::providers::ProviderError;
use perennial_store::{Order, Result as Stored, Version};
use std::sync::Arc;
use std::time::Duration;

/// The activity of a claim that passes, which from now on does not run out until [`resume_lease`].
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

/// The claim may run out again; if its activity is gone or somebody else's, so is the claim.
fn resume_lease(engine: &Engine, id: ClaimId, order: Order, lost: bool) {
    let (mut board, now_ms) = engine.board.lock();
    board.end_commit(id, now_ms);
    if lost && board.claim(id).is_some() {
        board.withdraw(order);
        board.drop_claim(id);
    }
}

/// Writes the record of an activity again whose claim passes: due at another time, and delivered so many times less;
/// `false` if there is no such claim, or somebody else has it. Must be seen through to its end.
async fn rewrite(
    engine: &Arc<Engine>,
    id: ClaimId,
    due_ms: u64,
    uncount: u32,
    passes: impl Fn(&Claim) -> bool,
) -> Stored<bool> {
    let (Some(shared), Some(_gate)) = (&engine.shared, engine.enter(id).await) else {
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

/// Writes the record of an activity again: due at another time, and delivered so many times. `None` if it is not as it was.
pub async fn write(
    engine: &Arc<Engine>,
    shared: &Shared,
    order: Order,
    queued: &QueuedActivity,
    due_ms: u64,
    attempts: u32,
) -> Stored<Option<Version>> {
    let Some(item) = fetch::open(engine, queued).await? else {
        return Ok(None);
    };
    let version = queued.version.clone();
    acquire::write(engine, shared, order, queued, &item, version, due_ms, attempts).await
}

/// Gives an activity back, to be handed out again after `delay`.
pub async fn abandon(
    engine: &Arc<Engine>,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<(), ProviderError> {
    const OPERATION: &str = "abandon_work_item";
    let dead = || dead_token(OPERATION);
    let delay = delay.filter(|delay| !delay.is_zero());
    let id = engine.board.claim_of(token).ok_or_else(dead)?;
    if engine.shared.is_some() {
        let engine = Arc::clone(engine);
        engine
            .spawner
            .shield(async move {
                let due_ms = delay.map_or(0, |delay| put_off(engine.clock.now_ms(), delay));
                let uncount = u32::from(ignore_attempt);
                let written = rewrite(&engine, id, due_ms, uncount, |_| true).await;
                if !written.map_err(|e| from_store(OPERATION, &e))? {
                    return Err(dead());
                }
                put_back(&engine, id, delay, ignore_attempt).ok_or_else(dead)
            })
            .await
    } else {
        put_back(engine, id, delay, ignore_attempt).ok_or_else(dead)
    }
}

/// Makes memory agree; `None` if the claim is not there any more, or a commit rests on it.
fn put_back(engine: &Engine, id: ClaimId, delay: Option<Duration>, ignore_attempt: bool) -> Option<()> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let claim = board.claim(id).filter(|claim| !claim.committing)?;
    let Subject::Work { order } = claim.subject else {
        return None;
    };
    let due_ms = delay.map(|delay| put_off(now_ms, delay));
    board.put_back(order, id, due_ms, ignore_attempt, now_ms);
    board.drop_claim(id);
    Some(())
}

/// Makes a lease on an activity last `extend` from now. It fails if the activity was cancelled: that is how a
/// worker learns of it.
pub async fn renew(engine: &Arc<Engine>, token: &str, extend: Duration) -> Result<(), ProviderError> {
    const OPERATION: &str = "renew_work_item_lock";
    let told_ms = shared::prolonged(engine, OPERATION, token, move |engine, id, now_ms| async move {
        let due_ms = shared::until(now_ms, extend);
        rewrite(&engine, id, due_ms, 0, |claim| claim.until_ms > now_ms).await
    })
    .await?;
    let is_work = |subject: &Subject| matches!(subject, Subject::Work { .. });
    let subject = engine.renew_lease(OPERATION, token, extend, told_ms, is_work)?;
    if let Subject::Work { order } = subject {
        let (mut board, now_ms) = engine.board.lock();
        let session = board
            .work()
            .activity(order)
            .and_then(|queued| queued.activity.session.clone());
        if let Some(session) = session {
            board.sessions().used(&session, now_ms);
        }
    }
    Ok(())
}

/// Extends the sessions of these workers that were used within `idle`; returns how many.
pub async fn renew_sessions(
    engine: &Engine,
    owners: &[&str],
    extend: Duration,
    idle: Duration,
) -> Result<usize, ProviderError> {
    if engine.shared.is_some() {
        let renewed = sessions::renew(engine, owners, extend, idle).await;
        return renewed.map_err(|e| from_store("renew_session_lock", &e));
    }
    let (mut board, now_ms) = engine.board.lock();
    Ok(board.renew_sessions(owners, millis(extend), millis(idle), now_ms))
}

/// Forgets sessions that nobody holds and nothing waits for; returns how many.
pub async fn clean_up_sessions(engine: &Engine) -> Result<usize, ProviderError> {
    if engine.shared.is_some() {
        let cleaned = sessions::clean_up(engine).await;
        return cleaned.map_err(|e| from_store("cleanup_orphaned_sessions", &e));
    }
    let (mut board, now_ms) = engine.board.lock();
    Ok(board.sessions().clean_up(now_ms).len())
}

//! What a worker may do with an activity other than finish it, and with its sessions.

use crate::board::Subject;
use crate::engine::{Engine, later, millis};
use crate::error::dead_token;
use duroxide::providers::ProviderError;
use std::time::Duration;

/// Gives an activity back, to be handed out again after `delay`.
pub fn abandon(
    engine: &Engine,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<(), ProviderError> {
    const OPERATION: &str = "abandon_work_item";
    let id = engine.board.claim_of(token).ok_or_else(|| dead_token(OPERATION))?;
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let claim = board
        .claim(id)
        .filter(|claim| !claim.committing)
        .ok_or_else(|| dead_token(OPERATION))?;
    let Subject::Work { order } = claim.subject else {
        return Err(dead_token(OPERATION));
    };
    let due_ms = delay.map(|delay| later(now_ms, delay));
    board.put_back(order, id, due_ms, ignore_attempt, now_ms);
    board.drop_claim(id);
    Ok(())
}

/// Makes a lease on an activity last `extend` from now. It fails if the activity was cancelled: that is how a
/// worker learns of it.
pub fn renew(engine: &Engine, token: &str, extend: Duration) -> Result<(), ProviderError> {
    let is_work = |subject: &Subject| matches!(subject, Subject::Work { .. });
    let subject = engine.renew_lease("renew_work_item_lock", token, extend, is_work)?;
    if let Subject::Work { order } = subject {
        let (mut board, now_ms) = engine.board.lock();
        let session = board.work().task(order).and_then(|task| task.activity.session.clone());
        if let Some(session) = session {
            board.sessions().used(&session, now_ms);
        }
    }
    Ok(())
}

/// Extends the sessions of these workers that were used within `idle`; returns how many.
pub fn renew_sessions(engine: &Engine, owners: &[&str], extend: Duration, idle: Duration) -> usize {
    let (mut board, now_ms) = engine.board.lock();
    board.renew_sessions(owners, millis(extend), millis(idle), now_ms)
}

/// Forgets sessions that nobody holds and nothing waits for; returns how many.
pub fn clean_up_sessions(engine: &Engine) -> usize {
    let (mut board, now_ms) = engine.board.lock();
    board.sessions().clean_up(now_ms)
}

//! What a dispatcher may do with a turn other than finish it.

use crate::board::Subject;
use crate::engine::{Engine, later};
use crate::error::dead_token;
use duroxide::providers::ProviderError;
use std::time::Duration;

/// Gives a turn back, to be handed out again after `delay`. Only the messages that were handed out are touched.
pub fn abandon(
    engine: &Engine,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<(), ProviderError> {
    const OPERATION: &str = "abandon_orchestration_item";
    let id = engine.board.claim_of(token).ok_or_else(|| dead_token(OPERATION))?;
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let claim = board
        .claim(id)
        .filter(|claim| !claim.committing)
        .ok_or_else(|| dead_token(OPERATION))?;
    let Subject::Turn { instance, orders, .. } = claim.subject.clone() else {
        return Err(dead_token(OPERATION));
    };
    if ignore_attempt {
        board.uncount(&instance, &orders);
    }
    if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
        board.hide(&instance, &orders, later(now_ms, delay));
    }
    board.drop_claim(id);
    board.let_go(&instance, id, now_ms);
    Ok(())
}

/// Makes a lease on a turn last `extend` from now.
pub fn renew(engine: &Engine, token: &str, extend: Duration) -> Result<(), ProviderError> {
    let is_turn = |subject: &Subject| matches!(subject, Subject::Turn { .. });
    engine.renew_lease("renew_orchestration_item_lock", token, extend, is_turn)?;
    Ok(())
}

//! What a dispatcher may do with a turn other than finish it.

use crate::board::{ClaimId, Subject};
use crate::engine::{Engine, put_off};
use crate::error::dead_token;
use duroxide::providers::ProviderError;
use perennial_store::Order;
use std::sync::Arc;
use std::time::Duration;

/// What giving a turn back is called in errors.
pub const ABANDON: &str = "abandon_orchestration_item";
/// What extending a turn's lease is called in errors.
pub const RENEW: &str = "renew_orchestration_item_lock";

/// A turn that its dispatcher gives back, to be handed out again after `delay`.
pub struct Abandoned {
    pub id: ClaimId,
    pub delay: Option<Duration>,
    /// Whether this delivery does not count.
    pub ignore_attempt: bool,
}

impl Abandoned {
    /// The turn that a token names.
    pub fn of(
        engine: &Engine,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<Self, ProviderError> {
        Ok(Self {
            id: engine.board.claim_of(token).ok_or_else(|| dead_token(ABANDON))?,
            delay: delay.filter(|delay| !delay.is_zero()),
            ignore_attempt,
        })
    }

    /// Puts the turn back on the board, unless its claim is gone or a commit rests on it. Only the messages that were handed
    /// out are touched.
    pub fn put_back(&self, engine: &Engine) -> Result<(), ProviderError> {
        let (mut board, now_ms) = engine.board.lock();
        board.advance(now_ms);
        let claim = board.claim(self.id).filter(|claim| !claim.committing);
        let Some(Subject::Turn { instance, handed, .. }) = claim.map(|claim| claim.subject.clone()) else {
            return Err(dead_token(ABANDON));
        };
        let orders: Vec<Order> = handed.iter().map(|handed| handed.order).collect();
        if self.ignore_attempt {
            board.uncount(&instance, &orders);
        }
        if let Some(delay) = self.delay {
            board.hide(&instance, &orders, put_off(now_ms, delay));
        }
        board.drop_claim(self.id);
        board.let_go(&instance, self.id, now_ms);
        Ok(())
    }
}

/// Gives a turn back, to be handed out again after `delay`.
pub async fn abandon(
    engine: &Arc<Engine>,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<(), ProviderError> {
    let abandoned = Abandoned::of(engine, token, delay, ignore_attempt)?;
    engine.mode.abandon_turn(engine, abandoned).await
}

/// Makes a lease on a turn last `extend` from now.
pub async fn renew(engine: &Arc<Engine>, token: &str, extend: Duration) -> Result<(), ProviderError> {
    let stored_ms = engine.mode.renew_turn(engine, token, extend).await?;
    let is_turn = |subject: &Subject| matches!(subject, Subject::Turn { .. });
    engine.renew_lease(RENEW, token, extend, stored_ms, is_turn)?;
    Ok(())
}

//! What a worker may do with an activity other than finish it, and with its sessions.

use crate::board::{ClaimId, Subject};
use crate::engine::{Engine, put_off};
use crate::error::{dead_token, from_store};
use duroxide::providers::ProviderError;
use std::sync::Arc;
use std::time::Duration;

/// What giving an activity back is called in errors.
pub const ABANDON: &str = "abandon_work_item";
/// What extending an activity's lease is called in errors.
pub const RENEW: &str = "renew_work_item_lock";

/// An activity that its worker gives back, to be handed out again after `delay`.
pub struct Abandoned {
    pub id: ClaimId,
    pub delay: Option<Duration>,
    /// Whether this delivery does not count.
    pub ignore_attempt: bool,
}

impl Abandoned {
    /// The activity that a token names.
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

    /// Puts the activity back on the board, unless its claim is gone or a commit rests on it.
    pub fn put_back(&self, engine: &Engine) -> Result<(), ProviderError> {
        let (mut board, now_ms) = engine.board.lock();
        board.advance(now_ms);
        let claim = board.claim(self.id).filter(|claim| !claim.committing);
        let Some(Subject::Work { order }) = claim.map(|claim| claim.subject.clone()) else {
            return Err(dead_token(ABANDON));
        };
        let due_ms = self.delay.map(|delay| put_off(now_ms, delay));
        board.put_back(order, self.id, due_ms, self.ignore_attempt, now_ms);
        board.drop_claim(self.id);
        Ok(())
    }
}

/// The claim that a token names. If a turn that was acknowledged cancels the activity, waits until that is durable: the worker
/// must not act on what a power cut can take back.
pub async fn claim_of(engine: &Engine, token: &str) -> Option<ClaimId> {
    let id = engine.board.claim_of(token)?;
    let cancelling = engine.board.lock().0.cancelling(id);
    if let Some(instance) = cancelling {
        engine.outstanding.turns_of(&instance).await;
    }
    Some(id)
}

/// Gives an activity back, to be handed out again after `delay`.
pub async fn abandon(
    engine: &Arc<Engine>,
    token: &str,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<(), ProviderError> {
    claim_of(engine, token).await;
    let abandoned = Abandoned::of(engine, token, delay, ignore_attempt)?;
    engine.mode.abandon_work(engine, abandoned).await
}

/// Makes a lease on an activity last `extend` from now. It fails if the activity was cancelled: that is how a
/// worker learns of it.
pub async fn renew(engine: &Arc<Engine>, token: &str, extend: Duration) -> Result<(), ProviderError> {
    claim_of(engine, token).await;
    let stored_ms = engine.mode.renew_work(engine, token, extend).await?;
    let is_work = |subject: &Subject| matches!(subject, Subject::Work { .. });
    let subject = engine.renew_lease(RENEW, token, extend, stored_ms, is_work)?;
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
    let renewed = engine.mode.renew_sessions(engine, owners, extend, idle).await;
    renewed.map_err(|e| from_store("renew_session_lock", &e))
}

/// Forgets sessions that no worker holds and nothing waits for; returns how many.
pub async fn clean_up_sessions(engine: &Engine) -> Result<usize, ProviderError> {
    let cleaned = engine.mode.clean_up_sessions(engine).await;
    cleaned.map_err(|e| from_store("cleanup_orphaned_sessions", &e))
}

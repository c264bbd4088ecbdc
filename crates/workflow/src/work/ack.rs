//! Finishing an activity: its record goes and its result comes, in one commit.

use super::lease::claim_of;
use crate::board::{ClaimId, Inner, QueuedActivity, Subject};
use crate::engine::Engine;
use crate::error::{dead_token, from_store, wrong_item};
use crate::outbox::{self, Intent, Outgoing};
use crate::queued::NewMessage;
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Error, Op, Order};
use std::sync::Arc;
use tracing::{Instrument, debug_span};

const OPERATION: &str = "ack_work_item";
/// The operation of the commit that sends the result: the first one removes the activity.
const RESULT_OP: usize = 1;

/// Ends an activity, with its result as a message to its instance if it has one.
pub async fn ack(engine: &Arc<Engine>, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
    let id = claim_of(engine, token).await.ok_or_else(|| dead_token(OPERATION))?;
    match completion {
        None | Some(WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. }) => {}
        Some(_) => return Err(wrong_item(OPERATION, "the completion of an activity")),
    }
    let gate = engine
        .mode
        .enter(engine, id)
        .await
        .ok_or_else(|| dead_token(OPERATION))?;
    let done = begin(engine, id).ok_or_else(|| dead_token(OPERATION))?;
    let result = match completion {
        None => None,
        Some(item) => outbox::outgoing(engine, &done.queued.key.partition, item, 0, RESULT_OP)
            .map_err(|e| done.failed(engine, &e))?,
    };
    let activity = &done.queued.activity;
    let span = debug_span!("activity", instance = %activity.instance, execution = activity.execution,
        activity = activity.id);
    let (engine, spawner) = (Arc::clone(engine), engine.spawner);
    let finish = async move {
        let _gate = gate;
        engine.mode.finish_work(&engine, done, result).await
    };
    spawner.shield(finish.instrument(span)).await
}

/// An activity that has ended, on a claim that does not run out until that is known.
pub struct Done {
    pub id: ClaimId,
    pub order: Order,
    pub queued: QueuedActivity,
}

/// What the commit that ends an activity does.
pub struct Ending {
    pub ops: Vec<Op>,
    /// The result, as a message to the activity's own instance.
    pub result: Option<NewMessage>,
    /// The result, if it must go through an outbox.
    pub intents: Vec<Intent>,
}

impl Done {
    /// The operations that end the activity: its record goes, and its result is sent.
    pub fn ending(&self, result: Option<(Outgoing, Op)>) -> Ending {
        let mut ending = Ending {
            ops: vec![Op::Delete(self.queued.key.clone(), self.queued.version.clone())],
            result: None,
            intents: Vec::new(),
        };
        let Some((outgoing, create)) = result else {
            return ending;
        };
        ending.ops.push(create);
        match outgoing {
            Outgoing::Intent(intent) => ending.intents.push(*intent),
            Outgoing::Message(result) => ending.result = Some(result),
        }
        ending
    }

    /// The commit is durable: the activity leaves the board.
    pub fn leave(&self, board: &mut Inner, now_ms: u64) {
        if let Some(session) = &self.queued.activity.session {
            board.sessions().used(session, now_ms);
        }
        board.withdraw(self.order);
    }

    /// The commit failed: the claim may run out again.
    pub fn failed(&self, engine: &Engine, error: &Error) -> ProviderError {
        failed(engine, self.id, error)
    }

    /// The activity was cancelled, or another process has it.
    pub fn lost(&self, engine: &Engine) -> ProviderError {
        let (mut board, _) = engine.board.lock();
        board.withdraw(self.order);
        board.drop_claim(self.id);
        dead_token(OPERATION)
    }
}

/// The commit that ends an activity failed: the claim may run out again.
pub fn failed(engine: &Engine, id: ClaimId, error: &Error) -> ProviderError {
    let (mut board, now_ms) = engine.board.lock();
    board.end_commit(id, now_ms);
    from_store(OPERATION, error)
}

/// Checks the claim, and keeps it from running out while the commit is under way.
fn begin(engine: &Engine, id: ClaimId) -> Option<Done> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let claim = board.live_claim(id, now_ms)?;
    let Subject::Work { order } = claim.subject else {
        return None;
    };
    claim.committing = true;
    let took_ms = now_ms.saturating_sub(claim.since_ms);
    board.duration_estimate.ended(took_ms);
    let queued = board.work().activity(order)?.clone();
    Some(Done { id, order, queued })
}

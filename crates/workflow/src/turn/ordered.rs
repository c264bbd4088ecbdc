//! Finishing a turn on a store of this process: the ack returns when the commit is ordered, the rest follows when it is durable.

use super::ack::{OPERATION, Planned, publish};
use super::plan::TurnContext;
use crate::board::ClaimId;
use crate::engine::Engine;
use crate::error::from_store;
use crate::mutation::mutant;
use crate::outstanding::Kind;
use duroxide::providers::ProviderError;
use perennial_store::{Error, OnDurable, Refused};
use std::sync::Arc;
use tracing::{debug, warn};

/// Orders the commit of a turn. From then on its token is dead, and what it removes is not handed out; what it adds is seen
/// when it is durable.
pub async fn finish(
    engine: &Arc<Engine>,
    id: ClaimId,
    context: TurnContext,
    planned: Planned,
) -> Result<(), ProviderError> {
    let Planned { mut plan, arriving } = planned;
    let commit = std::mem::take(&mut plan.commit);
    let instance = Arc::clone(&context.instance);
    let ack = engine.outstanding.begin(&instance, Kind::Turn, &commit);
    let number = ack.number();
    let cancelled = plan.withdrawn.clone();
    mutant!(HandOutCancelled, {}, engine.board.lock().0.cancel(&cancelled));
    mutant!(CancelOrdered, {
        let (mut board, _) = engine.board.lock();
        cancelled.iter().for_each(|order| board.withdraw(*order));
    });
    mutant!(ReadOrdered, {
        let seen = crate::instance::Snapshot {
            head: Some((plan.head.clone(), perennial_store::Version::number(0))),
            history: plan.history.clone(),
            kv: Arc::clone(&plan.kv),
            custom: plan.custom.clone(),
        };
        engine.cache.put(
            &instance,
            crate::send::slot_of(&instance),
            Arc::new(seen),
            engine.clock.now_ms(),
        );
    });
    let owner = Arc::downgrade(engine);
    let on_durable: OnDurable = Box::new(move |outcome| {
        let _arriving = arriving;
        ack.conclude(&owner, |engine| match outcome {
            Ok(committed) => {
                engine.meters.turns.increment(1);
                publish(engine, &context, plan, &committed, Some(id));
                debug!("turn committed");
            }
            Err(error) => lose(engine, id, &error),
        });
    });
    match engine.order(commit, on_durable).await {
        Ok(()) => engine.board.lock().0.acked(id),
        Err(Refused { error, .. }) => {
            let (mut board, now_ms) = engine.board.lock();
            board.restore(&cancelled, now_ms);
            drop(board);
            let overtaken = matches!(error, Error::Conflict { .. });
            engine.mode.turn_failed(engine, id, &instance, overtaken);
            return Err(from_store(OPERATION, &error));
        }
    }
    engine.outstanding.ordered(number).await;
    Ok(())
}

/// A commit that was acknowledged is not durable: the store broke, and the engine that opens it again finds what is.
pub fn lose(engine: &Engine, id: ClaimId, error: &Error) {
    warn!(%error, "an acknowledged commit was lost; its work is done again when the store is opened again");
    let (mut board, now_ms) = engine.board.lock();
    board.end_commit(id, now_ms);
}

//! Finishing an activity: perhaps in one commit with others of its instance, and with claims for what comes next.

use super::next::Next;
use crate::engine::Engine;
use crate::outbox::{self, Outgoing};
use crate::queued::NewMessage;
use crate::shared::batcher::{self, BatchOutcome, OptionalOp};
use crate::shared::{Arrival, ArrivalClaim, Shared, known_version, receive};
use crate::work::Done;
use duroxide::providers::ProviderError;
use perennial_store::{Error, Op, Result, Version};
use std::sync::Arc;

/// The claims that the commit may make on the side.
struct Claims {
    /// Of the instance, for the turn that takes the result.
    arrival: Option<ArrivalClaim>,
    /// Of the next activity that the worker can have.
    next: Option<Next>,
}

impl Claims {
    fn of(
        engine: &Arc<Engine>,
        shared: &Shared,
        done: &Done,
        result: Option<&NewMessage>,
    ) -> Result<(Self, Vec<OptionalOp>)> {
        let arrival = match result {
            Some(result) => ArrivalClaim::of(engine, shared, &Arrival::from(result))?,
            None => None,
        };
        let (arrival, head) = arrival.unzip();
        let (next, claim) = Next::of(engine, shared, &done.queued)?.unzip();
        let optional = head.into_iter().chain(claim.map(OptionalOp::from)).collect();
        Ok((Self { arrival, next }, optional))
    }

    /// The version that claimed the next activity, if the commit did.
    fn next_claimed(&self, joined: &BatchOutcome) -> Option<Version> {
        let at = usize::from(self.arrival.is_some());
        joined.taken.get(at).cloned().flatten()
    }
}

/// Ends an activity and sends its result.
pub async fn finish(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    done: Done,
    result: Option<(Outgoing, Op)>,
) -> Result<(), ProviderError> {
    let ending = done.ending(result);
    let result = ending.result;
    let since = result
        .as_ref()
        .and_then(|result| known_version(engine, &result.instance));
    let (mut claims, optional) =
        Claims::of(engine, shared, &done, result.as_ref()).map_err(|e| done.failed(engine, &e))?;
    let joined = match batcher::commit(engine, shared, ending.ops, optional).await {
        Ok(joined) => joined,
        Err(Error::Conflict { .. }) => return Err(done.lost(engine)),
        Err(error) => return Err(done.failed(engine, &error)),
    };
    engine.meters.activities.increment(1);
    {
        let (mut board, now_ms) = engine.board.lock();
        done.leave(&mut board, now_ms);
        board.drop_claim(done.id);
    }
    let claimed = claims.next_claimed(&joined);
    if let Some(next) = claims.next.take() {
        next.resolve(claimed);
        shared.reaper.start(engine, shared);
    }
    outbox::dispatch(engine, &done.queued.key.partition, ending.intents, &joined.versions);
    if let Some(result) = result {
        receive(engine, shared, &result, since, claims.arrival.as_ref(), &joined);
        if !engine.board.lock().0.is_involved(&result.instance) {
            // Other processes go on with it.
            engine.cache.doubt(&result.instance);
        }
    }
    Ok(())
}

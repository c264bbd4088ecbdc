//! Messages on their way in.

use super::{Arrival, ArrivalClaim, Shared, batcher, known_version, receive};
use crate::board::Reservation;
use crate::engine::Engine;
use crate::queued::NewMessage;
use perennial_store::{Committed, Error, Op, Result};
use std::sync::Arc;

/// Stores a message, and claims its instance in the same commit if a dispatcher here would take it.
pub async fn send(engine: &Arc<Engine>, shared: &Arc<Shared>, new_message: NewMessage, create: Op) -> Result<()> {
    let since = known_version(engine, &new_message.instance);
    let (arrival_claim, optional) = ArrivalClaim::of(engine, shared, &Arrival::from(&new_message))?.unzip();
    let joined = match batcher::commit(engine, shared, vec![create], optional.into_iter().collect()).await {
        // It was in the head after all, and has been taken out.
        Err(Error::Conflict { .. }) if arrival_claim.is_some() => return Ok(()),
        outcome => outcome?,
    };
    engine.meters.messages.increment(1);
    receive(engine, shared, &new_message, since, arrival_claim.as_ref(), &joined);
    Ok(())
}

/// Creates messages of one instance, and claims it in the same commit if a dispatcher here would take it.
pub async fn create_messages(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    ops: Vec<Op>,
    first: Option<Arrival>,
) -> Result<(Committed, Option<(Reservation, ArrivalClaim)>)> {
    let arrival_claim = match &first {
        Some(first) => ArrivalClaim::of(engine, shared, first)?,
        None => None,
    };
    let (arrival_claim, optional) = arrival_claim.unzip();
    let joined = batcher::commit(engine, shared, ops, optional.into_iter().collect()).await?;
    let taken = joined.taken.into_iter().next().flatten();
    let reservation = taken
        .zip(arrival_claim)
        .zip(first)
        .map(|((version, claim), first)| (claim.made(engine, &first.instance, version), claim));
    Ok((joined.versions, reservation))
}

//! How the two modes store, deliver and consume messages.

use super::Mode;
use crate::board::{Handed, QueuedMessage, Reservation};
use crate::engine::Engine;
use crate::exclusive;
use crate::queued::NewMessage;
use crate::shared::{self, Arrival, ArrivalClaim};
use perennial_store::{Commit, Committed, Draft, Error, Key, Op, Order, Result, Version};
use std::sync::Arc;

impl Mode {
    /// Stores a message to an instance and puts it on the board.
    pub async fn send(&self, engine: &Arc<Engine>, message: NewMessage, create: Op) -> Result<()> {
        match self {
            Self::Exclusive => exclusive::send(engine, message, create, None).await.map(drop),
            Self::Shared(shared) => shared::send(engine, shared, message, create).await,
        }
    }

    /// Stores a message to an instance in the same commit as an operation on another partition; returns the version that
    /// this wrote.
    pub async fn send_with(
        &self,
        engine: &Arc<Engine>,
        message: NewMessage,
        create: Op,
        with: Op,
    ) -> Result<Option<Version>> {
        match self {
            Self::Exclusive => exclusive::send(engine, message, create, Some(with)).await,
            Self::Shared(_) => Err(Error::Invalid(
                "a store that many processes share takes messages of clients directly".to_owned(),
            )),
        }
    }

    /// Creates messages of one instance; beside others perhaps with a claim on it, for a dispatcher that waits here. `first`
    /// is the message that such a claim is for.
    pub async fn create_messages(
        &self,
        engine: &Arc<Engine>,
        ops: Vec<Op>,
        first: Option<Arrival>,
    ) -> Result<(Committed, Option<(Reservation, ArrivalClaim)>)> {
        match self {
            Self::Exclusive => Ok((engine.commit(Commit::new(ops)).await?, None)),
            Self::Shared(shared) => shared::create_messages(engine, shared, ops, first).await,
        }
    }

    /// Puts a message on the board that a commit has brought while the head was at the version `since`, and the claim that
    /// the same commit made.
    pub fn deliver(
        &self,
        engine: &Engine,
        instance: &Arc<str>,
        order: Order,
        queued: QueuedMessage,
        since: Option<Version>,
        reservation: Option<Reservation>,
    ) {
        match self {
            Self::Exclusive => exclusive::deliver(engine, instance, order, queued),
            Self::Shared(shared) => shared::deliver(engine, shared, instance, order, queued, since, reservation),
        }
    }

    /// The operation that consumes a message: it leaves a tombstone, or nothing. Beside others, a process that has changed
    /// the message since it was handed out has taken over.
    pub fn consume_op(&self, handed: &Handed, key: Key, tomb: Option<Draft>) -> Op {
        match (self, tomb) {
            (Self::Exclusive, Some(tomb)) => Op::Put(tomb),
            (Self::Exclusive, None) => Op::Remove(key),
            (Self::Shared(_), Some(tomb)) => Op::Replace(tomb, handed.version.clone()),
            (Self::Shared(_), None) => Op::Delete(key, handed.version.clone()),
        }
    }
}

//! Claiming an instance by the very commit that brings it a message, for a dispatcher of this process that waits.

use crate::board::{MessageKind, PendingClaim, Pin, QueuedMessage, Reservation};
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::queued::NewMessage;
use crate::records::head::{Head, InlineMessage};
use crate::send::slot_of;
use crate::shared::batcher::{BatchOutcome, OptionalOp};
use crate::shared::members::DEFER_MS;
use crate::shared::{Affinity, Shared, affinity_of};
use duroxide::INITIAL_EXECUTION_ID;
use perennial_store::{Op, Order, Result, Version};
use std::sync::Arc;

/// A message that a commit is about to bring.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The instance that it is for.
    pub instance: Arc<str>,
    /// When it becomes ready.
    pub due_ms: u64,
    /// What it is.
    pub sort: MessageKind,
    /// What the head may hold in place of a record.
    pub inline: Option<Arc<InlineMessage>>,
    /// Which operation of the commit creates its record.
    pub op: usize,
}

impl From<&NewMessage> for Arrival {
    fn from(new_message: &NewMessage) -> Self {
        Self {
            instance: Arc::clone(&new_message.instance),
            due_ms: new_message.due_ms,
            sort: new_message.sort,
            inline: new_message.inline(),
            op: new_message.op,
        }
    }
}

/// A claim that a commit may make on the side.
pub struct ArrivalClaim {
    /// Until the claim is on the board, or has come to nothing, nobody else here may make one.
    _pending_claim: PendingClaim,
    snapshot: Snapshot,
    head: Head,
    began_ms: u64,
    until_ms: u64,
}

impl ArrivalClaim {
    /// The claim that a commit could make which brings this message, as a optional of it; `None` if nobody here would work on
    /// the instance at once, or somebody does.
    pub fn of(engine: &Engine, shared: &Shared, new_message: &Arrival) -> Result<Option<(Self, OptionalOp)>> {
        if new_message.sort == MessageKind::Result
            && affinity_of(engine, shared, &new_message.instance) == Affinity::Elsewhere
        {
            return Ok(None);
        }
        let now_ms = engine.clock.now_ms();
        let known = engine.cache.peek(&new_message.instance);
        let lock = shared.turn_lock();
        if lock.is_zero() || new_message.due_ms > now_ms || (known.is_none() && new_message.sort != MessageKind::Start)
        {
            return Ok(None);
        }
        let snapshot = known.map_or_else(Snapshot::default, Arc::unwrap_or_clone);
        let taken = snapshot
            .lease()
            .is_some_and(|lease| lease.owner != shared.owner && lease.until_ms > now_ms);
        let hidden = |(head, _): &(Head, Version)| {
            head.parked || head.pending.is_some() || head.deletion.is_some() || head.inline.is_some()
        };
        let unready = snapshot.head.as_ref().is_some_and(hidden);
        let pin = Pin::of(snapshot.head().and_then(|head| head.execution.pinned.as_ref()));
        // Without an instance, only a start makes a turn.
        let idle = snapshot.head().is_none() && new_message.sort != MessageKind::Start;
        if taken || idle || unready {
            return Ok(None);
        }
        let Some(pending_claim) = engine.board.begin_claim(&new_message.instance, &pin) else {
            return Ok(None);
        };
        let lease = shared.lease(now_ms, lock);
        let until_ms = lease.until_ms;
        let known = snapshot.head.as_ref().map(|(head, _)| head.clone());
        let mut head = known.unwrap_or_else(|| Head::new(INITIAL_EXECUTION_ID, now_ms));
        head.lease = Some(lease);
        head.deliveries += 1;
        head.inline.clone_from(&new_message.inline);
        let draft = head.draft(Head::key(&new_message.instance))?;
        let op = match &snapshot.head {
            None => Op::Create(draft),
            Some((_, version)) => Op::Replace(draft, version.clone()),
        };
        let arrival_claim = Self {
            _pending_claim: pending_claim,
            snapshot,
            head,
            began_ms: now_ms,
            until_ms,
        };
        let optional = OptionalOp {
            op,
            instead_of: arrival_claim.carries_message().then_some(new_message.op),
        };
        Ok(Some((arrival_claim, optional)))
    }

    /// Whether the claim brings the message too, so that it needs no record.
    fn carries_message(&self) -> bool {
        self.head.inline.is_some()
    }

    /// The commit made the claim: the instance, to be put on the board once its message is there. Keep the arrival_claim until
    /// then.
    pub fn made(&self, engine: &Engine, instance: &Arc<str>, version: Version) -> Reservation {
        let snapshot = Arc::new(self.snapshot.with_head(self.head.clone(), version));
        engine
            .cache
            .put(instance, slot_of(instance), Arc::clone(&snapshot), self.began_ms);
        let over = snapshot.head.as_ref().map(|(_, version)| version.clone());
        let before = self.snapshot.head.as_ref().map(|(_, version)| version);
        engine.board.lock().0.wrote_head(instance, before, over.as_ref());
        Reservation {
            snapshot,
            until_ms: self.until_ms,
            over,
        }
    }
}

/// The version of an instance's head, as far as this process knows, before it brings a message.
pub fn known_version(engine: &Engine, instance: &str) -> Option<Version> {
    let (_, version) = engine.cache.peek(instance)?.head.clone()?;
    Some(version)
}

/// Puts a message on the board that a batcher commit has brought while the head was at the version `since`: by an operation
/// of its own, or by the claim that was its first optional.
pub fn receive(
    engine: &Engine,
    shared: &Shared,
    new_message: &NewMessage,
    since: Option<Version>,
    arrival_claim: Option<&ArrivalClaim>,
    joined: &BatchOutcome,
) {
    let taken = joined.taken.first().cloned().flatten();
    let taken = taken.zip(arrival_claim);
    let inline = taken
        .as_ref()
        .filter(|(_, arrival_claim)| arrival_claim.carries_message());
    let queued = match inline {
        Some((head, _)) => Some(QueuedMessage {
            inline: true,
            ..new_message.queued(head.clone())
        }),
        None => joined
            .versions
            .version(new_message.op)
            .cloned()
            .map(|version| new_message.queued(version)),
    };
    let reservation = taken.map(|(head, arrival_claim)| arrival_claim.made(engine, &new_message.instance, head));
    // What is gone already needs no delivery.
    if let Some(queued) = queued {
        deliver(
            engine,
            shared,
            &new_message.instance,
            new_message.order,
            queued,
            since,
            reservation,
        );
    }
}

/// Puts a message on the board that a commit has brought while the head was at the version `since`, and the claim that the
/// same commit made.
pub fn deliver(
    engine: &Engine,
    shared: &Shared,
    instance: &Arc<str>,
    order: Order,
    queued: QueuedMessage,
    since: Option<Version>,
    reservation: Option<Reservation>,
) {
    let pin = engine.known_pin(instance);
    let left_alone = queued.sort == MessageKind::Result && affinity_of(engine, shared, instance) == Affinity::Elsewhere;
    let (mut board, now_ms) = engine.board.lock();
    if left_alone && reservation.is_none() && board.could_take(instance) {
        // The other one has all of it in memory. If it does not come, the store tells of the result again.
        board.leave_alone(instance, now_ms + DEFER_MS, now_ms);
        return;
    }
    let queued = QueuedMessage {
        // Its commit may be older than what this process has claimed since, and others may have been there in between.
        certain: false,
        since: board.newest_since(since),
        ..queued
    };
    let ours = board.could_take(instance);
    let there = board.bring_message(instance, order, queued, pin, now_ms);
    board.vouch(instance, order);
    if let Some(reservation) = reservation.filter(|_| ours && there) {
        board.reserve(instance, reservation, &[order]);
    }
}

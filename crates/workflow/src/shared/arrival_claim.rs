//! Claiming an instance in the commit that brings it a message, for a dispatcher of this process that waits.

use crate::board::{MessageKind, PendingClaim, Pin, QueuedMessage, Reservation};
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::queued::NewMessage;
use crate::records::head::{Head, InlineMessage};
use crate::send::slot_of;
use crate::shared::batcher::{BatchOutcome, OptionalOp};
use crate::shared::{Affinity, Shared, affinity_of};
use crate::tuning::DEFER_MS;
use duroxide::INITIAL_EXECUTION_ID;
use perennial_store::{Op, Order, Result, Version};
use std::sync::Arc;

/// A message that a commit is about to bring.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The instance that it is for.
    pub instance: Arc<str>,
    /// When it is due.
    pub due_ms: u64,
    /// Its kind.
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
    /// Until the claim is on the board, or has come to nothing, no other commit of this process may make one.
    _pending_claim: PendingClaim,
    snapshot: Snapshot,
    head: Head,
    began_ms: u64,
    until_ms: u64,
}

impl ArrivalClaim {
    /// The claim that a commit which brings this message could make, as an optional operation of it; `None` if no dispatcher
    /// here would work on the instance at once, or one does.
    pub fn of(engine: &Engine, shared: &Shared, arrival: &Arrival) -> Result<Option<(Self, OptionalOp)>> {
        let now_ms = engine.clock.now_ms();
        let Some(snapshot) = claimable(engine, shared, arrival, now_ms) else {
            return Ok(None);
        };
        let pin = Pin::of(snapshot.head().and_then(|head| head.execution.pinned.as_ref()));
        let Some(pending_claim) = engine.board.begin_claim(&arrival.instance, &pin) else {
            return Ok(None);
        };
        let lease = shared.lease(now_ms, shared.turn_lock());
        let until_ms = lease.until_ms;
        let known = snapshot.head.as_ref().map(|(head, _)| head.clone());
        let mut head = known.unwrap_or_else(|| Head::new(INITIAL_EXECUTION_ID, now_ms));
        head.lease = Some(lease);
        head.deliveries += 1;
        head.inline.clone_from(&arrival.inline);
        let draft = head.draft(Head::key(&arrival.instance))?;
        let op = match &snapshot.head {
            None => Op::Create(draft),
            Some((_, version)) => Op::Replace(draft, version.clone()),
        };
        let claim = Self {
            _pending_claim: pending_claim,
            snapshot,
            head,
            began_ms: now_ms,
            until_ms,
        };
        let instead_of = claim.carries_message().then_some(arrival.op);
        Ok(Some((claim, OptionalOp { op, instead_of })))
    }

    /// Whether the claim carries the message too, so that it needs no record.
    fn carries_message(&self) -> bool {
        self.head.inline.is_some()
    }

    /// The commit has made the claim: the reservation of the instance, to be put on the board once its message is there. Keep
    /// `self` until then.
    pub fn made(&self, engine: &Engine, instance: &Arc<str>, version: Version) -> Reservation {
        let snapshot = Arc::new(self.snapshot.with_head(self.head.clone(), version));
        engine
            .cache
            .put(instance, slot_of(instance), Arc::clone(&snapshot), self.began_ms);
        let over = snapshot.head.as_ref().map(|(_, version)| version.clone());
        let before = self.snapshot.head.as_ref().map(|(_, version)| version);
        let (mut board, _) = engine.board.lock();
        board.wrote_head(instance, before, over.as_ref());
        board.end_lapsed(instance);
        drop(board);
        Reservation {
            snapshot,
            until_ms: self.until_ms,
            over,
        }
    }
}

/// The instance as a claim would find it; `None` if the message makes no turn now, or not in this process.
fn claimable(engine: &Engine, shared: &Shared, arrival: &Arrival, now_ms: u64) -> Option<Snapshot> {
    let is_start = arrival.sort == MessageKind::Start;
    let is_result = arrival.sort == MessageKind::Result;
    if is_result && affinity_of(engine, shared, &arrival.instance) == Affinity::Elsewhere {
        return None;
    }
    if shared.turn_lock().is_zero() || arrival.due_ms > now_ms {
        return None;
    }
    let known = engine.cache.peek(&arrival.instance);
    if known.is_none() && !is_start {
        return None;
    }
    let snapshot = known.map_or_else(Snapshot::default, Arc::unwrap_or_clone);
    // Without an instance, only a start makes a turn.
    if snapshot.head().is_none() && !is_start {
        return None;
    }
    let unready = |(head, _): &(Head, Version)| {
        head.parked || head.pending.is_some() || head.deletion.is_some() || head.inline.is_some()
    };
    let is_unready = snapshot.head.as_ref().is_some_and(unready);
    let is_taken = snapshot
        .lease()
        .is_some_and(|lease| lease.owner != shared.owner && lease.until_ms > now_ms);
    (!is_unready && !is_taken).then_some(snapshot)
}

/// The version of an instance's head, as far as this process knows, before it brings a message.
pub fn known_version(engine: &Engine, instance: &str) -> Option<Version> {
    let (_, version) = engine.cache.peek(instance)?.head.clone()?;
    Some(version)
}

/// Publishes a message that was committed in a batch: by an operation of its own, or inside the claim that was its first
/// optional operation. `since` is the head's version before the commit.
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
    // What is gone already is not delivered.
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

/// Publishes a message, and the claim that the same commit made. `since` is the head's version before the commit.
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
    let is_deferred =
        queued.sort == MessageKind::Result && affinity_of(engine, shared, instance) == Affinity::Elsewhere;
    let (mut board, now_ms) = engine.board.lock();
    if is_deferred && reservation.is_none() && board.could_take(instance) {
        // The other process has all of it in memory. If it does not come, the next poll returns the result again.
        board.leave_alone(instance, now_ms + DEFER_MS, now_ms);
        return;
    }
    let queued = QueuedMessage {
        // Its commit may be older than what this process has claimed since, and another process may have written in between.
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

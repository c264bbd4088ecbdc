//! Claiming an instance by the very commit that brings it a message, for a dispatcher of this process that waits.

use crate::board::{Foreseen, Letter, Pin, Reservation, Sort};
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::queued::Post;
use crate::records::head::{Enclosed, Head};
use crate::send::slot_of;
use crate::shared::joint::{Chance, Joined};
use crate::shared::members::PATIENCE_MS;
use crate::shared::{Home, Shared, home_of};
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
    pub sort: Sort,
    /// What the head may hold in place of a record.
    pub enclosed: Option<Arc<Enclosed>>,
    /// Which operation of the commit creates its record.
    pub op: usize,
}

impl From<&Post> for Arrival {
    fn from(post: &Post) -> Self {
        Self {
            instance: Arc::clone(&post.instance),
            due_ms: post.due_ms,
            sort: post.sort,
            enclosed: post.enclosed(),
            op: post.op,
        }
    }
}

/// A claim that a commit may make on the side.
pub struct Foresight {
    /// Until the claim is on the board, or has come to nothing, nobody else here may make one.
    _foreseen: Foreseen,
    snapshot: Snapshot,
    head: Head,
    began_ms: u64,
    until_ms: u64,
}

impl Foresight {
    /// The claim that a commit could make which brings this message, as a chance of it; `None` if nobody here would work on
    /// the instance at once, or somebody does.
    pub fn of(engine: &Engine, post: &Arrival) -> Result<Option<(Self, Chance)>> {
        let Some(shared) = &engine.shared else {
            return Ok(None);
        };
        if post.sort == Sort::Result && home_of(engine, shared, &post.instance) == Home::Elsewhere {
            return Ok(None);
        }
        let now_ms = engine.clock.now_ms();
        let known = engine.cache.peek(&post.instance);
        let lock = shared.turn_lock();
        if lock.is_zero() || post.due_ms > now_ms || (known.is_none() && post.sort != Sort::Start) {
            return Ok(None);
        }
        let snapshot = known.map_or_else(Snapshot::default, Arc::unwrap_or_clone);
        let taken = snapshot
            .lease()
            .is_some_and(|lease| lease.owner != shared.owner && lease.until_ms > now_ms);
        let hidden = |(head, _): &(Head, Version)| {
            head.parked || head.pending.is_some() || head.condemned.is_some() || head.enclosed.is_some()
        };
        let unready = snapshot.head.as_ref().is_some_and(hidden);
        let pin = Pin::of(snapshot.head().and_then(|head| head.execution.pinned.as_ref()));
        // Without an instance, only a start makes a turn.
        let idle = snapshot.head().is_none() && post.sort != Sort::Start;
        if taken || idle || unready {
            return Ok(None);
        }
        let Some(foreseen) = engine.board.foresee(&post.instance, &pin) else {
            return Ok(None);
        };
        let lease = shared.lease(now_ms, lock);
        let until_ms = lease.until_ms;
        let known = snapshot.head.as_ref().map(|(head, _)| head.clone());
        let mut head = known.unwrap_or_else(|| Head::new(INITIAL_EXECUTION_ID, now_ms));
        head.lease = Some(lease);
        head.deliveries += 1;
        head.enclosed.clone_from(&post.enclosed);
        let draft = head.draft(Head::key(&post.instance))?;
        let op = match &snapshot.head {
            None => Op::Create(draft),
            Some((_, version)) => Op::Replace(draft, version.clone()),
        };
        let foresight = Self {
            _foreseen: foreseen,
            snapshot,
            head,
            began_ms: now_ms,
            until_ms,
        };
        let chance = Chance {
            op,
            instead_of: foresight.encloses().then_some(post.op),
        };
        Ok(Some((foresight, chance)))
    }

    /// Whether the claim brings the message too, so that it needs no record.
    fn encloses(&self) -> bool {
        self.head.enclosed.is_some()
    }

    /// The commit made the claim: the instance, to be put on the board once its message is there. Keep the foresight until
    /// then.
    pub fn came_true(&self, engine: &Engine, instance: &Arc<str>, version: Version) -> Reservation {
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

/// Puts a message on the board that a joint commit has brought while the head was at the version `since`: by an operation
/// of its own, or by the claim that was its first chance.
pub fn receive(engine: &Engine, post: &Post, since: Option<Version>, foresight: Option<&Foresight>, joined: &Joined) {
    let taken = joined.taken.first().cloned().flatten();
    let taken = taken.zip(foresight);
    let enclosed = taken.as_ref().filter(|(_, foresight)| foresight.encloses());
    let letter = match enclosed {
        Some((head, _)) => Some(Letter {
            enclosed: true,
            ..post.letter(head.clone())
        }),
        None => joined
            .versions
            .version(post.op)
            .cloned()
            .map(|version| post.letter(version)),
    };
    let reservation = taken.map(|(head, foresight)| foresight.came_true(engine, &post.instance, head));
    // What is gone already needs no delivery.
    if let Some(letter) = letter {
        deliver(engine, &post.instance, post.order, letter, since, reservation);
    }
}

/// Puts a message on the board that a commit has brought while the head was at the version `since`, and the claim that the
/// same commit made.
pub fn deliver(
    engine: &Engine,
    instance: &Arc<str>,
    order: Order,
    letter: Letter,
    since: Option<Version>,
    reservation: Option<Reservation>,
) {
    let pin = engine.known_pin(instance);
    let is_elsewhere = |shared: &Shared| home_of(engine, shared, instance) == Home::Elsewhere;
    let left_alone = letter.sort == Sort::Result && engine.shared.as_ref().is_some_and(is_elsewhere);
    let (mut board, now_ms) = engine.board.lock();
    if left_alone && reservation.is_none() && board.could_take(instance) {
        // The other one has all of it in memory. If it does not come, the store tells of the result again.
        board.leave_alone(instance, now_ms + PATIENCE_MS, now_ms);
        return;
    }
    let letter = Letter {
        // Its commit may be older than what this process has claimed since, and others may have been there in between.
        certain: false,
        since: board.newest_since(since),
        ..letter
    };
    let ours = board.could_take(instance);
    let there = board.bring_letter(instance, order, letter, pin, now_ms);
    board.vouch(instance, order);
    if let Some(reservation) = reservation.filter(|_| ours && there) {
        board.reserve(instance, reservation, &[order]);
    }
}

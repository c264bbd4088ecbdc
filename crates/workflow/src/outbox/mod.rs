//! The outbox: messages to other instances on stores whose commits end at a partition.
//!
//! 1. A turn creates an *intent* in its own commit, `out/<order>` in its own partition.
//! 2. A courier, started when that commit is durable, creates the message in the target's partition, puts it on the board and
//!    removes the intent. The message's id is derived from the intent, so a second delivery finds the first.
//! 3. The turn that consumes the message leaves a *tombstone* under the same id, unless its process knows that the intent is
//!    gone and that no other process can be delivering it: a second delivery must find something.
//! 4. A tombstone is removed when it has expired and its intent is gone.
//!
//! If the process dies in between, the process that finds the intent or the tombstone in the lane `chores` continues.
//! Messages of one sender to one target are delivered one after the other, in their order.

mod consume;
mod courier;
mod deliver;
mod intent;
mod keyed_mutex;
mod origin;

pub use consume::{await_intents, consumption, removal_op, sweep};
pub use courier::{dispatch, flush};
pub use intent::Intent;
pub use keyed_mutex::KeyedMutex;
pub use origin::{Fate, Origin, known, origin};

use crate::engine::Engine;
use crate::queued::NewMessage;
use crate::records::chore::{Topic, topic_of};
use crate::records::intent::Body;
use crate::records::{message, partition};
use duroxide::providers::WorkItem;
use parking_lot::Mutex;
use perennial_store::{Op, Partition, Record, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// Intents on their way.
#[derive(Default)]
pub struct Outbox {
    /// What couriers still have to deliver, by sender, in order.
    lanes: Mutex<HashMap<Partition, VecDeque<Intent>>>,
    /// Lets one task at a time deliver for a sender.
    keyed_mutex: KeyedMutex,
    /// How many couriers are running.
    couriers: watch::Sender<usize>,
    /// Whether delivered messages must be put on the board.
    open: AtomicBool,
}

impl Outbox {
    /// From now on delivered messages are put on the board, which is about to be filled.
    pub fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Whether delivered messages are put on the board.
    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether a courier is running.
    pub fn is_busy(&self) -> bool {
        *self.couriers.borrow() > 0
    }

    /// Waits until no courier is running.
    pub async fn idle(&self) {
        // The sender is borrowed, so it cannot go away meanwhile.
        self.couriers.subscribe().wait_for(|couriers| *couriers == 0).await.ok();
    }
}

/// Whether messages to other instances need an outbox on the engine's store.
pub fn is_needed(engine: &Engine) -> bool {
    engine.store.limits().partitions_per_commit < 2
}

/// How a message leaves its sender.
pub enum Outgoing {
    /// It is written with the sender's other changes.
    Message(NewMessage),
    /// Only the intent to send it is.
    Intent(Box<Intent>),
}

/// Prepares a message that operation `op` of a commit of `sender` sends, and that operation; `None` for items that are not
/// messages.
pub fn outgoing(
    engine: &Engine,
    sender: &Partition,
    item: WorkItem,
    due_ms: u64,
    op: usize,
) -> Result<Option<(Outgoing, Op)>> {
    let target = message::target(&item).filter(|target| is_needed(engine) && partition(target) != *sender);
    let Some(target) = target.map(str::to_string) else {
        let direct = NewMessage::new(engine, item, due_ms, op)?;
        return Ok(direct.map(|(new_message, create)| (Outgoing::Message(new_message), create)));
    };
    let body = Body {
        item,
        target,
        due_ms,
        order: engine.next_order().0,
    };
    let (intent, create) = Intent::new(sender, body, op, engine.clock.now_ms())?;
    Ok(Some((Outgoing::Intent(Box::new(intent)), create)))
}

/// Does a due chore of the outbox: delivers an intent that was left behind, or removes a tombstone.
pub async fn chore(engine: &Arc<Engine>, record: Record) -> Result<()> {
    match topic_of(&record) {
        Some(Topic::Outbox) => flush(engine, &record.key.partition).await.map(|_| ()),
        Some(Topic::Tombs) => sweep(engine, record).await,
        _ => Ok(()),
    }
}

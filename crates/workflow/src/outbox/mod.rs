//! The outbox: messages to other instances on stores whose commits end at a partition.
//!
//! 1. A turn creates an *intent* in its own commit, `out/<order>` in its own partition.
//! 2. A courier, started when that commit is durable, creates the message in the target's partition, tells the board and
//!    removes the intent. The message's id is made of the intent, so a second delivery meets the first.
//! 3. Who consumes the message leaves a *tombstone* under the same id, unless it knows that the intent is gone and that
//!    nobody else can be delivering it: then a message that is delivered again would be a new one.
//! 4. A tombstone goes when its time has come and its intent is gone.
//!
//! If the process dies in between, whoever finds the intent or the tombstone in the lane `chores` goes on from there.
//! Messages of one sender to one target are delivered one after the other, in their order.

mod consume;
mod courier;
mod deliver;
mod keyed_mutex;
mod origin;

pub use consume::{await_intents, consumption, removal_op, sweep};
pub use courier::{dispatch, flush};
pub use deliver::Intent;
pub use keyed_mutex::KeyedMutex;
pub use origin::{Fate, Origin, known, origin};

use crate::chores::{Topic, topic_of};
use crate::engine::Engine;
use crate::queued::NewMessage;
use crate::records::envelope::Envelope;
use crate::records::{decode_body, intent};
use parking_lot::Mutex;
use perennial_store::{Op, Partition, Record, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// Intents on their way.
#[derive(Default)]
pub struct Outbox {
    /// What couriers have still to deliver, by sender, in order.
    lanes: Mutex<HashMap<Partition, VecDeque<Intent>>>,
    /// Who delivers for a sender, one at a time.
    keyed_mutex: KeyedMutex,
    /// How many couriers are on their way.
    couriers: watch::Sender<usize>,
    /// Whether the board has been filled and must know of what is delivered.
    open: AtomicBool,
}

impl Outbox {
    /// The board is about to be filled: what is delivered from now on is posted there.
    pub fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Whether what is delivered is posted on the board.
    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether a courier is on its way.
    pub fn is_busy(&self) -> bool {
        *self.couriers.borrow() > 0
    }

    /// Waits until every courier has come back.
    pub async fn idle(&self) {
        // The sender is borrowed, so it cannot go away meanwhile.
        self.couriers.subscribe().wait_for(|couriers| *couriers == 0).await.ok();
    }
}

/// Whether messages to other instances need an outbox on the engine's store.
pub fn is_needed(engine: &Engine) -> bool {
    engine.store.limits().partitions_per_commit < 2
}

/// The intent that a message must become which `sender` is about to send in one commit with other changes of its own;
/// `None` if it can be sent as it is.
pub fn detour(engine: &Engine, sender: &Partition, new_message: &NewMessage, create: &Op) -> Option<(Intent, Op)> {
    let draft = create.draft()?;
    if !is_needed(engine) || draft.key.partition == *sender {
        return None;
    }
    let Envelope { item, .. } = decode_body(&draft.key, &draft.body).ok()?;
    let body = intent::Body {
        item,
        target: new_message.instance.to_string(),
        due_ms: new_message.due_ms,
        order: new_message.order.0,
    };
    Intent::new(sender, body, new_message.op, engine.clock.now_ms()).ok()
}

/// Does a due chore of the outbox: delivers an intent that was left behind, or removes a tombstone.
pub async fn chore(engine: &Arc<Engine>, record: Record) -> Result<()> {
    match topic_of(&record) {
        Some(Topic::Outbox) => flush(engine, &record.key.partition).await.map(|_| ()),
        Some(Topic::Tombs) => sweep(engine, record).await,
        _ => Ok(()),
    }
}

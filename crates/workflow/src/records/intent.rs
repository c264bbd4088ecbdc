//! Intents: messages to other instances that are not sent yet, in the sender's partition.

use super::chore::{self, Topic};
use super::envelope::IntentRef;
use super::{decode, encode};
use crate::tuning::INTENT_TAKE_OVER_MS;
use duroxide::providers::WorkItem;
use perennial_store::{Draft, Key, Order, Partition, Record, RecordId, Result};
use serde::{Deserialize, Serialize};

/// What an intent says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Body {
    /// The message.
    pub item: WorkItem,
    /// The instance that it is for.
    pub target: String,
    /// When it becomes ready there.
    pub due_ms: u64,
    /// The order that it arrives with.
    pub order: u64,
}

#[derive(Serialize)]
struct Borrowed<'a> {
    item: &'a WorkItem,
    target: &'a str,
    due_ms: u64,
    order: u64,
}

/// The start of the ids of all intents.
pub fn root() -> RecordId {
    RecordId::of("out")
}

/// Where the intent with this order is.
pub fn key(sender: &Partition, order: Order) -> Key {
    Key::new(sender.clone(), root().number(order.0))
}

/// The reference to it in its message.
pub fn from(sender: &Partition, order: Order) -> IntentRef {
    IntentRef::of(&key(sender, order))
}

impl Body {
    /// The record to write.
    pub fn draft(&self, sender: &Partition, now_ms: u64) -> Result<Draft> {
        let body = encode(&Borrowed {
            item: &self.item,
            target: &self.target,
            due_ms: self.due_ms,
            order: self.order,
        })?;
        let order = Order(self.order);
        let place = chore::place(Topic::Outbox, order, now_ms + INTENT_TAKE_OVER_MS);
        Ok(Draft::new(key(sender, order), body).placed(place))
    }

    /// Opens a record.
    pub fn open(record: &Record) -> Result<Self> {
        decode(record)
    }
}

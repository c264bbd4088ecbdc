//! Tombstones: what is left of a message from an outbox, so that its intent is not delivered twice.

use super::chore::{self, Topic};
use super::envelope::IntentRef;
use super::{decode, encode};
use crate::tuning::TOMBSTONE_MS;
use perennial_store::{Draft, Key, Order, Record, Result};
use serde::{Deserialize, Serialize};

/// What is left of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tomb {
    /// The intent that the message came from.
    pub from: IntentRef,
}

impl Tomb {
    /// The record to write in the place of the message at `key`.
    pub fn draft(&self, key: Key, order: Order, now_ms: u64) -> Result<Draft> {
        let place = chore::place(Topic::Tombs, order, now_ms + TOMBSTONE_MS);
        Ok(Draft::new(key, encode(self)?).placed(place))
    }

    /// Opens a record.
    pub fn open(record: &Record) -> Result<Self> {
        decode(record)
    }
}

/// Whether a record is a tombstone, also if it was read without its body.
pub fn is_tomb(record: &Record) -> bool {
    chore::topic_of(record) == Some(Topic::Tombs)
}

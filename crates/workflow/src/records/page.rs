//! Pages: history, a turn at a time.

use super::encode;
use duroxide::Event;
use perennial_store::{Draft, Key, Partition, RecordId, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The events that one turn added to the history of one execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// The events, as the runtime gave them.
    pub events: Vec<Event>,
    /// The process that committed the turn, on a shared store: otherwise two processes that made the same turn would write equal records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
}

impl Page {
    /// The start of the ids of all pages.
    pub fn root() -> RecordId {
        RecordId::of("page")
    }

    /// The start of the ids of all pages of an execution.
    pub fn of_execution(execution: u64) -> RecordId {
        Self::root().number(execution)
    }

    /// Where a turn's page is.
    pub fn key(partition: &Partition, execution: u64, turn: u64) -> Key {
        Key::new(partition.clone(), Self::of_execution(execution).number(turn))
    }

    /// The turn whose page is at `key`.
    pub fn turn_of(key: &Key) -> Option<u64> {
        let turn = key.id.below(&Self::root())?.split('/').nth(1)?;
        u64::from_str_radix(turn, 16).ok()
    }

    /// The record to write.
    pub fn draft(&self, key: Key) -> Result<Draft> {
        Ok(Draft::new(key, encode(self)?))
    }
}

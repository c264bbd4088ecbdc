//! Members: the processes that work on a shared store, and what they serve.

use super::chore::{self, Topic};
use super::encode;
use perennial_store::{Draft, Key, Order, Partition, RecordId, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

const PREFIX: &str = "mem:";

/// A process that works on the store, for as long as it keeps rewriting this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub process: Arc<str>,
    /// When it wrote this, by its own clock.
    pub said_ms: u64,
    /// What it serves.
    pub serves: Serves,
}

/// What a process serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serves {
    /// All activities, whatever their tags.
    #[serde(default)]
    pub any_work: bool,
    /// These topics of the queue.
    #[serde(default)]
    pub topics: BTreeSet<Arc<str>>,
}

impl Serves {
    /// Whether it serves this topic.
    pub fn takes(&self, topic: &str) -> bool {
        self.topics.contains(topic) || (self.any_work && topic != super::lanes::TURN)
    }
}

impl Member {
    /// Where a process announces itself.
    pub fn key(process: &str) -> Key {
        Key::new(Partition::new(format!("{PREFIX}{process}")), RecordId::of("member"))
    }

    /// The record to write. It is always a due chore: every process that queries for those sees it.
    pub fn draft(&self, order: Order) -> Result<Draft> {
        let place = chore::place(Topic::Members, order, 0);
        Ok(Draft::new(Self::key(&self.process), encode(self)?).placed(place))
    }
}

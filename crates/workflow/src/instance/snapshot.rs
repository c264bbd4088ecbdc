//! An instance at one moment.

use super::History;
use crate::records::{custom_status::CustomStatus, head::Head, kv::Entries};
use perennial_store::Version;
use std::sync::Arc;

/// Everything of an instance but its queues, as of one version of its head. Never changes: a turn makes a new one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The head and its version; `None` if no turn was ever committed.
    pub head: Option<(Head, Version)>,
    /// The history of the current execution.
    pub history: History,
    /// The key-value store.
    pub kv: Arc<Entries>,
    /// The custom status, if it was ever set.
    pub custom: Option<Arc<CustomStatus>>,
}

impl Snapshot {
    /// The head, if there is one.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref().map(|(head, _)| head)
    }

    /// Roughly how much memory it takes. Decoded events take about three times their JSON.
    pub fn weight(&self) -> u64 {
        let history = self.head().map_or(0, |head| head.execution.bytes * 3);
        let custom = self
            .custom
            .as_ref()
            .and_then(|custom| custom.status.as_ref())
            .map_or(0, String::len);
        512 + history + (self.kv.weight() + custom) as u64
    }
}

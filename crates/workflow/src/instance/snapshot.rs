//! An instance at one moment.

use super::History;
use crate::records::{
    custom_status::CustomStatus,
    head::{Head, Lease},
    kv::Entries,
};
use duroxide::providers::ProviderError;
use duroxide::{Event, INITIAL_EXECUTION_ID, SystemStats};
use perennial_store::Version;
use std::collections::HashMap;
use std::sync::Arc;

/// Everything of an instance but its queues, as of one version of its head. Immutable: a turn makes a new one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The head and its version; `None` if no turn was ever committed and the first one was never claimed.
    pub head: Option<(Head, Version)>,
    /// The history of the current execution.
    pub history: History,
    /// The key-value store.
    pub kv: Arc<Entries>,
    /// The custom status, if it was ever set.
    pub custom: Option<Arc<CustomStatus>>,
}

impl Snapshot {
    /// The head of an instance that has had a turn.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref().map(|(head, _)| head).filter(|head| !head.is_blank())
    }

    /// The lease on the instance, on a shared store.
    pub fn lease(&self) -> Option<&Lease> {
        self.head.as_ref()?.0.lease.as_ref()
    }

    /// Whether what was read after the head is complete, whatever was written meanwhile: there is nothing but history, and
    /// that is as long as the head says. Pages do not change, and those of later turns are left out.
    pub fn is_of_one_moment(&self) -> bool {
        self.head().is_none_or(|head| {
            let is_all = self.history.iter().count() as u64 == head.execution.events;
            head.kv_keys == 0 && head.custom_version == 0 && is_all
        })
    }

    /// The events of the current execution.
    pub fn events(&self, operation: &'static str) -> Result<Vec<Event>, ProviderError> {
        match self.history.damage() {
            Some(why) => Err(ProviderError::permanent(operation, why)),
            None => Ok(self.history.events()),
        }
    }

    /// The number of the current execution.
    pub fn execution_id(&self) -> u64 {
        self.head().map_or(INITIAL_EXECUTION_ID, |head| head.execution.id)
    }

    /// The custom status and its version, if that is newer than this one.
    pub fn custom_status_after(&self, version: u64) -> Option<(Option<String>, u64)> {
        let custom = self.custom.as_ref().filter(|custom| custom.version > version)?;
        Some((custom.status.clone(), custom.version))
    }

    /// All values of the key-value store.
    pub fn values(&self) -> HashMap<String, String> {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        self.kv.newest().map(owned).collect()
    }

    /// Sizes and counts; `None` if there is no such instance.
    pub fn stats(&self) -> Option<SystemStats> {
        let execution = &self.head()?.execution;
        Some(SystemStats {
            history_event_count: execution.events,
            history_size_bytes: execution.bytes,
            queue_pending_count: self.history.carried_forward(),
            kv_user_key_count: self.kv.newest().count() as u64,
            kv_total_value_bytes: self.kv.newest().map(|(_, value)| value.len() as u64).sum(),
        })
    }

    /// The same instance with another head, which differs only in its lease.
    #[must_use]
    pub fn with_head(&self, head: Head, version: Version) -> Self {
        Self {
            head: Some((head, version)),
            ..self.clone()
        }
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

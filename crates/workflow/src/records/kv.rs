//! The key-value store of an instance.
//!
//! A workflow sees what earlier executions left; what it writes itself becomes final when its execution ends.
//! Clients see the newest value at once. Each key keeps both in one record: the newest value with the epoch in
//! which it was written, and the final value before it. Ending an execution only counts the epoch up in the
//! head: every newest value of an older epoch is final.

use super::encode;
use duroxide::providers::KvEntry;
use perennial_store::{Draft, Key, Partition, RecordId, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// A value and when it was set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The text.
    pub value: String,
    /// When the workflow set it.
    pub updated_ms: u64,
}

/// The record of one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The epoch in which `newest` was written.
    pub epoch: u64,
    /// The newest value; `None` if it was cleared.
    pub newest: Option<Value>,
    /// The final value before this epoch.
    pub before: Option<Value>,
}

/// All keys of an instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries(pub BTreeMap<String, Entry>);

impl Entry {
    fn of_epoch(&self, epoch: u64) -> Option<&Value> {
        if self.epoch < epoch {
            self.newest.as_ref()
        } else {
            self.before.as_ref()
        }
    }

    fn is_dead(&self) -> bool {
        self.newest.is_none() && self.before.is_none()
    }
}

impl Entries {
    /// The start of the ids of all keys.
    pub fn root() -> RecordId {
        RecordId::of("kv")
    }

    /// Where a key is.
    pub fn key(partition: &Partition, key: &str) -> Key {
        Key::new(partition.clone(), Self::root().text(key))
    }

    /// The record of a key to write; `None` if the key is gone and its record should go too.
    pub fn draft(&self, partition: &Partition, key: &str) -> Result<Option<Draft>> {
        match self.0.get(key) {
            None => Ok(None),
            Some(entry) => Ok(Some(Draft::new(Self::key(partition, key), encode(entry)?))),
        }
    }

    /// Sets or clears a key in an epoch.
    pub fn write(&mut self, key: &str, newest: Option<Value>, epoch: u64) {
        let before = match self.0.get(key) {
            Some(entry) => entry.of_epoch(epoch).cloned(),
            None if newest.is_none() => return,
            None => None,
        };
        let entry = Entry { epoch, newest, before };
        if entry.is_dead() {
            self.0.remove(key);
        } else {
            self.0.insert(key.to_string(), entry);
        }
    }

    /// Forgets keys whose clearing has become final; returns them.
    pub fn promote(&mut self) -> Vec<String> {
        let gone: Vec<String> = self
            .0
            .iter()
            .filter(|(_, entry)| entry.newest.is_none())
            .map(|(key, _)| key.clone())
            .collect();
        for key in &gone {
            self.0.remove(key);
        }
        gone
    }

    /// What a workflow sees in an epoch.
    pub fn snapshot(&self, epoch: u64) -> HashMap<String, KvEntry> {
        let visible = |(key, entry): (&String, &Entry)| {
            let value = entry.of_epoch(epoch)?;
            let entry = KvEntry {
                value: value.value.clone(),
                last_updated_at_ms: value.updated_ms,
            };
            Some((key.clone(), entry))
        };
        self.0.iter().filter_map(visible).collect()
    }

    /// The newest value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.newest.as_ref().map(|value| value.value.as_str())
    }

    /// The newest values of all keys.
    pub fn newest(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(|(key, entry)| Some((key.as_str(), entry.newest.as_ref()?.value.as_str())))
    }

    /// Roughly how much memory all of it takes.
    pub fn weight(&self) -> usize {
        let size = |value: &Option<Value>| value.as_ref().map_or(0, |value| value.value.len() + 32);
        self.0
            .iter()
            .map(|(key, entry)| key.len() + 64 + size(&entry.newest) + size(&entry.before))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<Value> {
        Some(Value {
            value: text.to_string(),
            updated_ms: 1,
        })
    }

    #[test]
    fn a_workflow_sees_only_what_earlier_epochs_left() {
        let mut entries = Entries::default();
        entries.write("a", value("1"), 0);
        assert!(entries.snapshot(0).is_empty());
        assert_eq!(entries.get("a"), Some("1"));
        entries.write("a", value("2"), 1);
        assert_eq!(entries.snapshot(1)["a"].value, "1");
        assert_eq!(entries.snapshot(2)["a"].value, "2");
    }

    #[test]
    fn a_key_that_was_cleared_before_it_was_final_leaves_nothing() {
        let mut entries = Entries::default();
        entries.write("a", value("1"), 0);
        entries.write("a", None, 0);
        assert!(entries.0.is_empty());
        entries.write("never there", None, 0);
        assert!(entries.0.is_empty());
    }

    #[test]
    fn a_cleared_key_is_hidden_from_clients_at_once_and_gone_when_settled() {
        let mut entries = Entries::default();
        entries.write("a", value("1"), 0);
        entries.write("a", None, 1);
        assert_eq!(entries.get("a"), None);
        assert_eq!(entries.snapshot(1)["a"].value, "1");
        assert_eq!(entries.promote(), ["a"]);
        assert!(entries.snapshot(2).is_empty());
    }
}

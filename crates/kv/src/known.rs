//! What is known of records without reading them.

use crate::{Table, keys, value};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;

/// What a commit must know of an existing record.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// The table that holds it.
    pub(crate) table: Table,
    /// Its version; `None` if the value cannot be decoded.
    pub(crate) version: Option<u64>,
    /// Whether the place where it would be cannot be read, so that its existence is unknown.
    pub(crate) is_doubtful: bool,
    /// Its keys in the index, to be deleted when it changes.
    pub(crate) index: Vec<Bytes>,
}

impl Known {
    /// What is known of a record that cannot be read. It can be overwritten and removed.
    pub(crate) fn damaged(table: Table, is_doubtful: bool) -> Self {
        Self {
            table,
            version: None,
            is_doubtful,
            index: Vec::new(),
        }
    }

    /// What the stored value of a record says.
    pub(crate) fn of(table: Table, key: &Bytes, value: Bytes) -> Self {
        if table == Table::Records {
            return Self {
                version: value::version(&value),
                ..Self::damaged(table, false)
            };
        }
        match value::decode(value) {
            Ok(stored) => Self {
                table,
                version: Some(stored.version),
                is_doubtful: false,
                index: stored
                    .listing
                    .map_or_else(Vec::new, |listing| keys::index(key, &listing, false)),
            },
            Err(_) => Self::damaged(table, false),
        }
    }
}

/// The records written most recently, a bounded number: two generations, of which the older is dropped when
/// the younger is full.
pub(crate) struct Recent {
    capacity: usize,
    young: HashMap<Bytes, Arc<Known>>,
    old: HashMap<Bytes, Arc<Known>>,
}

impl Recent {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity / 2,
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    pub(crate) fn get(&self, key: &Bytes) -> Option<&Arc<Known>> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(crate) fn insert(&mut self, key: Bytes, known: Arc<Known>) {
        if self.capacity == 0 {
            return;
        }
        if self.young.len() >= self.capacity {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, known);
    }

    pub(crate) fn remove(&mut self, key: &Bytes) {
        for generation in [&mut self.young, &mut self.old] {
            // Looking for a key in an empty map would still hash it.
            if !generation.is_empty() {
                generation.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(version: u64) -> Arc<Known> {
        Arc::new(Known {
            table: Table::Records,
            version: Some(version),
            is_doubtful: false,
            index: Vec::new(),
        })
    }

    #[test]
    fn it_remembers_the_newest_and_stays_small() {
        let mut recent = Recent::new(8);
        for n in 0..100_u64 {
            recent.insert(Bytes::from(n.to_string()), known(n));
            assert!(recent.young.len() + recent.old.len() <= 8);
        }
        assert_eq!(recent.get(&Bytes::from("99")).unwrap().version, Some(99));
        assert!(recent.get(&Bytes::from("0")).is_none());
        recent.insert(Bytes::from("99"), known(100));
        assert_eq!(recent.get(&Bytes::from("99")).unwrap().version, Some(100));
        recent.remove(&Bytes::from("99"));
        assert!(recent.get(&Bytes::from("99")).is_none());
    }
}

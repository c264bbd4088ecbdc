//! What is known of records without reading them.

use crate::Table;
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

/// The records written or checked most recently, a bounded number: two generations, of which the older is dropped when
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
        self.young.remove(key);
        self.old.remove(key);
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

//! The effects that activities really had.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A list of what was done, which outlives the processes that do it.
#[derive(Clone, Debug, Default)]
pub struct Effects(Arc<Mutex<Vec<String>>>);

impl Effects {
    /// Something was done.
    pub fn add(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    /// How often each effect happened whose name begins with this.
    pub fn of(&self, prefix: &str) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for what in self.0.lock().iter().filter(|what| what.starts_with(prefix)) {
            *counts.entry(what.clone()).or_default() += 1;
        }
        counts
    }
}

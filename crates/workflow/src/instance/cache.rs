//! The memory of recent instances, bounded by bytes.

use super::Snapshot;
use crate::meters::Meters;
use parking_lot::Mutex;
use perennial_store::{SLOTS, Slot};
use quick_cache::{Weighter, sync};
use std::sync::Arc;

#[derive(Clone)]
struct ByBytes;

impl Weighter<Arc<str>, Arc<Snapshot>> for ByBytes {
    fn weight(&self, instance: &Arc<str>, snapshot: &Arc<Snapshot>) -> u64 {
        instance.len() as u64 + snapshot.weight()
    }
}

/// Snapshots of recent instances. On a store that is ours alone, what is here is the truth:
/// every commit puts its outcome in, and a reader that loaded something older meanwhile may not.
pub struct Cache {
    entries: sync::Cache<Arc<str>, Arc<Snapshot>, ByBytes>,
    /// Counts commits per slot, so that a slow reader notices that it was overtaken.
    commits: Mutex<[u64; SLOTS]>,
    meters: Arc<Meters>,
}

/// Says when a load began.
#[derive(Clone, Copy)]
pub struct Began(u64);

impl Cache {
    /// A cache of about so many bytes.
    pub fn new(capacity_bytes: u64, meters: Arc<Meters>) -> Self {
        let expected = usize::try_from(capacity_bytes / 4096)
            .unwrap_or(usize::MAX)
            .clamp(16, 65_536);
        Self {
            entries: sync::Cache::with_weighter(expected, capacity_bytes, ByBytes),
            commits: Mutex::new([0; SLOTS]),
            meters,
        }
    }

    /// The newest snapshot, if it is here.
    pub fn get(&self, instance: &str) -> Option<Arc<Snapshot>> {
        let found = self.entries.get(instance);
        match found {
            Some(_) => self.meters.cache_hits.increment(1),
            None => self.meters.cache_misses.increment(1),
        }
        found
    }

    /// The newest snapshot, if it is here, without any effect on what is kept or counted.
    pub fn peek(&self, instance: &str) -> Option<Arc<Snapshot>> {
        self.entries.peek(instance)
    }

    /// Call before reading from the store.
    pub fn begin(&self, slot: Slot) -> Began {
        Began(
            self.commits
                .lock()
                .get(usize::from(slot.0))
                .copied()
                .unwrap_or_default(),
        )
    }

    /// Keeps what was read, unless a commit came in between.
    pub fn fill(&self, instance: &Arc<str>, slot: Slot, began: Began, snapshot: Arc<Snapshot>) {
        let commits = self.commits.lock();
        if commits.get(usize::from(slot.0)) == Some(&began.0) {
            self.entries.insert(Arc::clone(instance), snapshot);
        }
    }

    /// Keeps what a commit made.
    pub fn put(&self, instance: &Arc<str>, slot: Slot, snapshot: Arc<Snapshot>) {
        let mut commits = self.commits.lock();
        if let Some(count) = commits.get_mut(usize::from(slot.0)) {
            *count += 1;
        }
        self.entries.insert(Arc::clone(instance), snapshot);
    }

    /// Forgets an instance, so that the next reader loads it.
    pub fn forget(&self, instance: &str, slot: Slot) {
        let mut commits = self.commits.lock();
        if let Some(count) = commits.get_mut(usize::from(slot.0)) {
            *count += 1;
        }
        self.entries.remove(instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_was_overtaken_by_a_commit_does_not_fill_the_cache() {
        let cache = Cache::new(1 << 20, Arc::new(Meters::new()));
        let (instance, slot) = (Arc::from("a"), Slot(7));
        let began = cache.begin(slot);
        cache.put(&instance, slot, Arc::new(Snapshot::default()));
        cache.forget("a", slot);
        cache.fill(&instance, slot, began, Arc::new(Snapshot::default()));
        assert!(cache.get("a").is_none());
        cache.fill(&instance, slot, cache.begin(slot), Arc::new(Snapshot::default()));
        assert!(cache.get("a").is_some());
    }
}

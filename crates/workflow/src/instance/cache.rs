//! The cache of recent instances, bounded by bytes.

use super::{Snapshot, Watchers};
use crate::meters::Meters;
use crate::records::head::Head;
use crate::tuning::{TRUST_CONFIRMED_MS, TRUST_OWN_MS};
use parking_lot::Mutex;
use perennial_store::{SLOTS, Slot};
use quick_cache::{Weighter, sync};
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone)]
struct ByBytes;

impl Weighter<Arc<str>, Entry> for ByBytes {
    fn weight(&self, instance: &Arc<str>, entry: &Entry) -> u64 {
        instance.len() as u64 + entry.snapshot.weight()
    }
}

/// When a cached snapshot counts as the newest.
#[derive(Clone, Copy, Debug)]
pub enum Trust {
    /// Always: no other process can change it.
    Always,
    /// If this process wrote it, or the store confirmed it, shortly before this time.
    At(u64),
}

/// How long a snapshot that was read counts as the newest.
fn trusted_for_ms(involved: bool) -> u64 {
    if involved { TRUST_OWN_MS } else { TRUST_CONFIRMED_MS }
}

#[derive(Clone)]
struct Entry {
    snapshot: Arc<Snapshot>,
    /// When it is trusted without being confirmed. Also after a time, not only before one: a clock that is put back must not
    /// make what is old the newest.
    trusted_ms: Range<u64>,
}

/// Snapshots of recent instances. On a store that belongs to this process, the cache is the truth: every commit puts its
/// result in, and a reader that loaded something older meanwhile may not. On a shared store, a snapshot is what was true at the
/// version of its head.
pub struct Cache {
    entries: sync::Cache<Arc<str>, Entry, ByBytes>,
    /// Counts commits per slot, so that a slow reader notices that a commit came in between.
    commits: Mutex<[u64; SLOTS]>,
    meters: Arc<Meters>,
    /// Callers that wait for instances to end.
    pub watchers: Arc<Watchers>,
}

/// When a load began.
#[derive(Clone, Copy)]
pub struct Began(u64);

impl Cache {
    /// A cache of about this many bytes.
    pub fn new(capacity_bytes: u64, meters: Arc<Meters>) -> Self {
        let expected = usize::try_from(capacity_bytes / 4096)
            .unwrap_or(usize::MAX)
            .clamp(16, 65_536);
        Self {
            entries: sync::Cache::with_weighter(expected, capacity_bytes, ByBytes),
            commits: Mutex::new([0; SLOTS]),
            meters,
            watchers: Arc::default(),
        }
    }

    /// The newest snapshot, if it is cached and can be trusted.
    pub fn get(&self, instance: &str, trust: Trust) -> Option<Arc<Snapshot>> {
        let trusted = |entry: &Entry| match trust {
            Trust::Always => true,
            Trust::At(now_ms) => entry.trusted_ms.contains(&now_ms),
        };
        let found = self.entries.get(instance).filter(trusted).map(|entry| entry.snapshot);
        match found {
            Some(_) => self.meters.cache_hits.increment(1),
            None => self.meters.cache_misses.increment(1),
        }
        found
    }

    /// The cached snapshot, without any effect on what is kept or counted.
    pub fn peek(&self, instance: &str) -> Option<Arc<Snapshot>> {
        self.entries.peek(instance).map(|entry| entry.snapshot)
    }

    /// The store has confirmed that the cached snapshot is the newest. While this process is `involved` in what the instance
    /// does, that counts as much as a write of its own.
    pub fn confirm(&self, instance: &Arc<str>, now_ms: u64, involved: bool) {
        let _commits = self.commits.lock();
        if let Some(entry) = self.entries.peek(instance) {
            let until_ms = now_ms + trusted_for_ms(involved);
            let trusted_ms = match entry.trusted_ms.contains(&now_ms) {
                true => entry.trusted_ms.start..entry.trusted_ms.end.max(until_ms),
                false => now_ms..until_ms,
            };
            self.entries.insert(Arc::clone(instance), Entry { trusted_ms, ..entry });
        }
    }

    /// The cached snapshot must be confirmed before it is trusted.
    pub fn doubt(&self, instance: &Arc<str>) {
        let _commits = self.commits.lock();
        if let Some(entry) = self.entries.peek(instance) {
            let trusted_ms = 0..0;
            self.entries.insert(Arc::clone(instance), Entry { trusted_ms, ..entry });
        }
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

    /// Keeps what was read, unless a commit came in between, and returns the snapshot to believe. If one did, what was read may
    /// be older than the cached snapshot, or newer, by a commit that has not returned yet; and a reader that has seen the newer
    /// one must not see the older one next. So where no other process writes, the cached snapshot is the truth; elsewhere it is
    /// not trusted any more. `involved` is as in [`confirm`](Self::confirm).
    pub fn fill(
        &self,
        instance: &Arc<str>,
        slot: Slot,
        began: Began,
        snapshot: Arc<Snapshot>,
        trust: Trust,
        involved: bool,
    ) -> Arc<Snapshot> {
        let commits = self.commits.lock();
        let overtaken = commits.get(usize::from(slot.0)) != Some(&began.0);
        let there = self.entries.peek(instance).filter(|_| overtaken);
        let entry = match (there, trust) {
            (Some(entry), Trust::Always) => return entry.snapshot,
            (Some(entry), Trust::At(_)) => Entry {
                trusted_ms: 0..0,
                ..entry
            },
            (None, _) if overtaken => return snapshot,
            (None, trust) => Entry {
                snapshot: Arc::clone(&snapshot),
                trusted_ms: match trust {
                    Trust::Always => 0..u64::MAX,
                    Trust::At(now_ms) => now_ms..now_ms + trusted_for_ms(involved),
                },
            },
        };
        self.entries.insert(Arc::clone(instance), entry);
        snapshot
    }

    /// Keeps the result of a commit that began at `began_ms`: it may have returned long after another process wrote over it.
    pub fn put(&self, instance: &Arc<str>, slot: Slot, snapshot: Arc<Snapshot>, began_ms: u64) {
        let mut commits = self.commits.lock();
        if let Some(count) = commits.get_mut(usize::from(slot.0)) {
            *count += 1;
        }
        let trusted_ms = began_ms..began_ms + TRUST_OWN_MS;
        let has_ended = snapshot.head().is_some_and(Head::is_terminal);
        self.entries
            .insert(Arc::clone(instance), Entry { snapshot, trusted_ms });
        drop(commits);
        if has_ended {
            self.watchers.wake(instance);
        }
    }

    /// Forgets an instance, so that the next reader loads it.
    pub fn forget(&self, instance: &str, slot: Slot) {
        let mut commits = self.commits.lock();
        if let Some(count) = commits.get_mut(usize::from(slot.0)) {
            *count += 1;
        }
        self.entries.remove(instance);
        drop(commits);
        self.watchers.wake(instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot(7);

    /// An empty cache, and the name of an instance.
    fn cache() -> (Cache, Arc<str>) {
        (Cache::new(1 << 20, Arc::new(Meters::new())), Arc::from("a"))
    }

    /// Fills the cache with what was read since `began`; returns the snapshot to believe.
    fn read(cache: &Cache, instance: &Arc<str>, began: Began, trust: Trust) -> Arc<Snapshot> {
        cache.fill(instance, SLOT, began, Arc::new(Snapshot::default()), trust, false)
    }

    #[test]
    fn a_reader_that_was_overtaken_by_a_commit_does_not_fill_the_cache() {
        let (cache, instance) = cache();
        let began = cache.begin(SLOT);
        cache.put(&instance, SLOT, Arc::new(Snapshot::default()), 1);
        cache.forget("a", SLOT);
        read(&cache, &instance, began, Trust::Always);
        assert!(cache.get("a", Trust::Always).is_none());
        let began = cache.begin(SLOT);
        read(&cache, &instance, began, Trust::Always);
        assert!(cache.get("a", Trust::Always).is_some());
    }

    #[test]
    fn a_commit_during_a_read_leaves_nothing_trusted_where_other_processes_write() {
        let (cache, instance) = cache();
        let began = cache.begin(SLOT);
        cache.put(&instance, SLOT, Arc::new(Snapshot::default()), 10);
        read(&cache, &instance, began, Trust::At(11));
        assert!(cache.get("a", Trust::At(11)).is_none());
        assert!(cache.get("a", Trust::Always).is_some());
    }

    #[test]
    fn a_reader_overtaken_by_a_commit_believes_the_commit_where_no_other_process_writes() {
        let (cache, instance) = cache();
        let began = cache.begin(SLOT);
        let committed = Arc::new(Snapshot::default());
        cache.put(&instance, SLOT, Arc::clone(&committed), 10);
        // Perhaps by a commit that has not returned yet, and that a power cut would undo.
        let believed = read(&cache, &instance, began, Trust::Always);
        assert!(Arc::ptr_eq(&believed, &committed));
    }

    #[test]
    fn where_other_processes_write_a_snapshot_is_trusted_for_a_moment_only() {
        let (cache, instance) = cache();
        cache.put(&instance, SLOT, Arc::new(Snapshot::default()), 10);
        assert!(cache.get("a", Trust::At(10 + TRUST_OWN_MS - 1)).is_some());
        assert!(cache.get("a", Trust::At(10 + TRUST_OWN_MS)).is_none());
        cache.confirm(&instance, 2_000, false);
        assert!(cache.get("a", Trust::At(2_000 + TRUST_CONFIRMED_MS - 1)).is_some());
        assert!(cache.get("a", Trust::At(2_000 + TRUST_CONFIRMED_MS)).is_none());
        cache.confirm(&instance, 3_000, true);
        assert!(cache.get("a", Trust::At(3_000 + TRUST_OWN_MS - 1)).is_some());
        cache.doubt(&instance);
        assert!(cache.get("a", Trust::At(3_001)).is_none() && cache.peek("a").is_some());
    }

    #[test]
    fn a_clock_that_is_put_back_does_not_make_what_is_old_the_newest() {
        let (cache, instance) = cache();
        cache.put(&instance, SLOT, Arc::new(Snapshot::default()), 50_000);
        assert!(cache.get("a", Trust::At(50_000)).is_some() && cache.get("a", Trust::At(49_999)).is_none());
        cache.confirm(&instance, 2_000, true);
        assert!(cache.get("a", Trust::At(2_000)).is_some() && cache.get("a", Trust::At(50_000)).is_none());
        cache.confirm(&instance, 1_000, false);
        assert!(cache.get("a", Trust::At(1_000)).is_some() && cache.get("a", Trust::At(2_000)).is_none());
    }
}

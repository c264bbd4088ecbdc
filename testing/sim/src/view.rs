//! What a process sees of a database whose replicas lag.
//!
//! A read may miss recent commits of other processes. It never misses a commit of the process itself whose reply it got,
//! nor anything before that in the same partition, and never goes back behind an earlier read there: databases call that
//! session consistency.

use crate::scene::Scene;
use futures::FutureExt;
use parking_lot::Mutex;
use perennial_kv::MemoryStore;
use perennial_store::{DuePage, DueQuery, Key, Partition, Record, RecordId, ScanPage, ScanQuery, Slot, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A write of a record, by the number of its commit; `None` is its deletion.
type Writes = Vec<(usize, Option<Record>)>;

/// Everything that was ever written to the database.
#[derive(Default)]
pub struct Past(Mutex<Written>);

#[derive(Default)]
struct Written {
    records: BTreeMap<Partition, BTreeMap<RecordId, Writes>>,
    /// When each commit took effect, in true time.
    commits_ms: Vec<u64>,
}

impl Past {
    /// Records what a commit has just written.
    pub fn note(&self, scene: &Scene, raw: &MemoryStore, keys: &[Key]) {
        let mut written = self.0.lock();
        written.commits_ms.push(scene.time.now_ms());
        let number = written.commits_ms.len();
        for key in keys {
            // Memory returns at once.
            let record = raw.get(key).now_or_never().and_then(Result::ok).flatten();
            let partition = written.records.entry(key.partition.clone()).or_default();
            let writes = partition.entry(key.id.clone()).or_default();
            writes.push((number, record));
        }
    }
}

/// What one process sees.
pub struct View {
    past: Arc<Past>,
    /// The least number of commits that the process sees, by partition.
    floors: Mutex<BTreeMap<Partition, usize>>,
}

/// What is visible of a partition: commits up to this number.
fn visible(writes: &Writes, up_to: usize) -> Option<&Record> {
    let at = writes.partition_point(|(number, _)| *number <= up_to);
    writes.get(at.checked_sub(1)?)?.1.as_ref()
}

impl View {
    /// The view of a process that has seen nothing.
    pub fn new(past: Arc<Past>) -> Self {
        Self {
            past,
            floors: Mutex::default(),
        }
    }

    /// The process has received the outcome of a commit of its own: it sees everything that was written there until now.
    pub fn received(&self, partitions: impl Iterator<Item = Partition>) {
        let now = self.past.0.lock().commits_ms.len();
        let mut floors = self.floors.lock();
        for partition in partitions {
            floors.insert(partition, now);
        }
    }

    /// How many commits took effect at this time or earlier.
    fn cutoff(written: &Written, until_ms: u64) -> usize {
        written.commits_ms.partition_point(|at| *at <= until_ms)
    }

    fn floor(&self, partition: &Partition) -> usize {
        self.floors.lock().get(partition).copied().unwrap_or_default()
    }

    /// What a read of a partition sees, and later ones at least.
    fn seen(&self, written: &Written, partition: &Partition, until_ms: u64) -> usize {
        let seen = self.floor(partition).max(Self::cutoff(written, until_ms));
        self.floors.lock().insert(partition.clone(), seen);
        seen
    }

    /// One record, as it was at `until_ms` or later.
    pub fn get(&self, key: &Key, until_ms: u64) -> Option<Record> {
        let written = self.past.0.lock();
        let up_to = self.seen(&written, &key.partition, until_ms);
        visible(written.records.get(&key.partition)?.get(&key.id)?, up_to).cloned()
    }

    /// A scan of a partition.
    pub fn scan(&self, query: &ScanQuery, until_ms: u64) -> ScanPage {
        let written = self.past.0.lock();
        let up_to = self.seen(&written, &query.partition, until_ms);
        let all = written.records.get(&query.partition).into_iter().flatten();
        let mut records: Vec<Record> = all
            .filter(|(id, _)| query.includes(id))
            .filter_map(|(_, writes)| visible(writes, up_to).cloned())
            .take(query.limit.saturating_add(1))
            .collect();
        let more = records.len() > query.limit;
        records.truncate(query.limit);
        if query.keys_only {
            records.iter_mut().for_each(|record| record.body = Default::default());
        }
        let last = records.last().map(|record| record.key.id.clone());
        ScanPage {
            records,
            next: last.filter(|_| more),
        }
    }

    /// A query for due work.
    pub fn due(&self, query: &DueQuery, until_ms: u64) -> DuePage {
        let written = self.past.0.lock();
        let cutoff = Self::cutoff(&written, until_ms);
        let mut records = Vec::new();
        for (partition, all) in &written.records {
            if !query.slots.contains(Slot::of(partition)) {
                continue;
            }
            let up_to = self.floor(partition).max(cutoff);
            let ready = all.values().filter_map(|writes| visible(writes, up_to));
            records.extend(ready.filter(|record| is_due(record, query)).cloned());
        }
        records.sort_by_key(|record| record.place.as_ref().map(|place| place.order));
        let more = records.len() > query.limit;
        records.truncate(query.limit);
        DuePage {
            records,
            more,
            next_due_ms: None,
        }
    }
}

fn is_due(record: &Record, query: &DueQuery) -> bool {
    record.place.as_ref().is_some_and(|place| {
        place.lane.name == query.lane
            && query.topics.matches(place.lane.topic.as_deref())
            && place.due_ms <= query.until_ms
            && query.after.is_none_or(|after| place.order > after)
    })
}

//! Counts of a handle's operations, for budgets and metrics.

use crate::keys;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a store handle has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Durable commits that were accepted.
    pub commits_durable: u64,
    /// Relaxed commits that were accepted.
    pub commits_relaxed: u64,
    /// Batches that were written.
    pub groups: u64,
    /// Times that the disk was made to sync.
    pub syncs: u64,
    /// Point reads.
    pub gets: u64,
    /// Scans of partitions.
    pub scans: u64,
    /// Due queries.
    pub dues: u64,
    /// Pages of listings.
    pub lists: u64,
    /// Stored values that could not be decoded.
    pub damaged: u64,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) commits_durable: AtomicU64,
    pub(crate) commits_relaxed: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) gets: AtomicU64,
    pub(crate) scans: AtomicU64,
    pub(crate) dues: AtomicU64,
    pub(crate) lists: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

pub(crate) fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counts {
    pub(crate) fn snapshot(&self) -> Stats {
        Stats {
            commits_durable: self.commits_durable.load(Relaxed),
            commits_relaxed: self.commits_relaxed.load(Relaxed),
            groups: self.groups.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            gets: self.gets.load(Relaxed),
            scans: self.scans.load(Relaxed),
            dues: self.dues.load(Relaxed),
            lists: self.lists.load(Relaxed),
            damaged: self.damaged.load(Relaxed),
        }
    }

    /// Counts and logs a stored value that could not be decoded. It stays where it is.
    pub(crate) fn note_damaged(&self, key: &[u8], why: &str) {
        add_one(&self.damaged);
        metrics::counter!("perennial_store_damaged_total").increment(1);
        let message = "a stored record cannot be read: it is left out, and tried again when the store is opened again";
        match keys::parse(key) {
            Some(key) => tracing::error!(partition = %key.partition, id = %key.id, why, message),
            None => tracing::error!(key = %key.escape_ascii(), why, message),
        }
    }
}

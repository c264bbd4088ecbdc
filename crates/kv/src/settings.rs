//! Settings of a key-value store: plain data.

use perennial_store::Limits;
use std::time::Duration;

/// How a [`KvStore`](crate::KvStore) behaves. The defaults suit almost every use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What one commit may hold. Tests set the limits of a cloud database here.
    pub limits: Limits,
    /// How long relaxed commits may wait for a durable commit that shares their write.
    pub relaxed_delay: Duration,
    /// When more bytes than this wait to be written, relaxed commits wait too.
    pub max_waiting_bytes: usize,
    /// How many records' versions are cached, so that a condition needs no read.
    pub recent_records: usize,
    /// How many reads may wait at a time, each on a thread, where the engine's reads [wait](crate::OrderedKv::blocking).
    /// More are queued. At least 1.
    pub blocking_reads: usize,
    /// How many signals a receiver may fall behind before it gets [`Signal::Missed`](perennial_store::Signal::Missed).
    pub signal_capacity: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::NONE,
            relaxed_delay: Duration::from_millis(5),
            max_waiting_bytes: 64 * 1024 * 1024,
            recent_records: 32 * 1024,
            blocking_reads: 128,
            signal_capacity: 1024,
        }
    }
}

impl Settings {
    /// The limits of Azure Cosmos DB, for tests and simulation on the memory store.
    pub const CLOUD_LIMITS: Limits = Limits {
        ops_per_commit: 100,
        bytes_per_commit: 2 * 1024 * 1024 - 64 * 1024,
        bytes_per_record: 2 * 1024 * 1024 - 64 * 1024,
        partitions_per_commit: 1,
        bytes_per_key: 8 * 1024,
    };

    /// The defaults, with these limits.
    pub fn with_limits(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }
}

//! Settings of the embedded store: plain data.

use std::time::Duration;

/// How an embedded store behaves. The defaults suit almost every use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The settings of every key-value store.
    pub store: perennial_kv::Settings,
    /// The size of the cache, in bytes.
    pub cache_bytes: u64,
    /// How large the journals on disk may become in bytes, at least 64 MiB. More means fewer rewrites and a longer
    /// recovery after a crash.
    pub journal_bytes: u64,
    /// Threads that write and compact tables.
    pub worker_threads: usize,
    /// Whether cold data and large values are compressed. May be changed at any time; applies to tables that are
    /// written later.
    pub compress: bool,
    /// Commits return without being synced: a power cut loses them. Exists so that a test can prove that it notices.
    #[doc(hidden)]
    pub without_sync: bool,
    /// Added to every sync. Exists so that a benchmark can show what a slower disk costs.
    #[doc(hidden)]
    pub sync_delay: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: perennial_kv::Settings::default(),
            cache_bytes: 64 * 1024 * 1024,
            journal_bytes: 128 * 1024 * 1024,
            worker_threads: 2,
            compress: true,
            without_sync: false,
            sync_delay: Duration::ZERO,
        }
    }
}

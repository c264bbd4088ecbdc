//! The settings of SlateDB, for few requests while idle and short recoveries.

use crate::{Bucket, Settings};
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions,
    Settings as DbSettings,
};
use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use slatedb::db_cache::{DbCache, SplitCache};
use slatedb::{BloomFilterPolicy, FilterPolicy};
use std::sync::Arc;
use std::time::Duration;

/// How often a request is tried again before it is given up. The deadline usually comes first.
pub(crate) const RETRIES: u32 = 40;

/// From so many tables on that were written from memory, they are merged.
pub(crate) const MERGED_TABLES: usize = 4;

/// So many of them may wait to be merged before commits wait. Their filters are in memory, so that few of them are read.
const WAITING_TABLES: usize = 64;

/// How often merging looks for work while there is any.
const MERGE_POLL: Duration = Duration::from_secs(5);

/// How large a merged table becomes.
const MERGED_TABLE_BYTES: usize = 128 * 1024 * 1024;

pub(crate) fn database(settings: &Settings) -> DbSettings {
    DbSettings {
        // The committer flushes, and nothing else does.
        flush_interval: None,
        manifest_poll_interval: settings.manifest_poll,
        manifest_update_timeout: settings.open_timeout.max(Duration::from_secs(30)),
        // Every table has a filter: without one, each look-up of a missing key would read from it.
        min_filter_keys: 0,
        l0_sst_size_bytes: settings.memtable_bytes,
        max_unflushed_bytes: settings.unflushed_bytes.max(settings.memtable_bytes.saturating_mul(2)),
        l0_max_ssts: WAITING_TABLES,
        l0_max_ssts_per_key: WAITING_TABLES,
        object_store_max_retries: Some(RETRIES),
        // Merging and garbage collection run when there is something to do.
        compactor_options: None,
        garbage_collector_options: None,
        ..DbSettings::default()
    }
}

pub(crate) fn filters(settings: &Settings) -> Vec<Arc<dyn FilterPolicy>> {
    vec![Arc::new(BloomFilterPolicy::new(settings.filter_bits_per_key))]
}

pub(crate) fn cache(settings: &Settings) -> Arc<dyn DbCache> {
    let cache = |max_capacity| {
        let options = MokaCacheOptions {
            max_capacity,
            ..MokaCacheOptions::default()
        };
        let cache: Arc<dyn DbCache> = Arc::new(MokaCache::new_with_opts(options));
        Some(cache)
    };
    let split = SplitCache::new()
        .with_block_cache(cache(settings.cache_bytes))
        .with_meta_cache(cache(settings.metadata_cache_bytes));
    Arc::new(split.build())
}

pub(crate) fn compactor() -> CompactorOptions {
    CompactorOptions {
        poll_interval: MERGE_POLL,
        max_concurrent_compactions: 2,
        worker: Some(CompactionWorkerOptions {
            max_concurrent_compactions: 2,
            compactions_poll_interval: MERGE_POLL,
            max_sst_size: MERGED_TABLE_BYTES,
            max_subcompactions: 1,
            min_filter_keys: 0,
            ..CompactionWorkerOptions::default()
        }),
        object_store_max_retries: Some(RETRIES),
        ..CompactorOptions::default()
    }
}

/// What is deleted. Fences of the log never are: an owner that lost the bucket long ago must still meet them.
pub(crate) fn garbage(bucket: &Bucket, settings: &Settings) -> GarbageCollectorOptions {
    let directory = Some(GarbageCollectorDirectoryOptions {
        interval: None,
        min_age: settings.garbage_age,
        dry_run: false,
    });
    GarbageCollectorOptions {
        manifest_options: directory,
        wal_options: directory,
        wal_fence_options: None,
        compacted_options: directory,
        compactions_options: directory,
        detach_options: None,
        metric_level: None,
        // Boundaries are replaced conditionally, which files cannot be; a directory has one process at a time instead.
        boundary_files_enabled: !bucket.is_directory(),
        object_store_max_retries: Some(RETRIES),
    }
}

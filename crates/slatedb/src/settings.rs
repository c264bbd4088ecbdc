//! Settings of a store in a bucket: plain data.

use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// How a store in a bucket behaves. The defaults suit almost every use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The settings of every key-value store.
    pub store: perennial_kv::Settings,
    /// How long ownership lasts without renewal, and how often it is renewed.
    pub lease: crate::lease::Settings,
    /// The size of the cache of data, in bytes.
    pub cache_bytes: u64,
    /// The size of the cache of filters and indexes, in bytes. With all of them in memory a key that does not exist is
    /// looked up without a request; they take some 3 bytes for each stored key.
    pub metadata_cache_bytes: u64,
    /// Bits of a filter for each key: with 16, one look-up of a missing key in 2,000 costs a request for each table.
    pub filter_bits_per_key: u32,
    /// How large the table in memory becomes before it is written as an object, in bytes.
    pub memtable_bytes: usize,
    /// When more bytes than this wait to be written as tables, commits wait too.
    pub unflushed_bytes: usize,
    /// After so many durable groups of commits the table in memory is written, however small it is: this is what an
    /// opening after a crash must read.
    pub log_objects: u32,
    /// How long a small request may take before it counts as failed. Large ones may take longer.
    pub request_timeout: Duration,
    /// How long an opening may try.
    pub open_timeout: Duration,
    /// How long a write may take, with everything that it waits for. A database that takes longer is given up.
    pub write_timeout: Duration,
    /// How often the owner looks for tables that were merged meanwhile. Two requests each time.
    pub manifest_poll: Duration,
    /// How often objects that are no longer needed are deleted, while anything changes.
    pub garbage_interval: Duration,
    /// For how long an object that is no longer needed is kept for readers.
    pub garbage_age: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: perennial_kv::Settings::default(),
            lease: crate::lease::Settings::default(),
            cache_bytes: 64 * MIB,
            metadata_cache_bytes: 64 * MIB,
            filter_bits_per_key: 16,
            memtable_bytes: 16 * MIB as usize,
            unflushed_bytes: 64 * MIB as usize,
            log_objects: 300,
            request_timeout: Duration::from_secs(5),
            open_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(120),
            manifest_poll: Duration::from_secs(30),
            garbage_interval: Duration::from_secs(15 * 60),
            garbage_age: Duration::from_secs(5 * 60),
        }
    }
}

//! A sync that fails: what the system shows of the file afterwards may never reach the disk.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod support;

use perennial_fjall::{Settings, open};
use support::{Power, Writing, be_the_child_that_reopens, missing, run_over_failed_sync};

const WRITING: Writing = Writing {
    writers: 1,
    from: 0,
    count: 12,
    body_bytes: 6_000,
    without_sync: false,
};

/// Not a test: the process that the tests start.
#[test]
fn child() {
    be_the_child_that_reopens();
}

#[test]
fn nothing_that_a_failed_sync_left_unsafe_is_acted_on() {
    for syncs in 3..9 {
        let directory = tempfile::tempdir().unwrap();
        let power = Power::new(directory.path());
        let path = directory.path().join("store");
        let acknowledged = run_over_failed_sync(&path, &WRITING, &power, syncs);
        assert!(acknowledged.len() >= 11, "{acknowledged:?}");
        power.cut(&path);
        let store = open(&path, Settings::default()).unwrap_or_else(|error| panic!("after {syncs} syncs: {error}"));
        assert_eq!(missing(&store, &acknowledged), [], "after {syncs} syncs");
    }
}

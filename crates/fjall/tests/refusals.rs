//! Real processes whose file system is full, read-only or not theirs: the failure is reported plainly, and nothing is
//! damaged.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod support;

use perennial_fjall::{Settings, open};
use std::path::Path;
use support::faults::{Cause, ChildReport, Fault, Faults, When, be_the_child};
use support::{Acknowledged, Writing, missing};

const WRITING: Writing = Writing {
    writers: 4,
    from: 0,
    count: 5,
    body_bytes: 200,
    without_sync: false,
};

/// Not a test: the process that the tests start.
#[test]
fn child() {
    be_the_child();
}

/// Nothing fails.
const NONE: Fault = Fault {
    cause: Cause::DiskFull,
    when: When::Calls(1 << 40),
    word: None,
    wait_ms: 0,
    workers: 2,
};

/// By how many the number of calls that succeed grows. Not all are tried: there are hundreds.
const STEP: usize = 17;

fn after(cause: Cause, calls: usize) -> Fault {
    Fault {
        cause,
        when: When::Calls(calls),
        ..NONE
    }
}

/// A store that holds something, and what.
fn make(path: &Path, faults: &Faults) -> Acknowledged {
    let told = faults.run(path, &WRITING, NONE);
    assert_eq!(told.acknowledged.len(), 20);
    told.acknowledged
}

/// Asserts that with the cause gone, everything that was acknowledged is there.
fn assert_whole(path: &Path, acknowledged: &Acknowledged, what: &str) {
    let store = open(path, Settings::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(missing(&store, acknowledged), [], "{what}");
}

/// Asserts that opening was refused for this cause, with a helpful message.
fn assert_refused(told: &ChildReport, cause: Cause, what: &str) {
    let (kind, text) = told.refused.as_ref().unwrap();
    assert_eq!(*kind, format!("{cause:?}"), "{what}: {text}");
    let advice = match cause {
        Cause::NoPermission => "give this user the right to, or name another path",
        Cause::DiskFull => "free some space and open the store again",
        Cause::ReadOnly => "mount it writable, or name another path",
    };
    assert!(text.contains(advice), "{what}: {text}");
}

/// Creates new stores while all calls fail except the first few, with more of them each time, until they are enough.
fn refuse_to_make_stores(cause: Cause, step: usize) {
    let directory = tempfile::tempdir().unwrap();
    let faults = Faults::new(directory.path());
    for calls in (0..).step_by(step) {
        let path = directory.path().join(format!("below/{calls}"));
        let what = format!("{cause:?} after {calls} calls");
        let told = faults.run(&path, &Writing { count: 0, ..WRITING }, after(cause, calls));
        if told.refused.is_none() {
            assert!(calls > 0);
            return;
        }
        assert_refused(&told, cause, &what);
        let told = faults.run(&path, &WRITING, NONE);
        assert_eq!(told.acknowledged.len(), 20, "{what}: {told:?}");
    }
}

/// Opens an existing store, in the same way.
fn refuse_to_open_a_store(cause: Cause) {
    let directory = tempfile::tempdir().unwrap();
    let faults = Faults::new(directory.path());
    let path = directory.path().join("store");
    let acknowledged = make(&path, &faults);
    for calls in 0.. {
        let what = format!("{cause:?} after {calls} calls");
        let told = faults.run(&path, &Writing { count: 0, ..WRITING }, after(cause, calls));
        assert_whole(&path, &acknowledged, &what);
        if told.refused.is_none() {
            assert!(calls > 0);
            return;
        }
        assert_refused(&told, cause, &what);
    }
}

#[test]
fn a_full_disk_takes_no_new_store_until_there_is_room() {
    refuse_to_make_stores(Cause::DiskFull, STEP);
}

#[test]
fn a_read_only_file_system_takes_no_new_store_until_it_is_writable() {
    refuse_to_make_stores(Cause::ReadOnly, STEP);
}

#[test]
fn no_store_is_created_without_permission() {
    refuse_to_make_stores(Cause::NoPermission, STEP);
}

#[test]
fn a_store_on_a_full_disk_is_left_as_it_is() {
    refuse_to_open_a_store(Cause::DiskFull);
}

#[test]
fn a_store_on_a_read_only_file_system_is_left_as_it_is() {
    refuse_to_open_a_store(Cause::ReadOnly);
}

#[test]
fn a_store_of_another_user_is_left_as_it_is() {
    refuse_to_open_a_store(Cause::NoPermission);
}

/// Commits until the disk is full; each commit returns, and nothing that was acknowledged in time is lost.
fn fill(writing: &Writing, fault: Fault, what: &str) {
    let directory = tempfile::tempdir().unwrap();
    let faults = Faults::new(directory.path());
    let path = directory.path().join("store");
    let mut acknowledged = make(&path, &faults);

    let mut told = faults.run(&path, writing, fault);
    assert!(told.tripped && told.refused.is_none(), "{what}: {told:?}");
    assert_eq!(told.errors.len() as u64, writing.writers, "{what}");
    for error in &told.errors {
        let is_known = error.starts_with("UnknownOutcome(") || error.starts_with("Closed(");
        let is_clear = error.contains("a full disk") && error.contains("open the store again");
        assert!(is_known && is_clear, "{what}: {error}");
    }
    for later in &told.later {
        assert!(later.starts_with("Err(Closed("), "{what}: {later}");
    }
    acknowledged.append(&mut told.acknowledged);

    let still_full = faults.run(&path, writing, after(Cause::DiskFull, 0));
    assert_refused(&still_full, Cause::DiskFull, what);

    assert_whole(&path, &acknowledged, what);
    let next = Writing {
        from: 2_000_000,
        ..WRITING
    };
    let mut told = faults.run(&path, &next, NONE);
    assert_eq!(told.acknowledged.len(), 20, "{what}: {told:?}");
    acknowledged.append(&mut told.acknowledged);
    assert_whole(&path, &acknowledged, what);
}

const FILLING: Writing = Writing {
    writers: 16,
    from: 1_000_000,
    count: 1_000_000,
    ..WRITING
};

#[test]
fn a_disk_that_becomes_full_loses_no_commit_that_was_acknowledged() {
    for bytes in [5_000, 5_001, 77_777, 300_000] {
        let fault = Fault {
            when: When::Bytes(bytes),
            ..NONE
        };
        fill(&FILLING, fault, &format!("{bytes} bytes"));
    }
}

#[test]
fn a_full_disk_that_shows_only_in_a_sync_loses_no_commit_that_was_acknowledged() {
    // A commit that comes alone is a write and a sync: one of the two fails.
    let writing = Writing { writers: 1, ..FILLING };
    for calls in [30, 31] {
        fill(&writing, after(Cause::DiskFull, calls), &format!("{calls} calls"));
    }
}

#[test]
fn a_disk_that_becomes_full_while_tables_are_written_loses_no_commit_that_was_acknowledged() {
    let writing = Writing {
        writers: 64,
        body_bytes: 10_000,
        ..FILLING
    };
    let in_tables = Fault {
        word: Some("/keyspaces/"),
        ..NONE
    };
    // In the first table, and late enough that tables are compacted.
    for bytes in [500_000, 12_000_000] {
        let fault = Fault {
            when: When::Bytes(bytes),
            ..in_tables
        };
        fill(&writing, fault, &format!("{bytes} bytes of tables"));
    }
}

#[test]
fn commits_that_wait_for_tables_return_when_the_disk_has_no_room_for_them() {
    // So slow that the engine delays commits, and with threads enough for it to do so.
    let fault = Fault {
        word: Some("/tables/"),
        wait_ms: 2000,
        workers: 8,
        ..after(Cause::DiskFull, 3)
    };
    let writing = Writing {
        writers: 8,
        body_bytes: 200_000,
        ..FILLING
    };
    fill(&writing, fault, "held back");
}

#[test]
fn a_disk_that_becomes_full_when_the_journal_is_changed_loses_no_commit_that_was_acknowledged() {
    let writing = Writing {
        writers: 16,
        body_bytes: 200_000,
        ..FILLING
    };
    // The next journal is created, but not as long as it should be.
    let fault = Fault {
        word: Some("/1.jnl"),
        ..after(Cause::DiskFull, 1)
    };
    fill(&writing, fault, "an empty journal");
}

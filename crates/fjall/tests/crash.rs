//! Real processes that are killed, with and without a power cut.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod support;

use perennial_fjall::{Settings, open};
use std::fs;
use support::{Acknowledged, Power, Writing, be_the_child, kill_after, missing, run_until_sync, start_child, syncs};

const WRITING: Writing = Writing {
    writers: 8,
    from: 0,
    count: 1_000_000,
    body_bytes: 200,
    without_sync: false,
};

/// Not a test: the process that the tests start and kill.
#[test]
fn child() {
    be_the_child();
}

#[test]
fn whatever_was_acknowledged_survives_kill_minus_nine() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut acknowledged = Acknowledged::new();
    for round in 0..5 {
        let from = 1_000_000 * round;
        let child = start_child(&path, &Writing { from, ..WRITING }, None);
        acknowledged.append(&mut kill_after(child, 40 + 97 * round as usize));
        let store = open(&path, Settings::default()).unwrap();
        assert_eq!(missing(&store, &acknowledged), [], "after round {round}");
    }
}

/// Cuts the power under a writer again and again, each time after a number of acknowledged commits; none of them is
/// missing.
fn survives_power_cuts(writing: Writing, answers: impl IntoIterator<Item = usize>) {
    let directory = tempfile::tempdir().unwrap();
    let power = Power::new(directory.path());
    let path = directory.path().join("store");
    let mut acknowledged = Acknowledged::new();
    for (round, answers) in (0..).zip(answers) {
        let from = 1_000_000 * round;
        let child = start_child(&path, &Writing { from, ..writing }, Some(&power));
        acknowledged.append(&mut kill_after(child, answers));
        power.cut(&path);
        let store = open(&path, Settings::default()).unwrap();
        assert_eq!(missing(&store, &acknowledged), [], "after round {round}");
        // What opening and closing writes is not watched, so the next round starts from a disk that keeps it.
        drop(store);
        power.keep(&path);
    }
}

#[test]
fn whatever_was_acknowledged_survives_a_power_cut() {
    survives_power_cuts(WRITING, (0..6).map(|round| 1 + 83 * round));
}

#[test]
fn a_power_cut_while_tables_are_written_loses_nothing() {
    // Large enough that the queue's memory table is flushed several times.
    let writing = Writing {
        writers: 64,
        body_bytes: 20_000,
        ..WRITING
    };
    survives_power_cuts(writing, [900, 1_331]);
}

const FEW: Writing = Writing {
    writers: 1,
    count: 3,
    ..WRITING
};

#[test]
fn a_power_cut_at_any_sync_of_an_open_of_commits_and_of_a_close_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let power = Power::new(directory.path());
    let path = directory.path().join("store");
    drop(open(&path, Settings::default()).unwrap());
    let mut acknowledged = Acknowledged::new();
    for syncs in 0.. {
        power.keep(&path);
        let from = 1_000_000 * syncs as u64;
        let (mut more, has_ended) = run_until_sync(&path, &Writing { from, ..FEW }, &power, syncs);
        acknowledged.append(&mut more);
        power.cut(&path);
        let store = open(&path, Settings::default()).unwrap_or_else(|error| panic!("{syncs} syncs: {error}"));
        assert_eq!(missing(&store, &acknowledged), [], "{syncs} syncs");
        if has_ended {
            // Opening takes some, and closing too.
            assert!(syncs > 3 + 4, "{syncs} syncs");
            return;
        }
    }
}

#[test]
fn a_power_cut_at_any_sync_of_a_new_store_leaves_one_or_none() {
    let directory = tempfile::tempdir().unwrap();
    // Not all are tried: there are dozens.
    for syncs in (0..).step_by(5) {
        let below = directory.path().join(syncs.to_string());
        fs::create_dir(&below).unwrap();
        let power = Power::new(&below);
        let path = below.join("store");
        fs::create_dir(&path).unwrap();
        let (acknowledged, has_ended) = run_until_sync(&path, &FEW, &power, syncs);
        power.cut(&path);
        let store = open(&path, Settings::default()).unwrap_or_else(|error| panic!("{syncs} syncs: {error}"));
        assert_eq!(missing(&store, &acknowledged), [], "{syncs} syncs");
        if has_ended {
            assert_eq!(acknowledged.len(), 3);
            return;
        }
    }
}

#[test]
fn a_power_cut_is_noticed_where_nothing_is_synced() {
    let directory = tempfile::tempdir().unwrap();
    let power = Power::new(directory.path());
    let path = directory.path().join("store");
    let writing = Writing {
        without_sync: true,
        ..WRITING
    };
    let acknowledged = kill_after(start_child(&path, &writing, Some(&power)), 200);
    power.cut(&path);
    let store = open(&path, Settings::default()).unwrap();
    assert!(
        missing(&store, &acknowledged).len() >= 200,
        "the test notices lost commits"
    );
}

#[test]
fn each_commit_that_comes_alone_is_synced_once() {
    let directory = tempfile::tempdir().unwrap();
    let power = Power::new(directory.path());
    let writing = Writing {
        writers: 1,
        count: 200,
        ..WRITING
    };
    let (seen, counted) = syncs(start_child(&directory.path().join("store"), &writing, Some(&power)));
    assert_eq!((seen, counted), (200, 200));
}

#[test]
fn commits_that_come_together_share_their_syncs() {
    let directory = tempfile::tempdir().unwrap();
    let power = Power::new(directory.path());
    let writing = Writing {
        writers: 64,
        count: 30,
        ..WRITING
    };
    let (seen, counted) = syncs(start_child(&directory.path().join("store"), &writing, Some(&power)));
    assert_eq!(seen, counted);
    assert!(seen < 64 * 30 / 4, "{seen} syncs for {} commits", 64 * 30);
}

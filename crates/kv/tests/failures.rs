//! Disks fail, the power fails, another handle takes over.

#![allow(clippy::unwrap_used)]

use futures::FutureExt;
use perennial_kv::{MemoryDisk, MemoryStore, Settings, Stats, Table};
use perennial_store::{
    Commit, Draft, DueQuery, Error, Health, Key, Lane, Op, Order, Partition, Place, RecordId, RetryStore, Store,
    SystemClock,
};
use std::sync::Arc;
use std::time::Duration;

fn key(id: &str) -> Key {
    Key::new(Partition::new("p"), RecordId::of(id))
}

fn put(id: &str) -> Commit {
    let place = Place {
        lane: Lane::new("work"),
        order: Order(1),
        due_ms: 0,
    };
    Commit::new(vec![Op::Put(Draft::new(key(id), id.to_owned()).placed(place))])
}

fn open(disk: &MemoryDisk) -> MemoryStore {
    MemoryStore::open_disk(disk, Settings::default()).unwrap()
}

#[test]
fn a_memory_commit_is_complete_within_its_first_poll() {
    let store = open(&MemoryDisk::default());
    // No runtime, no thread.
    assert!(store.commit(put("a")).now_or_never().unwrap().is_ok());
    assert!(store.commit(put("b").relaxed()).now_or_never().unwrap().is_ok());
    assert!(store.get(&key("a")).now_or_never().unwrap().unwrap().is_some());
    store.close().now_or_never().unwrap().unwrap();
}

#[test]
fn a_failed_write_is_an_unknown_outcome_and_the_end_of_the_handle() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let commit = |commit| store.commit(commit).now_or_never().unwrap();
    commit(put("a")).unwrap();
    disk.fail_writes("no space left on device");
    let outcome = commit(put("b"));
    assert!(
        matches!(&outcome, Err(Error::UnknownOutcome(why)) if why.contains("no space")),
        "{outcome:?}"
    );
    for _ in 0..2 {
        let outcome = commit(put("c"));
        assert!(
            matches!(&outcome, Err(Error::Closed(why)) if why.contains("open the store again")),
            "{outcome:?}"
        );
    }
    let seen = store
        .due(&DueQuery::new(&Lane::new("work"), 0, 10))
        .now_or_never()
        .unwrap()
        .unwrap();
    assert_eq!(seen.records.len(), 1, "a commit that was not written is not visible");
    drop(store);
    disk.crash();
    let store = open(&disk);
    store.commit(put("c")).now_or_never().unwrap().unwrap();
    assert!(store.get(&key("a")).now_or_never().unwrap().unwrap().is_some());
}

#[test]
fn a_commit_that_broke_the_store_stays_unknown_when_it_is_retried() {
    let disk = MemoryDisk::default();
    let store = Arc::new(open(&disk));
    let patient = RetryStore::new(store.clone(), SystemClock::shared(), Duration::from_secs(4));
    disk.fail_writes("no space left on device");
    let outcome = patient.commit(put("a")).now_or_never().unwrap();
    assert!(matches!(outcome, Err(Error::UnknownOutcome(_))), "{outcome:?}");
    let later = patient.commit(put("b")).now_or_never().unwrap();
    assert!(matches!(later, Err(Error::Closed(_))), "{later:?}");
}

#[test]
fn a_store_reports_the_first_failure_and_its_end() {
    let disk = MemoryDisk::default();
    let (broken, closed) = (open(&disk), open(&MemoryDisk::default()));
    assert_eq!(broken.health().now(), Health::Working);
    disk.fail_writes("no space left on device");
    for id in ["a", "b"] {
        broken.commit(put(id)).now_or_never().unwrap().unwrap_err();
    }
    broken.close().now_or_never().unwrap().ok();
    assert!(matches!(broken.health().now(), Health::Broken(outage) if outage.why.contains("no space")));
    closed.close().now_or_never().unwrap().unwrap();
    assert_eq!(closed.health().now(), Health::Closed);
    disk.crash();
    let taken_over = open(&disk);
    drop(open(&disk));
    taken_over.commit(put("a")).now_or_never().unwrap().unwrap_err();
    assert!(matches!(taken_over.health().now(), Health::Fenced(_)));
}

#[test]
fn a_crash_undoes_relaxed_commits_but_no_durable_one_and_nothing_before_it() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    for commit in [put("a").relaxed(), put("b"), put("c").relaxed(), put("a").relaxed()] {
        store.commit(commit).now_or_never().unwrap().unwrap();
    }
    let before = store.get(&key("a")).now_or_never().unwrap().unwrap().unwrap().version;
    disk.crash();
    let store = open(&disk);
    let get = |id: &str| store.get(&key(id)).now_or_never().unwrap().unwrap();
    assert!(get("a").is_some() && get("b").is_some() && get("c").is_none());
    assert_ne!(get("a").unwrap().version, before, "the second write of a is gone");
    let committed = store.commit(put("a")).now_or_never().unwrap().unwrap();
    assert_ne!(committed.version(0), Some(&before), "and its version is never reused");
}

#[test]
fn the_older_handle_of_a_disk_is_fenced() {
    let disk = MemoryDisk::default();
    let old = open(&disk);
    old.commit(put("a")).now_or_never().unwrap().unwrap();
    let new = open(&disk);
    for _ in 0..2 {
        let outcome = old.commit(put("b")).now_or_never().unwrap();
        assert!(matches!(outcome, Err(Error::Fenced(_))), "{outcome:?}");
    }
    assert!(matches!(
        old.get(&key("a")).now_or_never().unwrap(),
        Err(Error::Fenced(_))
    ));
    new.commit(put("b")).now_or_never().unwrap().unwrap();
}

#[test]
fn nothing_is_left_behind() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    let listing = |status: &'static str, parent: Option<&str>| perennial_store::Listing {
        kind: "instance".into(),
        status: status.into(),
        name: "n".into(),
        parent: parent.map(str::to_owned),
        created_ms: 0,
        completed_ms: None,
    };
    let plain = Draft::new(key("a"), "");
    let drafts = [
        plain.clone(),
        plain.clone().listed(listing("new", Some("x"))),
        put("a").ops[0]
            .draft()
            .unwrap()
            .clone()
            .listed(listing("done", Some("y"))),
        plain.clone().listed(listing("new", None)),
        put("a").ops[0].draft().unwrap().clone(),
    ];
    for before in &drafts {
        for after in &drafts {
            for draft in [before, after] {
                let op = Op::Put(draft.clone());
                store.commit(Commit::new(vec![op])).now_or_never().unwrap().unwrap();
            }
            let records: usize = [Table::Records, Table::Queue, Table::Listed]
                .map(|table| disk.count(table))
                .iter()
                .sum();
            assert_eq!(records, 1, "a record is in one table");
            store
                .commit(Commit::new(vec![Op::Remove(key("a"))]))
                .now_or_never()
                .unwrap()
                .unwrap();
            for table in [Table::Records, Table::Queue, Table::Listed, Table::Index] {
                assert_eq!(disk.count(table), 0, "{table:?}");
            }
        }
    }
}

#[test]
fn every_call_is_counted() {
    let store = open(&MemoryDisk::default());
    for _ in 0..3 {
        store.commit(put("a")).now_or_never().unwrap().unwrap();
    }
    store.commit(put("a").relaxed()).now_or_never().unwrap().unwrap();
    store
        .commit(Commit::new(vec![Op::Create(Draft::new(key("a"), ""))]))
        .now_or_never()
        .unwrap()
        .unwrap_err();
    store.get(&key("a")).now_or_never().unwrap().unwrap();
    store
        .due(&DueQuery::new(&Lane::new("work"), 0, 10))
        .now_or_never()
        .unwrap()
        .unwrap();
    let expected = Stats {
        commits_durable: 3,
        commits_relaxed: 1,
        groups: 4,
        syncs: 3,
        gets: 1,
        dues: 1,
        ..Stats::default()
    };
    assert_eq!(store.stats(), expected);
}

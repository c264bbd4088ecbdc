//! Opening: failures are reported plainly, and nothing is damaged.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use perennial_fjall::{FORMAT, FjallStore, OpenError, Settings, open};
use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId, Store};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn error(path: &Path) -> OpenError {
    match open(path, Settings::default()) {
        Ok(_) => panic!("{path:?} must not open"),
        Err(error) => error,
    }
}

fn key(id: &str) -> Key {
    Key::new(Partition::new("p"), RecordId::of(id))
}

async fn put(store: &FjallStore, id: &str) {
    let op = Op::Put(Draft::new(key(id), "body"));
    store.commit(Commit::new(vec![op])).await.unwrap();
}

/// Every file below a directory, with its contents.
fn contents(path: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(contents(&entry.path())),
            false => found.push((entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_store_opens_once_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Settings::default()).unwrap();
    put(&store, "a").await;
    let refused = error(directory.path());
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    assert!(refused.to_string().contains("close that one first"));
    put(&store, "b").await;
    drop(store);
    let store = open(directory.path(), Settings::default()).unwrap();
    assert!(store.get(&key("a")).await.unwrap().is_some());
    assert!(store.get(&key("b")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_store_opens_again_right_after_it_was_dropped_or_closed() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let store = Arc::new(open(directory.path(), Settings::default()).unwrap());
        let other = store.clone();
        let task = tokio::spawn(async move { put(&other, "a").await });
        put(&store, &round.to_string()).await;
        task.await.unwrap();
        if round % 2 == 0 {
            store.close().await.unwrap();
            let while_closed = open(directory.path(), Settings::default()).unwrap();
            put(&while_closed, "b").await;
        }
    }
    let store = open(directory.path(), Settings::default()).unwrap();
    for round in 0..10 {
        assert!(store.get(&key(&round.to_string())).await.unwrap().is_some());
    }
}

#[test]
fn a_file_is_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(error(&path), OpenError::NotADirectory { .. }));
    assert!(matches!(error(&path.join("below")), OpenError::NotADirectory { .. }));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("thesis.txt"), "precious").unwrap();
    let before = contents(directory.path());
    assert!(matches!(error(directory.path()), OpenError::NotAStore { .. }));
    assert_eq!(contents(directory.path()), before);
}

#[tokio::test]
async fn a_newer_format_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    put(&open(directory.path(), Settings::default()).unwrap(), "a").await;
    fs::write(directory.path().join("FORMAT"), format!("perennial {}\n", FORMAT + 1)).unwrap();
    let before = contents(directory.path());
    let refused = error(directory.path());
    assert!(
        matches!(refused, OpenError::NewerFormat { found, .. } if found == FORMAT + 1),
        "{refused}"
    );
    assert_eq!(contents(directory.path()), before);
}

#[tokio::test]
async fn a_damaged_format_file_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    put(&open(directory.path(), Settings::default()).unwrap(), "a").await;
    for text in ["", "perennial", "perennial x\n"] {
        fs::write(directory.path().join("FORMAT"), text).unwrap();
        assert!(matches!(error(directory.path()), OpenError::Damaged { .. }));
    }
}

#[tokio::test]
async fn a_missing_file_of_the_database_is_reported() {
    for name in [
        "version",
        "0.jnl",
        "keyspaces",
        "keyspaces/0",
        "keyspaces/0/current",
        "keyspaces/1/current",
        "keyspaces/1/v0",
        "keyspaces/2",
    ] {
        let (directory, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(&open(directory.path(), Settings::default()).unwrap(), "a").await;
        let (path, kept) = (directory.path().join("data").join(name), beside.path().join("kept"));
        fs::rename(&path, &kept).unwrap();
        let refused = error(directory.path());
        assert!(matches!(refused, OpenError::Damaged { .. }), "{name}: {refused}");
        assert!(refused.to_string().contains("restore a backup"));
        // Restored from the backup, everything is there again.
        fs::rename(&kept, &path).unwrap();
        let store = open(directory.path(), Settings::default()).unwrap();
        assert!(store.get(&key("a")).await.unwrap().is_some(), "{name}");
    }
}

#[tokio::test]
async fn an_interrupted_creation_is_started_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let begin = || {
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("LOCK"), "").unwrap();
    };
    begin();
    drop(open(&path, Settings::default()).unwrap());
    for files in [&["FORMAT.new"][..], &["data/0.jnl"], &["data/0.jnl", "data/version"]] {
        fs::remove_dir_all(&path).unwrap();
        begin();
        fs::write(path.join("UNFINISHED"), "").unwrap();
        fs::create_dir(path.join("data")).unwrap();
        for file in files {
            fs::write(path.join(file), "").unwrap();
        }
        put(&open(&path, Settings::default()).unwrap(), "a").await;
        let store = open(&path, Settings::default()).unwrap();
        assert!(store.get(&key("a")).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_store_without_its_format_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    put(&open(directory.path(), Settings::default()).unwrap(), "a").await;
    fs::remove_file(directory.path().join("FORMAT")).unwrap();
    let before = contents(directory.path());
    assert!(matches!(error(directory.path()), OpenError::NotAStore { .. }));
    assert_eq!(contents(directory.path()), before);
}

#[test]
fn a_place_that_cannot_be_written_is_reported() {
    // No user can create files there.
    let refused = error(Path::new("/proc/no-store-here"));
    assert!(refused.to_string().contains("/proc/no-store-here"), "{refused}");
}

#[tokio::test]
async fn a_key_that_is_too_long_is_refused_without_harm() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Settings::default()).unwrap();
    let long = Key::new(Partition::new("x".repeat(70_000)), RecordId::of("a"));
    let op = Op::Put(Draft::new(long, ""));
    let outcome = store.commit(Commit::new(vec![op])).await;
    assert!(
        matches!(outcome, Err(perennial_store::Error::TooLarge { .. })),
        "{outcome:?}"
    );
    put(&store, "a").await;
}

/// Fills a page of the journal with zeros, as a disk may that wrote the pages around it first.
fn lose_page(store: &Path, at: usize) {
    let path = store.join("data/0.jnl");
    let mut bytes = fs::read(&path).unwrap();
    bytes[at..at + 4096].fill(0);
    fs::write(path, bytes).unwrap();
}

/// The directory that a crash leaves of an open store.
fn crash(store: FjallStore, path: &Path) -> tempfile::TempDir {
    let left = tempfile::tempdir().unwrap();
    copy(path, left.path());
    drop(store);
    left
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn a_write_torn_by_a_power_cut_never_happened() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Settings::default()).unwrap();
    put(&store, "a").await;
    let large = Op::Put(Draft::new(key("torn"), "x".repeat(20_000)));
    store.commit(Commit::new(vec![large])).await.unwrap();
    let directory = crash(store, directory.path());
    lose_page(directory.path(), 8192);
    let store = open(directory.path(), Settings::default()).unwrap();
    assert!(store.get(&key("a")).await.unwrap().is_some());
    assert!(store.get(&key("torn")).await.unwrap().is_none());
    put(&store, "b").await;
    drop(store);
    let store = open(directory.path(), Settings::default()).unwrap();
    assert!(store.get(&key("b")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_page_lost_after_it_was_synced_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Settings::default()).unwrap();
    let large = Op::Put(Draft::new(key("lost"), "x".repeat(20_000)));
    store.commit(Commit::new(vec![large])).await.unwrap();
    put(&store, "a").await;
    put(&store, "b").await;
    let directory = crash(store, directory.path());
    lose_page(directory.path(), 8192);
    let refused = error(directory.path());
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
}

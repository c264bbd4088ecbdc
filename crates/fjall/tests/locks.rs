//! Locks of a directory: named in errors, waited for within a process, and their loss noticed.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod sample;
mod support;

use perennial_fjall::{FjallStore, OpenError, Settings, open};
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, RecordId, Store};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;
use support::{Acknowledged, Writing, faults, missing};

const WRITING: Writing = Writing {
    writers: 4,
    from: 0,
    count: 1_000_000,
    body_bytes: 200,
    without_sync: false,
};

/// Not a test: the process that the tests start.
#[test]
fn child() {
    faults::be_the_child();
}

fn key(id: &str) -> Key {
    Key::new(Partition::new("p"), RecordId::of(id))
}

async fn put(store: &FjallStore, id: &str) -> Result<(), Error> {
    let op = Op::Put(Draft::new(key(id), "body"));
    store.commit(Commit::new(vec![op])).await.map(drop)
}

fn error(path: &Path) -> OpenError {
    match open(path, Settings::default()) {
        Ok(_) => panic!("{path:?} must not open"),
        Err(error) => error,
    }
}

/// A process that writes until it is told to stop.
struct Writer {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    acknowledged: Acknowledged,
    errors: Vec<String>,
}

impl Writer {
    fn start(path: &Path) -> Self {
        let mut command = support::child(path, &WRITING);
        let mut child = command.env("CHILD_WORKERS", "2").spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            lines,
            acknowledged: Acknowledged::new(),
            errors: Vec::new(),
        }
    }

    /// Reads until this many more commits were acknowledged, or the process has ended.
    fn read(&mut self, count: usize) {
        let until = self.acknowledged.len() + count;
        while self.acknowledged.len() < until {
            let Some(line) = self.lines.next() else { return };
            let line = line.unwrap();
            match line.split_once(' ') {
                Some(("acknowledged", rest)) => {
                    let (writer, n) = rest.split_once(' ').unwrap();
                    self.acknowledged.insert((writer.parse().unwrap(), n.parse().unwrap()));
                }
                Some(("error" | "later" | "refused", rest)) => self.errors.push(rest.to_owned()),
                _ => {}
            }
        }
    }

    /// Reads to the end, which the process must reach by itself.
    fn finish(&mut self) {
        self.read(usize::MAX / 2);
        assert!(self.child.wait().unwrap().success());
        // Each writer is refused, and refused again.
        assert_eq!(self.errors.len(), 8, "{:?}", self.errors);
        for error in &self.errors {
            assert!(error.contains("Fenced") && error.contains("was deleted"), "{error}");
        }
    }
}

#[test]
fn an_open_beside_a_running_process_changes_nothing_even_without_its_lock_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut writer = Writer::start(&path);
    writer.read(20);
    let refused = error(&path);
    assert!(
        matches!(refused, OpenError::Locked { process, .. } if process == Some(writer.child.id())),
        "{refused}"
    );
    assert!(
        refused.to_string().contains(&writer.child.id().to_string()),
        "{refused}"
    );
    fs::remove_file(path.join("LOCK")).unwrap();
    for _ in 0..20 {
        match open(&path, Settings::default()) {
            // The process has noticed, and is gone.
            Ok(_) => break,
            Err(refused) => assert!(matches!(refused, OpenError::Locked { .. }), "{refused}"),
        }
    }
    writer.finish();
    let store = open(&path, Settings::default()).unwrap();
    assert_eq!(missing(&store, &writer.acknowledged), []);
}

#[test]
fn a_lock_file_that_was_replaced_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut writer = Writer::start(&path);
    writer.read(20);
    fs::write(path.join("LOCK.new"), "").unwrap();
    fs::rename(path.join("LOCK.new"), path.join("LOCK")).unwrap();
    writer.finish();
    let store = open(&path, Settings::default()).unwrap();
    assert_eq!(missing(&store, &writer.acknowledged), []);
}

#[test]
fn a_replaced_directory_is_noticed_and_its_successor_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("store"), directory.path().join("moved"));
    let mut writer = Writer::start(&path);
    writer.read(20);
    fs::rename(&path, &moved).unwrap();
    let successor = open(&path, Settings::default()).unwrap();
    sample::write(&successor, 0..8);
    writer.finish();
    sample::write(&successor, 8..16);
    drop(successor);

    let successor = open(&path, Settings::default()).unwrap();
    let loss = sample::compare(&successor, 16);
    assert!(loss.silent.is_empty() && loss.told.is_empty(), "{loss:?}");
    let store = open(&moved, Settings::default()).unwrap();
    assert_eq!(missing(&store, &writer.acknowledged), []);
}

#[test]
fn replaced_data_are_noticed_and_the_replacement_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut writer = Writer::start(&path);
    writer.read(20);
    let (data, moved) = (path.join("data"), path.join("moved"));
    fs::rename(&data, &moved).unwrap();
    fs::create_dir(&data).unwrap();
    writer.finish();
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    fs::remove_dir(&data).unwrap();
    fs::rename(&moved, &data).unwrap();
    let store = open(&path, Settings::default()).unwrap();
    assert_eq!(missing(&store, &writer.acknowledged), []);
}

/// A store after a crash that interrupted the last write to its journal.
fn crashed(path: &Path) {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), Settings::default()).unwrap());
    let store = open(directory.path(), Settings::default()).unwrap();
    sample::write(&store, 1..8);
    sample::copy(directory.path(), path);
    let journal = path.join("data/0.jnl");
    let mut bytes = fs::read(&journal).unwrap();
    bytes.extend([1, 2, 3]);
    fs::write(journal, bytes).unwrap();
}

#[test]
fn nothing_is_repaired_while_an_engine_runs_whatever_became_of_the_other_locks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    crashed(&path);
    let engine = fs::File::options().write(true).open(path.join("data/lock")).unwrap();
    engine.lock().unwrap();
    fs::remove_file(path.join("LOCK")).unwrap();
    let before = fs::read(path.join("data/0.jnl")).unwrap();
    let refused = error(&path);
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    assert_eq!(fs::read(path.join("data/0.jnl")).unwrap(), before);
    drop(engine);
    drop(open(&path, Settings::default()).unwrap());
    assert_ne!(
        fs::read(path.join("data/0.jnl")).unwrap()[before.len() - 3..before.len()],
        [1, 2, 3]
    );
}

#[tokio::test]
async fn a_fenced_store_stays_fenced() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Settings::default()).unwrap();
    put(&store, "a").await.unwrap();
    let (lock, away) = (directory.path().join("LOCK"), directory.path().join("away"));
    fs::rename(&lock, &away).unwrap();
    assert!(matches!(put(&store, "b").await, Err(Error::Fenced(_))));
    fs::rename(&away, &lock).unwrap();
    assert!(matches!(put(&store, "c").await, Err(Error::Fenced(_))));
    drop(store);
    let store = open(directory.path(), Settings::default()).unwrap();
    assert!(store.get(&key("a")).await.unwrap().is_some());
    put(&store, "d").await.unwrap();
}

/// Every file with its contents.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = fs::read(path.join(&name)).unwrap();
        (name, bytes)
    };
    sample::files(path).into_iter().map(read).collect()
}

#[test]
fn tables_that_are_written_late_do_not_go_to_another_store() {
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("store"), directory.path().join("moved"));
    let store = open(&path, Settings::default()).unwrap();
    // Enough that the engine's threads have tables to write when the directory is replaced.
    for n in 0..6 {
        sample::write(&store, 100 * n..100 * (n + 1));
    }
    fs::rename(&path, &moved).unwrap();
    let successor = open(&path, Settings::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(put(&successor, "a")).unwrap();
    let before = contents(&path);
    assert!(matches!(runtime.block_on(put(&store, "b")), Err(Error::Fenced(_))));
    drop(store);
    assert_eq!(contents(&path), before);
    drop(successor);
    let store = open(&moved, Settings::default()).unwrap();
    let loss = sample::compare(&store, 600);
    assert!(loss.silent.is_empty() && loss.told.is_empty(), "{loss:?}");
}

#[test]
fn an_open_waits_for_the_handle_that_is_being_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path(), Settings::default()).unwrap();
    for n in 0..200 {
        let dropping = std::thread::spawn(move || drop(store));
        store = open(directory.path(), Settings::default()).unwrap_or_else(|error| panic!("{n}: {error}"));
        dropping.join().unwrap();
    }
}

#[test]
fn a_store_that_is_open_in_this_process_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let _store = open(directory.path(), Settings::default()).unwrap();
    let refused = error(directory.path()).to_string();
    let this = format!("in this very process ({}) by another handle", std::process::id());
    assert!(
        refused.contains(&this) && refused.contains("close that one first"),
        "{refused}"
    );
}

#[test]
fn a_dangling_link_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    symlink(directory.path().join("nowhere"), &link).unwrap();
    for path in [link.clone(), link.join("below")] {
        let refused = error(&path);
        assert!(matches!(refused, OpenError::DanglingLink { .. }), "{refused}");
        assert!(refused.to_string().contains("nowhere"), "{refused}");
    }
    assert!(!directory.path().join("nowhere").exists());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_owner_may_look_into_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("above/store");
    drop(open(&path, Settings::default()).unwrap());
    for folder in ["", "data", "journals"] {
        assert_eq!(mode(&path.join(folder)), 0o700, "{folder}");
    }
    for file in ["LOCK", "FORMAT", "journals/ledger"] {
        assert_eq!(mode(&path.join(file)), 0o600, "{file}");
    }
}

#[test]
fn links_in_a_directory_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let precious = directory.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    for name in ["LOCK", "UNFINISHED", "FORMAT.new", "data", "journals"] {
        let path: PathBuf = directory.path().join(format!("with {name}"));
        fs::create_dir(&path).unwrap();
        if name != "LOCK" {
            fs::write(path.join("UNFINISHED"), "").unwrap();
        }
        fs::remove_file(path.join(name)).ok();
        symlink(&precious, path.join(name)).unwrap();
        let refused = error(&path).to_string();
        assert!(
            refused.contains("LOCK") || refused.contains("not empty"),
            "{name}: {refused}"
        );
        assert_eq!(fs::read(&precious).unwrap(), b"precious", "{name}");
        assert!(path.join(name).is_symlink(), "{name}");
    }
}

#[test]
fn a_folder_of_another_program_is_not_deleted() {
    let files = [
        "data/thesis.txt",
        "data/keyspaces/1/notes",
        "data/0.jnl/inside",
        "journals/diary",
    ];
    for file in files {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "precious").unwrap();
        fs::write(directory.path().join("UNFINISHED"), "").unwrap();
        let before = contents(directory.path());
        assert!(matches!(error(directory.path()), OpenError::NotAStore { .. }));
        assert_eq!(contents(directory.path()), before);
    }
}

/// Waiting in an open must not depend on a second thread: an open of a handle that is never dropped is refused after a
/// while.
#[test]
fn an_open_does_not_wait_forever() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Settings::default()).unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    let path = directory.path().to_owned();
    std::thread::spawn(move || done.send(open(path, Settings::default()).is_err()));
    assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(true));
    drop(store);
}

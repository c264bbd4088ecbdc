//! A store with something in every kind of file, and what happens when a file is damaged.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, dead_code)]

use fjall::{Database, KeyspaceCreateOptions};
use perennial_fjall::{FjallStore, Settings, open};
use perennial_store::{
    Commit, Draft, DueQuery, Key, Lane, ListFilter, Listing, Op, Order, Partition, Place, RecordId, Store,
};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const TABLES: [&str; 5] = ["records", "queue", "listed", "index", "meta"];
/// How many partitions each round writes.
pub const ROUND: u64 = 8;

fn key(n: u64, id: &str) -> Key {
    Key::new(Partition::new(format!("instance {n}")), RecordId::of(id))
}

/// Every eighth page is so large that it is stored separately.
fn page(n: u64) -> String {
    let length = if n.is_multiple_of(8) { 40_000 } else { 100 };
    format!("{n:>10}").repeat(length / 10)
}

fn commit(n: u64) -> Commit {
    let place = Place {
        lane: Lane::new("work"),
        order: Order(n),
        due_ms: 0,
    };
    let listing = Listing {
        kind: "instance".into(),
        status: "Running".into(),
        name: "order".into(),
        parent: None,
        created_ms: n,
        completed_ms: None,
    };
    Commit::new(vec![
        Op::Create(Draft::new(key(n, "page"), page(n))),
        Op::Create(Draft::new(key(n, "job"), page(n)).placed(place)),
        Op::Create(Draft::new(key(n, "head"), page(n)).listed(listing)),
    ])
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

/// Writes some partitions, each in its own commit.
pub fn write(store: &FjallStore, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        run(store.commit(commit(n))).unwrap();
    }
}

/// What is wrong with the records of the first `count` partitions.
#[derive(Debug, Default)]
pub struct Loss {
    /// Records that are missing or changed without an error.
    pub silent: Vec<String>,
    /// Records that an error reports as damaged.
    pub told: Vec<String>,
}

pub fn compare(store: &FjallStore, count: u64) -> Loss {
    let mut loss = Loss::default();
    for n in 0..count {
        for id in ["page", "job", "head"] {
            match run(store.get(&key(n, id))) {
                Ok(Some(record)) if record.body == page(n) => {}
                Ok(found) => loss.silent.push(format!("{id} {n}: {}", found.is_some())),
                Err(error) => loss.told.push(format!("{id} {n}: {error}")),
            }
        }
    }
    let due = run(store.due(&DueQuery::new(&Lane::new("work"), 10, 1_000_000)));
    match due {
        Ok(page) if page.records.len() as u64 == count || store.stats().damaged > 0 => {}
        Ok(page) => loss.silent.push(format!("{} are due", page.records.len())),
        Err(error) => loss.told.push(format!("due: {error}")),
    }
    match run(store.list(&ListFilter::kind("instance"), None, 1_000_000)) {
        Ok(page) if page.entries.len() as u64 == count => {}
        Ok(page) => loss.silent.push(format!("{} are listed", page.entries.len())),
        Err(error) => loss.told.push(format!("list: {error}")),
    }
    loss
}

/// Makes the engine write everything that it holds in memory to tables.
fn flush(path: &Path, compact: bool) {
    let db = Database::builder(path.join("data")).worker_threads(1).open().unwrap();
    for table in TABLES {
        let table = db.keyspace(table, KeyspaceCreateOptions::default).unwrap();
        table.rotate_memtable_and_wait().unwrap();
        if compact {
            table.major_compact().unwrap();
        }
    }
}

/// A store that was closed, with several tables on two levels and files of large values; and how many partitions it has.
pub fn with_tables(path: &Path) -> u64 {
    for round in 0..3 {
        write(
            &open(path, Settings::default()).unwrap(),
            ROUND * round..ROUND * (round + 1),
        );
        flush(path, round == 1);
    }
    ROUND * 3
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// The files below a folder, by their names relative to it.
pub fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap().map(Result::unwrap) {
            let name = folder.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(name),
                false => found.push(name.to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

/// The result of opening a damaged store.
#[derive(Debug)]
pub enum Outcome {
    Refused(String),
    Opened(Loss),
}

/// A store of which files are damaged, one at a time.
pub struct Victim {
    whole: TempDir,
    work: TempDir,
    count: u64,
    /// How many changes were refused, were harmless, or damaged single records.
    pub refused: usize,
    pub harmless: usize,
    pub told: usize,
}

impl Victim {
    /// A victim that is a copy of a store with `count` partitions.
    pub fn new(store: &Path, count: u64) -> Self {
        let whole = tempfile::tempdir().unwrap();
        copy(store, whole.path());
        let mut victim = Self {
            whole,
            work: tempfile::tempdir().unwrap(),
            count,
            refused: 0,
            harmless: 0,
            told: 0,
        };
        victim.heal();
        victim
    }

    pub fn whole(&self) -> &Path {
        self.whole.path()
    }

    pub fn work(&self) -> PathBuf {
        self.work.path().join("store")
    }

    pub fn heal(&mut self) {
        self.work = tempfile::tempdir().unwrap();
        copy(self.whole.path(), &self.work());
    }

    /// Opens the store and reads all records.
    pub fn open(&self) -> Outcome {
        match open(self.work(), Settings::default()) {
            Ok(store) => Outcome::Opened(compare(&store, self.count)),
            Err(error) => Outcome::Refused(error.to_string()),
        }
    }

    /// Changes a file and opens the store. A refusal must name the file, and leave the store as it is; an open must
    /// lose nothing silently. Where records themselves are changed, an error need not say where.
    pub fn change(&mut self, name: &str, what: &str, new: Option<Vec<u8>>, is_record: bool) {
        let path = self.work().join(name);
        let old = fs::read(&path).unwrap();
        match new {
            Some(new) => fs::write(&path, new).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        match self.open() {
            Outcome::Refused(why) => {
                assert!(is_record || why.contains(name), "{name}, {what}: {why}");
                match why.contains(name) {
                    true => self.refused += 1,
                    false => self.told += 1,
                }
                fs::write(&path, old).unwrap();
            }
            Outcome::Opened(loss) => {
                assert!(loss.silent.is_empty(), "{name}, {what}: {loss:?}");
                match loss.told.is_empty() {
                    true => self.harmless += 1,
                    false => self.told += 1,
                }
                self.heal();
            }
        }
    }

    /// Removes the file, and flips bits in it. Up to `records` it holds records.
    pub fn damage(&mut self, name: &str, positions: impl IntoIterator<Item = usize>, patterns: &[u8], records: usize) {
        let whole = fs::read(self.whole().join(name)).unwrap();
        self.change(name, "removed", None, false);
        for at in positions {
            let mut flipped = whole.clone();
            let pattern = patterns[at % patterns.len()];
            flipped[at] ^= pattern;
            self.change(name, &format!("byte {at} xor {pattern}"), Some(flipped), at < records);
        }
    }

    pub fn cut(&mut self, name: &str, stride: usize) {
        let whole = fs::read(self.whole().join(name)).unwrap();
        for length in (0..whole.len()).step_by(stride) {
            self.change(name, &format!("cut to {length}"), Some(whole[..length].to_vec()), false);
        }
    }
}

/// Whether every bit is to be flipped, instead of one or two of each byte.
pub fn is_exhaustive() -> bool {
    std::env::var_os("PERENNIAL_EXHAUSTIVE").is_some()
}

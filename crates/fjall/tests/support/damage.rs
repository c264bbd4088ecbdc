//! A store whose records all are in tables and blob files, and what is left of it after damage.

use perennial_fjall::{FjallStore, OpenError, Settings, open};
use perennial_store::{
    Commit, Draft, DueQuery, Error, Key, Lane, ListFilter, Listing, Op, Order, Partition, Place, RecordId, ScanQuery,
    Store,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The size of a value that is stored in a blob file.
const LARGE: usize = 40_000;
const PARTITIONS: usize = 8;

/// What was written, by key.
pub type Written = BTreeMap<Key, String>;

fn key(partition: usize, id: &str) -> Key {
    Key::new(Partition::new(format!("instance {partition}")), RecordId::of(id))
}

/// Text that compresses a little, and differs from record to record.
fn text(seed: usize, length: usize) -> String {
    let mut state = seed as u64 * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (state >> 59) as u8 % 26)
    };
    (0..length).map(|_| next()).collect()
}

fn place(order: usize) -> Place {
    Place {
        lane: Lane::new("work"),
        order: Order(order as u64),
        due_ms: 0,
    }
}

fn listing(partition: usize) -> Listing {
    Listing {
        kind: "instance".into(),
        status: "running".into(),
        name: format!("name {partition}"),
        parent: None,
        created_ms: 1,
        completed_ms: None,
    }
}

/// Records of every kind, of both sizes.
fn drafts() -> Vec<Draft> {
    let mut drafts = Vec::new();
    for n in 0..PARTITIONS {
        for (at, size) in [300, LARGE].into_iter().enumerate() {
            let seed = n * 16 + at * 8;
            drafts.push(Draft::new(key(n, &format!("page-{size}")), text(seed, size)));
            drafts.push(Draft::new(key(n, &format!("message-{size}")), text(seed + 1, size)).placed(place(seed)));
            drafts.push(Draft::new(key(n, &format!("head-{size}")), text(seed + 2, size)).listed(listing(n)));
        }
    }
    drafts
}

/// Moves all that is in journals to tables and blob files.
pub fn flush(path: &Path) {
    let db = fjall::Database::builder(path.join("data")).open().unwrap();
    for table in ["records", "queue", "listed", "index", "meta"] {
        let table = db.keyspace(table, fjall::KeyspaceCreateOptions::default).unwrap();
        table.rotate_memtable_and_wait().unwrap();
    }
}

/// A whole store, to be copied and damaged.
pub struct Original {
    directory: TempDir,
    pub written: Written,
}

impl Original {
    pub async fn make() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path(), Settings::default()).unwrap();
        let drafts = drafts();
        for draft in &drafts {
            store.commit(Commit::new(vec![Op::Put(draft.clone())])).await.unwrap();
        }
        drop(store);
        flush(directory.path());
        let text = |draft: Draft| String::from_utf8(draft.body.to_vec()).unwrap();
        Self {
            directory,
            written: drafts
                .into_iter()
                .map(|draft| (draft.key.clone(), text(draft)))
                .collect(),
        }
    }

    /// A copy that may be damaged.
    pub fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_all(self.directory.path(), copy.path());
        copy
    }

    /// The files of one kind below the directory of a table, relative to the store.
    pub fn files(&self, kind: &str) -> Vec<PathBuf> {
        let root = self.directory.path();
        let mut files = Vec::new();
        for table in fs::read_dir(root.join("data/keyspaces")).unwrap() {
            let Ok(found) = fs::read_dir(table.unwrap().path().join(kind)) else {
                continue;
            };
            let found = found.map(|file| file.unwrap().path().strip_prefix(root).unwrap().to_owned());
            files.extend(found);
        }
        files.sort();
        files
    }

    pub fn length(&self, file: &Path) -> u64 {
        fs::metadata(self.directory.path().join(file)).unwrap().len()
    }

    /// Where the header of the value of a record begins, in which blob file.
    pub fn value_of(&self, key: &Key) -> (PathBuf, usize) {
        let mut name = key.partition.as_str().as_bytes().to_vec();
        name.extend([0, 1]);
        name.extend(key.id.as_str().as_bytes());
        for file in self.files("blobs") {
            let bytes = fs::read(self.directory.path().join(&file)).unwrap();
            let at = bytes.windows(name.len()).position(|window| window == name);
            if let Some(at) = at {
                return (file, at - 38);
            }
        }
        panic!("{key} has no value in a blob file");
    }
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => {
                fs::create_dir_all(&target).unwrap();
                copy_all(&entry.path(), &target);
            }
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Changes one byte of a file.
pub fn flip(path: &Path, at: u64, mask: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at as usize] ^= mask;
    fs::write(path, bytes).unwrap();
}

/// The result of opening a damaged store.
#[derive(Debug)]
pub enum Outcome {
    /// It was refused, with this message.
    Refused(String),
    /// It opened; these records cannot be read, all others are intact.
    Opened(Vec<Key>),
}

/// Opens a damaged store and reads all of it, in every way. Nothing may be missing silently.
pub async fn examine(path: &Path, written: &Written) -> Outcome {
    let store = match open(path, Settings::default()) {
        Ok(store) => store,
        Err(error @ OpenError::Damaged { .. }) => return Outcome::Refused(error.to_string()),
        Err(error) => panic!("refused for another reason than damage: {error}"),
    };
    let damaged = unreadable(&store, written).await;
    check_queue(&store, written, &damaged).await;
    check_scans(&store, written, &damaged).await;
    check_listing(&store, written, &damaged).await;
    Outcome::Opened(damaged)
}

/// The records that cannot be read by their keys. All others must be what was written.
pub async fn unreadable(store: &FjallStore, written: &Written) -> Vec<Key> {
    let mut damaged = Vec::new();
    for (key, text) in written {
        match store.get(key).await {
            Ok(Some(record)) => assert!(record.body == text.as_bytes(), "{key} was changed silently"),
            Ok(None) => panic!("{key} is missing silently"),
            Err(Error::Corrupt(_)) => damaged.push(key.clone()),
            Err(other) => panic!("{key}: {other}"),
        }
    }
    damaged
}

async fn check_queue(store: &FjallStore, written: &Written, damaged: &[Key]) {
    let page = store.due(&DueQuery::new(&Lane::new("work"), 0, 1_000)).await.unwrap();
    let found: Vec<&Key> = page.records.iter().map(|record| &record.key).collect();
    for key in written.keys().filter(|key| key.id.as_str().starts_with("message")) {
        assert_ne!(found.contains(&key), damaged.contains(key), "{key} in its queue");
    }
    let in_queue = damaged.iter().filter(|key| key.id.as_str().starts_with("message"));
    assert!(store.stats().damaged >= in_queue.count() as u64, "not all are counted");
}

/// A scan returns all of a partition, or reports that it is damaged.
async fn check_scans(store: &FjallStore, written: &Written, damaged: &[Key]) {
    for n in 0..PARTITIONS {
        let partition = Partition::new(format!("instance {n}"));
        let wanted: Vec<&Key> = written.keys().filter(|key| key.partition == partition).collect();
        match store.scan(&ScanQuery::all(partition.clone(), 1_000)).await {
            Ok(page) => {
                assert_eq!(
                    page.records.iter().map(|record| &record.key).collect::<Vec<_>>(),
                    wanted
                );
                assert!(damaged.iter().all(|key| key.partition != partition));
            }
            Err(Error::Corrupt(_)) => {}
            Err(other) => panic!("{partition}: {other}"),
        }
    }
}

/// A listing leaves out what cannot be read, or fails.
async fn check_listing(store: &FjallStore, written: &Written, damaged: &[Key]) {
    for status in [None, Some("running".into())] {
        let filter = ListFilter {
            status,
            ..ListFilter::kind("instance")
        };
        match store.list(&filter, None, 1_000).await {
            Ok(page) => {
                let found: Vec<&Key> = page.entries.iter().map(|entry| &entry.key).collect();
                for key in written.keys().filter(|key| key.id.as_str().starts_with("head")) {
                    assert_ne!(found.contains(&key), damaged.contains(key), "{key} in the listing");
                }
            }
            Err(Error::Corrupt(why)) => assert!(why.contains("/tables/"), "{why}"),
            Err(other) => panic!("listing: {other}"),
        }
    }
}

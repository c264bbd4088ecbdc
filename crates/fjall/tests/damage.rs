//! Damage in one place harms the records there, and nothing else.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use perennial_fjall::{Settings, open};
use perennial_store::{Commit, Draft, Error, Key, Op, Store};
use std::fs;
use std::process::Command;
use support::damage::{Original, Outcome, examine, flip, unreadable};

/// Tries every n-th byte; `DAMAGE_STRIDE=1` tries all.
fn stride(default: usize) -> usize {
    std::env::var("DAMAGE_STRIDE").map_or(default, |stride| stride.parse().unwrap())
}

/// Where a file is damaged, one place at a time: evenly, and more often at its end, which locates everything.
fn places(length: u64, stride: usize) -> impl Iterator<Item = u64> {
    let end = length.saturating_sub(48)..length;
    (0..length).step_by(stride).chain(end.step_by(stride.min(7)))
}

#[derive(Default, Debug)]
struct Counters {
    flips: usize,
    refused: usize,
    whole: usize,
    harmed: usize,
    /// The most records that one flip harmed.
    most: usize,
}

impl Counters {
    async fn flip(&mut self, original: &Original, file: &std::path::Path, at: u64) {
        let copy = original.copy();
        flip(&copy.path().join(file), at, 1 << (at % 8));
        self.flips += 1;
        match examine(copy.path(), &original.written).await {
            Outcome::Refused(why) => {
                assert!(why.contains(&*file.to_string_lossy()), "byte {at} of {file:?}: {why}");
                self.refused += 1;
            }
            Outcome::Opened(damaged) => {
                self.whole += usize::from(damaged.is_empty());
                self.harmed += usize::from(!damaged.is_empty());
                self.most = self.most.max(damaged.len());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_of_a_blob_file_harms_one_record_or_refuses_the_store() {
    let original = Original::make().await;
    let mut counters = Counters::default();
    let stride = stride(9_973);
    for file in original.files("blobs") {
        for at in places(original.length(&file), stride) {
            counters.flip(&original, &file, at).await;
        }
    }
    println!("blob files: {counters:?}");
    assert!(counters.harmed > 0 && counters.most == 1, "{counters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_of_a_values_header_harms_that_record() {
    let original = Original::make().await;
    let mut counters = Counters::default();
    let large = original
        .written
        .keys()
        .filter(|key| key.id.as_str().ends_with("-40000"));
    let step = match stride(9_973) {
        1 => 1,
        _ => 9,
    };
    for key in large.step_by(step) {
        let (file, start) = original.value_of(key);
        for at in start..start + 38 {
            counters.flip(&original, &file, at as u64).await;
        }
    }
    println!("headers: {counters:?}");
    // The engine never reads the sequence number, of 8 bytes.
    assert!(
        counters.refused == 0 && counters.most == 1 && counters.whole * 38 <= counters.flips * 8,
        "{counters:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_of_a_table_harms_one_block_or_refuses_the_store() {
    let original = Original::make().await;
    let mut counters = Counters::default();
    let stride = stride(97);
    for file in original.files("tables") {
        for at in places(original.length(&file), stride) {
            counters.flip(&original, &file, at).await;
        }
    }
    println!("tables: {counters:?}");
    assert!(counters.harmed > 0, "{counters:?}");
}

/// The records whose values are in one blob file, and its path.
fn in_one_file(original: &Original, kind: &str) -> (std::path::PathBuf, Vec<Key>) {
    let keys: Vec<Key> = original
        .written
        .keys()
        .filter(|key| key.id.as_str() == kind)
        .cloned()
        .collect();
    let (file, _) = original.value_of(&keys[0]);
    (file, keys)
}

fn cold() -> Settings {
    Settings {
        cache_bytes: 0,
        ..Settings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_beyond_the_end_of_its_file_harms_that_record() {
    let original = Original::make().await;
    let (file, keys) = in_one_file(&original, "page-40000");
    let copy = original.copy();
    let store = open(copy.path(), cold()).unwrap();
    let last = keys.iter().max_by_key(|key| original.value_of(key).1).unwrap();
    let end = original.value_of(last).1 as u64 + 1_000;
    let file = fs::File::options().write(true).open(copy.path().join(file)).unwrap();
    file.set_len(end).unwrap();
    assert_eq!(unreadable(&store, &original.written).await, std::slice::from_ref(last));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_read_harms_the_records_in_it() {
    let original = Original::make().await;
    let (file, keys) = in_one_file(&original, "page-40000");
    let copy = original.copy();
    let store = open(copy.path(), cold()).unwrap();
    let path = copy.path().join(file);
    fs::remove_file(&path).unwrap();
    // It can be opened, and every read from it is an error of the operating system.
    fs::create_dir(&path).unwrap();
    assert_eq!(unreadable(&store, &original.written).await, keys);
    let told = store.get(&keys[0]).await.unwrap_err().to_string();
    assert!(told.contains("while the rest of the disk works"), "{told}");
    assert!(told.contains(&*path.to_string_lossy()), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_record_can_be_replaced_and_removed_but_not_created() {
    let original = Original::make().await;
    for kind in ["page-40000", "message-40000", "head-40000"] {
        let keys: Vec<&Key> = original.written.keys().filter(|key| key.id.as_str() == kind).collect();
        let copy = original.copy();
        for key in &keys[..3] {
            let (file, at) = original.value_of(key);
            flip(&copy.path().join(file), at as u64 + 1_000, 1);
        }
        let store = open(copy.path(), Settings::default()).unwrap();
        let commit = |op| store.commit(Commit::new(vec![op]));
        let draft = |key: &Key| Draft::new(key.clone(), "mended");
        assert!(commit(Op::Create(draft(keys[0]))).await.is_err());
        commit(Op::Put(draft(keys[1]))).await.unwrap();
        commit(Op::Remove(keys[2].clone())).await.unwrap();
        drop(store);
        let store = open(copy.path(), Settings::default()).unwrap();
        assert!(matches!(store.get(keys[0]).await, Err(Error::Corrupt(_))));
        assert_eq!(store.get(keys[1]).await.unwrap().unwrap().body, "mended");
        assert_eq!(store.get(keys[2]).await.unwrap(), None);
    }
}

/// Runs a test of this binary, which does something only there, in a separate process.
fn run_child(name: &str, store: &std::path::Path, prepare: impl FnOnce(&mut Command)) -> String {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v ${CHILD_MEMORY:-unlimited}; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("CHILD_DAMAGED", store);
    prepare(&mut command);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// The child's part: opens a store and reports for each record whether it can be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(path) = std::env::var_os("CHILD_DAMAGED") else {
        return;
    };
    let store = open(path, cold()).unwrap();
    if let Some((list, words)) = std::env::var("READ_FAULTS")
        .ok()
        .zip(std::env::var("CHILD_FAULTS").ok())
    {
        fs::write(list, words).unwrap();
    }
    for (key, _) in Original::make().await.written {
        let outcome = match store.get(&key).await {
            Ok(Some(_)) => "whole",
            Ok(None) => "missing",
            Err(Error::Corrupt(_)) => "damaged",
            Err(Error::Unavailable(_)) => "unavailable",
            Err(_) => "wrong",
        };
        println!("\n{outcome} {key}");
    }
}

fn told(text: &str, outcome: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(outcome));
    lines.map(|key| key.trim().to_owned()).collect()
}

/// What a child reports of each record while reads of some files fail.
async fn with_read_errors(original: &Original, words: impl FnOnce(&std::path::Path) -> String) -> String {
    let (copy, beside) = (original.copy(), tempfile::tempdir().unwrap());
    let library = support::compile(beside.path(), "reads");
    let words = words(copy.path());
    run_child("child", copy.path(), |command| {
        command
            .env("LD_PRELOAD", library)
            .env("READ_FAULTS", beside.path().join("faults"))
            .env("CHILD_FAULTS", words);
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_io_error_in_one_file_harms_the_records_in_it() {
    let original = Original::make().await;
    let (file, keys) = in_one_file(&original, "page-40000");
    let text = with_read_errors(&original, |_| file.to_string_lossy().into_owned()).await;
    let keys: Vec<String> = keys.iter().map(Key::to_string).collect();
    assert_eq!(told(&text, "damaged"), keys, "{text}");
    assert_eq!(
        told(&text, "whole").len(),
        original.written.len() - keys.len(),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn io_errors_everywhere_make_the_store_unavailable() {
    let original = Original::make().await;
    let text = with_read_errors(&original, |store| store.to_string_lossy().into_owned()).await;
    assert!(
        told(&text, "damaged").is_empty() && told(&text, "missing").is_empty(),
        "{text}"
    );
    // What the engine has in memory can be read.
    assert!(told(&text, "unavailable").len() >= original.written.len() / 2, "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_of_gigabytes_allocates_nothing() {
    let original = Original::make().await;
    let key = original
        .written
        .keys()
        .find(|key| key.id.as_str() == "message-40000")
        .unwrap();
    let (file, start) = original.value_of(key);
    let copy = original.copy();
    // The length before compression: the engine would allocate almost 4 GiB for it.
    flip(&copy.path().join(file), start as u64 + 33, 0xFF);
    let text = run_child("child", copy.path(), |command| {
        command.env("CHILD_MEMORY", (3 << 20).to_string());
    });
    assert_eq!(told(&text, "damaged"), [key.to_string()], "{text}");
}

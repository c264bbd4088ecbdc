//! Journals that are missing, cut, changed or mixed up: the store is refused by the name of the file, or nothing is
//! lost.
//!
//! By default some positions are tried. With `PERENNIAL_EXHAUSTIVE` in the environment it is every byte and every
//! length.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod sample;
mod support;

use perennial_fjall::{Settings, open};
use sample::{Victim, compare, is_exhaustive};
use std::fs;
use std::path::Path;
use support::{Acknowledged, Writing, be_the_child, kill_after, missing, start_child};

const JOURNAL: &str = "data/0.jnl";

/// Not a test: the process that the tests start and kill.
#[test]
fn child() {
    be_the_child();
}

/// A small store that was closed, or crashed, with one journal and nothing in tables.
fn small(is_closed: bool) -> Victim {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    drop(open(&path, Settings::default()).unwrap());
    // The second open cuts the journal to its content.
    let store = open(&path, Settings::default()).unwrap();
    sample::write(&store, [7, 5, 4, 3, 2, 1]);
    let crashed = tempfile::tempdir().unwrap();
    sample::copy(&path, crashed.path());
    drop(store);
    match is_closed {
        true => Victim::new(&path, 0),
        false => Victim::new(crashed.path(), 0),
    }
}

/// The partitions that a small store lacks, in the order in which they were written.
fn lacks(victim: &Victim) -> Result<Vec<u64>, String> {
    match open(victim.work(), Settings::default()) {
        Err(error) => Err(error.to_string()),
        Ok(store) => {
            let loss = compare(&store, 8);
            let lacks = |n: &u64| loss.silent.iter().any(|lost| lost.ends_with(&format!(" {n}: false")));
            Ok([7, 5, 4, 3, 2, 1].into_iter().filter(lacks).collect())
        }
    }
}

/// Every change that can be made at a position of a journal.
fn changes(whole: &[u8], at: usize) -> Vec<(String, Vec<u8>)> {
    let flip = |pattern: u8| {
        let mut flipped = whole.to_vec();
        flipped[at] ^= pattern;
        (format!("byte {at} xor {pattern}"), flipped)
    };
    let mut zeroed = whole.to_vec();
    zeroed[at..].fill(0);
    let mut changes = vec![
        flip(if at.is_multiple_of(2) { 0xff } else { 1 << (at / 2 % 8) }),
        (format!("cut at {at}"), whole[..at].to_vec()),
        (format!("zeroed from {at}"), zeroed),
    ];
    if is_exhaustive() {
        changes.extend((0..8).map(|bit| flip(1 << bit)));
    }
    changes
}

fn positions(whole: &[u8]) -> impl Iterator<Item = usize> {
    (0..whole.len()).step_by(if is_exhaustive() { 1 } else { 5 })
}

#[test]
fn the_journal_of_a_closed_store_loses_nothing_unnoticed() {
    let victim = small(true);
    let path = victim.work().join(JOURNAL);
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 4_000 && whole.len() < 50_000, "{}", whole.len());
    let mut refused = 0;
    for at in positions(&whole) {
        for (what, changed) in changes(&whole, at) {
            fs::write(&path, changed).unwrap();
            let why = lacks(&victim).expect_err(&what);
            assert!(why.contains(JOURNAL), "{what}: {why}");
            refused += 1;
        }
    }
    println!("{refused} changes of {} bytes refused by name", whole.len());
    fs::write(&path, &whole).unwrap();
    assert_eq!(lacks(&victim), Ok(Vec::new()));
}

#[test]
fn the_journal_of_a_crashed_store_loses_nothing_unnoticed_but_its_end() {
    let mut victim = small(false);
    let whole = fs::read(victim.work().join(JOURNAL)).unwrap();
    let (mut refused, mut opened) = (0, 0);
    for at in positions(&whole) {
        for (what, changed) in changes(&whole, at) {
            let is_flip = what.contains("xor");
            // Most of these open, which takes its time.
            if !is_flip && !at.is_multiple_of(50) && !is_exhaustive() {
                continue;
            }
            fs::write(victim.work().join(JOURNAL), changed).unwrap();
            match lacks(&victim) {
                Err(why) => {
                    assert!(why.contains(JOURNAL), "{what}: {why}");
                    refused += 1;
                }
                Ok(lost) => {
                    opened += 1;
                    // Only the end: nothing before the first commit that is there. One flip damages one commit.
                    assert!([1, 2, 3, 4, 5, 7].starts_with(&reversed(&lost)), "{what}: {lost:?}");
                    assert!(!is_flip || lost.len() <= 1, "{what}: {lost:?}");
                    victim.heal();
                }
            }
        }
    }
    println!(
        "{refused} changes of {} bytes refused by name, {opened} opened",
        whole.len()
    );
}

fn reversed(numbers: &[u64]) -> Vec<u64> {
    numbers.iter().rev().copied().collect()
}

#[test]
fn a_journal_that_is_missing_or_renamed_is_refused_by_name() {
    for is_closed in [true, false] {
        let mut victim = small(is_closed);
        for other in ["gone", "data/1.jnl", "data/7.jnl", "data/x.jnl", "data/00.jnl"] {
            fs::rename(victim.work().join(JOURNAL), victim.work().join(other)).unwrap();
            let why = lacks(&victim).unwrap_err();
            assert!(why.contains(JOURNAL) || why.contains(other), "{other}: {why}");
            fs::rename(victim.work().join(other), victim.work().join(JOURNAL)).unwrap();
            assert_eq!(lacks(&victim), Ok(Vec::new()));
            victim.heal();
        }
    }
}

#[test]
fn a_ledger_that_is_missing_is_refused_by_name() {
    for is_closed in [true, false] {
        let victim = small(is_closed);
        fs::remove_dir_all(victim.work().join("journals")).unwrap();
        let why = lacks(&victim).unwrap_err();
        assert!(why.contains("journals/ledger is missing"), "{why}");
    }
}

const FILLING: Writing = Writing {
    writers: 8,
    from: 0,
    count: 1_000_000,
    body_bytes: 200_000,
    without_sync: false,
};

/// Kills a process when it has filled a journal and begun another; returns its acknowledged commits.
fn fill_a_journal(path: &Path) -> Acknowledged {
    let acknowledged = kill_after(start_child(path, &FILLING, None), 360);
    for name in ["0.jnl", "1.jnl"] {
        assert!(path.join("data").join(name).exists(), "{name} is there");
        assert!(path.join("journals").join(name).exists(), "{name} has a second name");
    }
    acknowledged
}

/// Asserts that an open is refused, and changes nothing.
fn assert_refused(path: &Path, names: &[&str], what: &str) {
    let lengths = || ["0.jnl", "1.jnl"].map(|name| fs::metadata(path.join("data").join(name)).ok().map(|it| it.len()));
    let before = lengths();
    let why = match open(path, Settings::default()) {
        Ok(_) => panic!("{what}: it must not open"),
        Err(error) => error.to_string(),
    };
    assert!(names.iter().any(|name| why.contains(name)), "{what}: {why}");
    assert_eq!(lengths(), before, "{what}");
}

#[test]
fn a_sealed_journal_is_whole_and_no_journal_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut acknowledged = fill_a_journal(&path);
    let (sealed, active) = (path.join("data/0.jnl"), path.join("data/1.jnl"));
    let kept = path.join("kept");

    // The original content is kept beside, so that each change starts from it.
    let whole = fs::read(&sealed).unwrap();
    let end = 1 + whole.iter().rposition(|byte| *byte != 0).unwrap();
    assert!(end > 64_000_000, "the engine seals no journal before that");
    let mut changed = [(); 6].map(|()| whole.clone());
    changed[0].truncate(0);
    changed[1].truncate(end / 2);
    changed[2].truncate(end - 1);
    changed[3][end / 2..].fill(0);
    changed[4][end - 1] ^= 1;
    changed[5][5] ^= 1;
    fs::hard_link(&sealed, &kept).unwrap();
    for (n, changed) in changed.iter().enumerate() {
        fs::write(&sealed, changed).unwrap();
        assert_refused(&path, &["data/0.jnl"], &format!("change {n}"));
    }
    fs::write(&sealed, &whole).unwrap();
    drop(changed);

    fs::rename(&active, path.join("away")).unwrap();
    assert_refused(&path, &["data/1.jnl"], "the active one is missing");
    fs::rename(&sealed, &active).unwrap();
    assert_refused(&path, &["data/0.jnl", "data/1.jnl"], "one under the name of the other");
    fs::rename(&active, &sealed).unwrap();
    fs::rename(path.join("away"), &active).unwrap();

    let other = path.join("journals/0.jnl");
    fs::remove_file(&sealed).unwrap();
    fs::rename(&other, path.join("other")).unwrap();
    assert_refused(&path, &["data/0.jnl"], "the sealed one is missing");
    fs::rename(path.join("other"), &other).unwrap();
    fs::remove_file(&kept).unwrap();

    // The engine deletes a sealed journal when it is in tables, perhaps just before a crash: its second name is left.
    let store = open(&path, Settings::default()).unwrap();
    assert_eq!(missing(&store, &acknowledged), []);
    drop(store);
    let more = Writing {
        from: 1_000_000,
        ..FILLING
    };
    acknowledged.append(&mut kill_after(start_child(&path, &more, None), 700));
    let store = open(&path, Settings::default()).unwrap();
    assert_eq!(missing(&store, &acknowledged), [], "after journals were deleted");
    drop(store);

    // Of a closed store, all are needed.
    let names = sample::files(&path.join("data"));
    for name in names.iter().filter(|name| name.ends_with(".jnl")) {
        let name = format!("data/{name}");
        fs::rename(path.join(&name), &kept).unwrap();
        assert_refused(&path, &[&name], "missing after a close");
        fs::rename(&kept, path.join(&name)).unwrap();
    }
    let store = open(&path, Settings::default()).unwrap();
    assert_eq!(missing(&store, &acknowledged), [], "after a close");
}

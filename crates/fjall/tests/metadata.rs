//! Damaged metadata of the engine: refused by name, or nothing is lost.
//!
//! By default one bit pattern is tried for each byte. With `PERENNIAL_EXHAUSTIVE` in the environment it is every bit of every
//! byte, and every length.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod sample;

use sample::{Outcome, Victim, files, is_exhaustive};
use std::fs;
use std::path::Path;

/// Which patterns are tried, one round each.
fn rounds() -> Vec<Vec<u8>> {
    match is_exhaustive() {
        true => (0..8).map(|bit| vec![1 << bit]).chain([vec![0xff]]).collect(),
        false => vec![vec![0xff, 1, 0xff, 128, 0xff, 16]],
    }
}

fn victim() -> Victim {
    let directory = tempfile::tempdir().unwrap();
    let count = sample::with_tables(directory.path());
    Victim::new(directory.path(), count)
}

fn names(victim: &Victim, belongs: impl Fn(&str) -> bool) -> Vec<String> {
    let names: Vec<String> = files(victim.whole()).into_iter().filter(|name| belongs(name)).collect();
    assert!(!names.is_empty());
    names
}

fn length(victim: &Victim, name: &str) -> usize {
    fs::metadata(victim.whole().join(name)).unwrap().len() as usize
}

fn is_manifest(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap();
    name.starts_with("data/keyspaces/") && (last == "current" || last.starts_with('v'))
}

fn report(what: &str, victim: &Victim) {
    println!(
        "{what}: {} refused by name, {} harmless, {} told of damaged records",
        victim.refused, victim.harmless, victim.told
    );
}

#[test]
fn every_flipped_byte_of_a_manifest_is_refused_by_name_or_harmless() {
    let mut victim = victim();
    let names = names(&victim, |name| is_manifest(name) || name == "data/version");
    assert_eq!(names.len(), 2 * 6 + 1);
    for patterns in rounds() {
        for name in &names {
            victim.damage(name, 0..length(&victim, name), &patterns);
        }
    }
    report("manifests", &victim);
    assert_eq!(victim.told, 0);
    assert!(matches!(victim.open(), Outcome::Opened(loss) if loss.told.is_empty() && loss.silent.is_empty()));
}

#[test]
fn every_cut_manifest_is_refused_by_name() {
    let mut victim = victim();
    for name in names(&victim, |name| is_manifest(name) || name == "data/version") {
        victim.cut(&name, if is_exhaustive() { 1 } else { 7 });
    }
    report("cut manifests", &victim);
    assert_eq!((victim.harmless, victim.told), (0, 0));
}

#[test]
fn every_flipped_byte_of_our_own_files_is_refused_by_name_or_harmless() {
    let mut victim = victim();
    for patterns in rounds() {
        for name in ["FORMAT", "journals/ledger"] {
            victim.damage(name, 0..length(&victim, name), &patterns);
        }
    }
    victim.cut("journals/ledger", 1);
    report("our own", &victim);
}

/// Where the records of a table, or the values of a file of large ones, end and its metadata begins.
fn metadata_start(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let contents = number(bytes.len() - 16);
    // The first section of the table of contents: its position and length.
    assert_eq!(number(contents + 8), 0);
    number(contents + 16)
}

/// Damages the metadata of files byte by byte, and what it describes here and there.
fn damage_metadata(folder: &str) -> Victim {
    let mut victim = victim();
    for patterns in rounds() {
        for name in names(&victim, |name| name.contains(folder)) {
            let start = metadata_start(&victim.whole().join(&name));
            let step = 1 + start / if is_exhaustive() { 100 } else { 8 };
            let positions: Vec<usize> = (0..start).step_by(step).chain(start..length(&victim, &name)).collect();
            victim.damage(&name, positions, &patterns);
        }
    }
    for name in names(&victim, |name| name.contains(folder)) {
        let stride = 1 + length(&victim, &name) / 20;
        victim.cut(&name, stride);
    }
    report(folder, &victim);
    victim
}

#[test]
fn every_flipped_byte_of_a_tables_metadata_is_refused_by_name_or_harmless() {
    let victim = damage_metadata("/tables/");
    assert!(victim.told > 0, "some flips are in the records themselves");
}

#[test]
fn every_flipped_byte_of_the_metadata_of_large_values_is_refused_by_name_or_harmless() {
    damage_metadata("/blobs/");
}

#[test]
fn folders_that_are_missing_are_refused_by_name() {
    let mut victim = victim();
    let trees = (0..6).map(|n| format!("data/keyspaces/{n}"));
    let folders: Vec<String> = [
        "data",
        "data/keyspaces",
        "data/keyspaces/1/tables",
        "data/keyspaces/1/blobs",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(trees)
    .collect();
    for name in folders {
        fs::remove_dir_all(victim.work().join(&name)).unwrap();
        match victim.open() {
            Outcome::Refused(why) => assert!(why.contains(&name), "{name}: {why}"),
            Outcome::Opened(loss) => panic!("{name}: {loss:?}"),
        }
        victim.heal();
    }
}

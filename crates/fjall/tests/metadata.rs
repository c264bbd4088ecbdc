//! Damaged metadata of the engine: the store is refused by the name of the file, or nothing is lost.
//!
//! By default one bit pattern is tried for each byte of a manifest, and for every seventh of the metadata of tables.
//! With `PERENNIAL_EXHAUSTIVE` in the environment it is every bit of every byte, and every length of a manifest.

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

/// The names of the manifests: for each table the current version, and the file that names it.
fn manifests(victim: &Victim) -> Vec<String> {
    let mut names = vec!["data/version".to_owned()];
    for tree in 0..6 {
        let current = format!("data/keyspaces/{tree}/current");
        let bytes = fs::read(victim.whole().join(&current)).unwrap();
        let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        names.extend([current, format!("data/keyspaces/{tree}/v{version}")]);
    }
    names
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
    for patterns in rounds() {
        for name in manifests(&victim) {
            victim.damage(&name, 0..length(&victim, &name), &patterns, 0);
        }
    }
    report("manifests", &victim);
    assert_eq!(victim.told, 0);
    assert!(matches!(victim.open(), Outcome::Opened(loss) if loss.told.is_empty() && loss.silent.is_empty()));
}

#[test]
fn every_cut_manifest_is_refused_by_name() {
    let mut victim = victim();
    for name in manifests(&victim) {
        victim.cut(&name, if is_exhaustive() { 1 } else { 7 });
    }
    report("cut manifests", &victim);
    assert_eq!((victim.harmless, victim.told), (0, 0));
}

#[test]
fn every_flipped_byte_of_the_ledger_is_refused_by_name() {
    let mut victim = victim();
    for patterns in rounds() {
        let name = "journals/ledger";
        victim.damage(name, 0..length(&victim, name), &patterns, 0);
    }
    victim.cut("journals/ledger", 1);
    report("ledger", &victim);
    assert_eq!((victim.harmless, victim.told), (0, 0));
}

/// Where the metadata of a table, or of a file of large values, begin.
fn metadata_start(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let contents = number(bytes.len() - 16);
    // The first section of the table of contents: its position and length.
    assert_eq!(number(contents + 8), 0);
    number(contents + 16)
}

/// Damages the metadata of files byte by byte, and the records that it describes at some places.
fn damage_metadata(folder: &str, record_count: usize) -> Victim {
    let mut victim = victim();
    let stride = if is_exhaustive() { 1 } else { 7 };
    for patterns in rounds() {
        for (n, name) in names(&victim, |name| name.contains(folder)).iter().enumerate() {
            let start = metadata_start(&victim.whole().join(name));
            let records = (0..record_count).map(|record| record * start / record_count);
            // Files differ in where the strides begin, so that together they cover every part of the format.
            let metadata = (start + n % stride..length(&victim, name)).step_by(stride);
            victim.damage(name, records.chain(metadata), &patterns, start);
        }
    }
    for name in names(&victim, |name| name.contains(folder)) {
        let stride = 1 + length(&victim, &name) / if is_exhaustive() { 200 } else { 10 };
        victim.cut(&name, stride);
    }
    report(folder, &victim);
    victim
}

#[test]
fn every_flipped_byte_of_a_tables_metadata_is_refused_by_name_or_harmless() {
    let victim = damage_metadata("/tables/", 4);
    assert!(victim.told > 0, "some flips are in the records themselves");
}

#[test]
fn every_flipped_byte_of_the_metadata_of_large_values_is_refused_by_name_or_harmless() {
    damage_metadata("/blobs/", 0);
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

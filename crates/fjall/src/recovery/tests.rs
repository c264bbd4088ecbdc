use super::*;
use crate::journal::tests::{batch, chained, epoch};
use std::path::Path;

/// Plans the recovery of one journal with these batches.
fn plan(ledger: Option<Ledger>, batches: &[Vec<u8>]) -> Result<Recovery, String> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("data")).unwrap();
    fs::create_dir(directory.path().join("journals")).unwrap();
    if let Some(ledger) = ledger {
        ledger.write(directory.path()).unwrap();
    }
    plan_in(directory.path(), batches)
}

fn plan_in(store: &Path, batches: &[Vec<u8>]) -> Result<Recovery, String> {
    let bytes = [batches.concat(), vec![0; 5000]].concat();
    fs::write(store.join("data/0.jnl"), bytes).unwrap();
    Recovery::plan(&Files::new(store, store)).map_err(|error| error.to_string())
}

fn cut(batches: &[Vec<u8>]) -> Option<usize> {
    plan(None, batches).unwrap().cut
}

fn refused(batches: &[Vec<u8>], at: usize) {
    let why = plan(None, batches).unwrap_err();
    assert!(
        why.contains(&format!("data/0.jnl has a damaged entry at byte {at};")),
        "{why}"
    );
}

fn tear(mut batch: Vec<u8>) -> Vec<u8> {
    batch[4096..8192].fill(0);
    batch
}

#[test]
fn an_intact_journal_is_not_changed() {
    assert_eq!(cut(&[]), None);
    assert_eq!(cut(&[batch(10, 0), batch(20, 10)]), None);
}

#[test]
fn a_batch_that_was_cut_short_is_found_at_every_byte() {
    let (whole, short) = (batch(10, 0), batch(20, 10));
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("data")).unwrap();
    for length in 1..short.len() - 1 {
        let batches = [whole.clone(), short[..length].to_vec()];
        assert_eq!(plan_in(directory.path(), &batches).unwrap().cut, Some(whole.len()));
    }
    assert_eq!(cut(&[whole.clone(), tear(short)]), Some(whole.len()));
}

#[test]
fn relaxed_batches_behind_a_torn_one_are_cut_with_it() {
    let at = batch(10, 0).len();
    assert_eq!(cut(&[batch(10, 0), tear(batch(20, 10)), batch(30, 10)]), Some(at));
    assert_eq!(cut(&[tear(batch(20, 10)), batch(30, 10)]), Some(0));
}

#[test]
fn a_synced_batch_is_never_cut() {
    let at = batch(10, 0).len();
    refused(&[batch(10, 0), tear(batch(20, 10)), batch(30, 20)], at);
    refused(&[tear(batch(20, 10)), batch(30, 20), batch(40, 30)], 0);
}

#[test]
fn a_synced_epoch_proves_nothing_about_what_follows_it() {
    let first = 2 << 40;
    let before = [batch(10, 0), epoch(11, 2)];
    let at = before.concat().len();
    let torn = tear(batch(first + 1, first));
    let [a, b] = before;
    let relaxed = batch(first + 2, first);
    assert_eq!(cut(&[a.clone(), b.clone(), torn.clone(), relaxed]), Some(at));
    refused(&[a, b, torn, batch(first + 2, first + 1)], at);
}

const OPEN: Ledger = Ledger {
    lowest: Some(0),
    active: 0,
    last: 20,
    is_closed: false,
};

#[test]
fn a_batch_that_is_missing_between_two_others_is_noticed() {
    let batches = [chained(10, 0), chained(20, 10), chained(30, 20)];
    assert_eq!(plan(Some(OPEN), &batches).unwrap().last, Some(30));
    let why = plan(Some(OPEN), &[batches[0].clone(), batches[2].clone()]).unwrap_err();
    assert!(why.contains("data/0.jnl has a damaged entry before byte"), "{why}");
}

#[test]
fn a_damaged_sequence_number_is_noticed() {
    let mut batches = [chained(10, 0), chained(20, 10), chained(30, 20)];
    for byte in 5..13 {
        for bit in 0..8 {
            batches[1][byte] ^= 1 << bit;
            assert!(plan(Some(OPEN), &batches).is_err(), "bit {bit} of byte {byte}");
            batches[1][byte] ^= 1 << bit;
        }
    }
}

#[test]
fn what_the_ledger_names_must_be_there() {
    let batches = [chained(10, 0), chained(20, 10), chained(30, 20)];
    assert_eq!(plan(Some(OPEN), &batches[..2]).unwrap().last, Some(20));
    let why = plan(Some(OPEN), &batches[..1]).unwrap_err();
    assert!(why.contains("data/0.jnl does not end where it must"), "{why}");
    let why = plan(Some(OPEN), &[batches[0].clone(), tear(batches[1].clone())]).unwrap_err();
    assert!(why.contains("data/0.jnl has a damaged entry at byte"), "{why}");
}

#[test]
fn nothing_follows_the_last_batch_of_a_store_that_was_closed() {
    let closed = Ledger {
        is_closed: true,
        ..OPEN
    };
    let batches = [chained(10, 0), chained(20, 10), chained(30, 20)];
    assert_eq!(plan(Some(closed), &batches[..2]).unwrap().last, Some(20));
    assert!(plan(Some(closed), &batches).is_err());
    // An older program has used it since.
    let older = [batches[0].clone(), batches[1].clone(), batch(30, 20)];
    assert_eq!(plan(Some(closed), &older).unwrap().last, Some(30));
}

#[test]
fn a_missing_ledger_is_noticed() {
    let why = plan(None, &[chained(10, 0)]).unwrap_err();
    assert!(why.contains("journals/ledger is missing"), "{why}");
}

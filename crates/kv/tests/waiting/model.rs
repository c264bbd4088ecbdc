//! Random commits over few records, with reads that take a random time, next to a model that makes them one by one.
//!
//! Commits that share a record take effect in the order in which they were first polled; the others may change places, which
//! makes no difference. So the outcome of each must be that of the model.

use crate::engine::next;
use crate::fixture::{Fixture, draft, key, listed, queued};
use futures::FutureExt;
use parking_lot::Mutex;
use perennial_kv::Settings;
use perennial_store::{
    Commit, Committed, ConflictReason, Draft, Error, OnDurable, Op, Refused, Result, Store, Version,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

const RECORDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A write, by the number of its commit: the body of what it wrote.
type Writer = usize;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = next(self.0);
        (self.0 % limit as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// What there would be if commits were made one by one.
#[derive(Default)]
struct Model {
    records: BTreeMap<&'static str, Writer>,
    /// Which write of which record a version is of.
    versions: HashMap<Version, (&'static str, Writer)>,
}

impl Model {
    fn apply(&mut self, number: Writer, commit: &Commit) -> std::result::Result<(), (usize, ConflictReason)> {
        let id = |op: &Op| *RECORDS.iter().find(|id| key(id) == *op.key()).unwrap();
        for (place, op) in commit.ops.iter().enumerate() {
            let writer = self.records.get(id(op));
            let reason = match (op, writer) {
                (Op::Create(_) | Op::Absent(_), Some(_)) => ConflictReason::Exists,
                (Op::Replace(..) | Op::Delete(..), None) => ConflictReason::Missing,
                (Op::Replace(_, version) | Op::Delete(_, version), Some(writer))
                    if self.versions.get(version) != Some(&(id(op), *writer)) =>
                {
                    ConflictReason::Changed
                }
                _ => continue,
            };
            return Err((place, reason));
        }
        for op in &commit.ops {
            match op {
                Op::Create(_) | Op::Put(_) | Op::Replace(..) => self.records.insert(id(op), number),
                Op::Delete(..) | Op::Remove(_) => self.records.remove(id(op)),
                Op::Absent(_) => None,
            };
        }
        Ok(())
    }
}

fn random_draft(random: &mut Random, id: &str, number: Writer) -> Draft {
    let shape = match random.below(3) {
        0 => draft(id, ""),
        1 => queued(id, number as u64),
        _ => listed(id, ["new", "done"][random.below(2)]),
    };
    Draft {
        body: number.to_string().into(),
        ..shape
    }
}

fn random_commit(random: &mut Random, number: Writer, versions: &[Version]) -> Commit {
    let ids: BTreeSet<&str> = (0..1 + random.below(3)).map(|_| RECORDS[random.below(5)]).collect();
    let mut ops = Vec::new();
    for id in ids {
        let kind = match versions.is_empty() {
            true => [0, 1, 4, 5][random.below(4)],
            false => random.below(8),
        };
        ops.push(match kind {
            0 => Op::Create(random_draft(random, id, number)),
            1 => Op::Put(random_draft(random, id, number)),
            4 => Op::Remove(key(id)),
            5 => Op::Absent(key(id)),
            3 => Op::Delete(key(id), versions[random.below(versions.len())].clone()),
            _ => {
                let draft = random_draft(random, id, number);
                Op::Replace(draft, versions[random.below(versions.len())].clone())
            }
        });
    }
    let commit = Commit::new(ops);
    match random.one_in(3) {
        true => commit.relaxed(),
        false => commit,
    }
}

/// The numbers of commits, in the order of their calls.
type Calls = Arc<Mutex<Vec<(Writer, Result<Committed>)>>>;

/// Commits, or orders and waits for the call.
async fn run(fixture: &Fixture, commit: Commit, number: Writer, calls: Option<Calls>) -> Result<Committed> {
    let Some(calls) = calls else {
        return fixture.store.commit(commit).await;
    };
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let on_durable: OnDurable = Box::new(move |outcome| {
        calls.lock().push((number, outcome.clone()));
        sender.send(outcome).ok();
    });
    match fixture.store.order(commit, on_durable).await {
        Ok(()) => receiver.await.unwrap(),
        Err(Refused { error, .. }) => Err(error),
    }
}

/// Waits until all commits that were polled are decided and durable.
async fn finish(fixture: &Fixture) {
    let everything = RECORDS.map(|id| Op::Absent(key(id)));
    fixture.store.commit(Commit::new(everything.into())).await.ok();
    fixture.store.commit(Commit::default()).await.unwrap();
    // A commit of nothing is not written.
    fixture.put("end", "").await;
}

/// One round: commits that are all polled before any is awaited, some of which are dropped then.
async fn round(fixture: &Fixture, random: &mut Random, model: &mut Model, number: &mut Writer) {
    let mut versions: Vec<Version> = model.versions.keys().cloned().collect();
    versions.sort_unstable_by_key(Version::as_number);
    let calls = Calls::default();
    let (mut commits, mut expected) = (Vec::new(), Vec::new());
    let mut shared: BTreeMap<Writer, Vec<perennial_store::Key>> = BTreeMap::new();
    for _ in 0..2 + random.below(14) {
        *number += 1;
        let commit = random_commit(random, *number, &versions);
        shared.insert(*number, commit.ops.iter().map(|op| op.key().clone()).collect());
        let outcome = model.apply(*number, &commit);
        let is_ordered = commit.durability == perennial_store::Durability::Durable && random.one_in(2);
        let mut committing = Box::pin(run(fixture, commit, *number, is_ordered.then(|| calls.clone())));
        let polled = committing.as_mut().now_or_never();
        if random.one_in(8) {
            continue;
        }
        commits.push((committing, polled));
        expected.push((*number, outcome));
    }
    for ((committing, polled), (number, expected)) in commits.into_iter().zip(expected) {
        let outcome = match polled {
            Some(outcome) => outcome,
            None => committing.await,
        };
        match expected {
            Ok(()) => assert!(outcome.is_ok(), "commit {number}: {outcome:?}"),
            Err((op, reason)) => assert_eq!(outcome, Err(Error::Conflict { op, reason }), "commit {number}"),
        }
    }
    finish(fixture).await;
    check_calls(&calls.lock(), &shared);
    check_records(fixture, model).await;
}

/// Calls are made in the order of the commits, which is that of the first polls where they share a record.
fn check_calls(calls: &[(Writer, Result<Committed>)], shared: &BTreeMap<Writer, Vec<perennial_store::Key>>) {
    let mut last = 0;
    for (later, (number, outcome)) in calls.iter().enumerate() {
        for (earlier, _) in &calls[..later] {
            let shares = shared[earlier].iter().any(|key| shared[number].contains(key));
            assert!(!shares || earlier < number, "{earlier} before {number}");
        }
        let versions = &outcome.as_ref().unwrap().versions;
        for version in versions.iter().flatten().filter_map(Version::as_number) {
            assert!(version > last, "a later call of an earlier commit");
            last = version;
        }
    }
}

async fn check_records(fixture: &Fixture, model: &mut Model) {
    let mut versions = HashMap::new();
    for id in RECORDS {
        let record = fixture.store.get(&key(id)).await.unwrap();
        let writer = record
            .as_ref()
            .map(|record| std::str::from_utf8(&record.body).unwrap().parse().unwrap());
        assert_eq!(writer, model.records.get(id).copied(), "{id}");
        if let (Some(record), Some(writer)) = (record, writer) {
            versions.insert(record.version, (id, writer));
        }
    }
    // Some old versions stay, for commits that come too late.
    let mut old: Vec<_> = std::mem::take(&mut model.versions).into_iter().collect();
    old.sort_unstable_by_key(|(version, _)| version.as_number());
    versions.extend(old.into_iter().rev().take(3));
    model.versions = versions;
}

async fn run_rounds(seed: u64, recent_records: usize, blocking_reads: usize) {
    let settings = Settings {
        recent_records,
        blocking_reads,
        ..Settings::default()
    };
    let fixture = Fixture::with(settings).await;
    fixture.control.delay(200, seed);
    let (mut random, mut model, mut number) = (Random(seed), Model::default(), 0);
    for _ in 0..25 {
        round(&fixture, &mut random, &mut model, &mut number).await;
    }
    fixture.store.close().await.unwrap();
}

#[tokio::test]
async fn every_commit_ends_as_if_they_were_made_one_by_one() {
    for seed in 0..16 {
        run_rounds(seed, 0, 128).await;
    }
}

#[tokio::test]
async fn they_do_so_with_few_threads_and_a_small_memory() {
    for seed in 100..108 {
        run_rounds(seed, 4, 2).await;
    }
}

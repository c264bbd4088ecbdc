//! Random commits, sweeps and crashes, compared to a plain store without limits that takes the same commits.

use crate::faulty::Fault;
use crate::fixture::*;
use perennial_kv::{MemoryStore, Settings};
use perennial_store::{Commit, Draft, Error, Op, Store, Version};

/// A small random number generator, so that a seed replays.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn draft(&mut self, id: &str) -> Draft {
        let size = match self.below(4) {
            0 => self.below(40),
            1 => self.below(TINY.bytes_per_record as u64),
            2 => TINY.bytes_per_record as u64 - 8 + self.below(16),
            _ => self.below(6 * TINY.bytes_per_record as u64),
        };
        let body = match self.below(12) {
            0 => r#"{"$parts":1}"#.to_owned(),
            _ => text(size as usize, self.below(1_000)),
        };
        match self.below(2) {
            0 => Draft::new(key(id), body),
            _ => queued(id, &body, self.below(100)),
        }
    }
}

/// The same operation for both stores, whose versions differ.
async fn ops(dice: &mut Dice, stores: [&dyn Store; 2]) -> [Vec<Op>; 2] {
    let mut both = [Vec::new(), Vec::new()];
    let first = dice.below(5);
    for n in 0..=dice.below(TINY.ops_per_commit as u64) {
        let id = format!("r{}", (first + n) % 5);
        let draft = dice.draft(&id);
        let (choice, is_stale) = (dice.below(6), dice.below(8) == 0);
        for (ops, store) in both.iter_mut().zip(stores) {
            let found = store.get(&key(&id)).await.unwrap();
            let version = found.filter(|_| !is_stale).map(|record| record.version);
            let version = version.unwrap_or(Version::number(u64::MAX));
            ops.push(match choice {
                0 => Op::Create(draft.clone()),
                1 => Op::Replace(draft.clone(), version),
                2 => Op::Delete(key(&id), version),
                3 => Op::Remove(key(&id)),
                4 => Op::Absent(key(&id)),
                _ => Op::Put(draft.clone()),
            });
        }
        both.iter_mut().for_each(|ops| ops.truncate(TINY.ops_per_commit));
    }
    both
}

async fn agree(fixture: &Fixture, model: &MemoryStore, seed: u64) {
    assert!(
        scan(&*fixture.chunked).await.unwrap() == scan(model).await.unwrap(),
        "seed {seed}"
    );
    let (mut left, mut right) = (work(&*fixture.chunked, 100).await, work(model, 100).await);
    left.sort();
    right.sort();
    assert!(left == right, "seed {seed}: the queues differ");
}

async fn run(seed: u64) {
    let fixture = Fixture::new(TINY);
    let model = MemoryStore::open(Settings::default()).unwrap();
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    for _ in 0..40 {
        match dice.below(10) {
            0 => {
                fixture.clock.advance(dice.below(30) * MINUTE);
                sweep(&fixture.chunked, perennial_store::Clock::now_ms(&*fixture.clock))
                    .await
                    .unwrap();
            }
            1 => {
                // Fails somewhere: an unknown outcome is looked up, a known failure has changed nothing.
                let [ours, theirs] = ops(&mut dice, [&*fixture.chunked, &model]).await;
                let fault = [Fault::Before, Fault::After][dice.below(2) as usize];
                fixture.faulty.fail(dice.below(6) as usize, fault);
                let outcome = fixture.chunked.commit(Commit::new(ours)).await;
                fixture.faulty.faults.lock().clear();
                if matches!(outcome, Ok(_) | Err(Error::UnknownOutcome(_))) {
                    model.commit(Commit::new(theirs)).await.unwrap();
                }
            }
            _ => {
                let [ours, theirs] = ops(&mut dice, [&*fixture.chunked, &model]).await;
                let ours = fixture.chunked.commit(Commit::new(ours)).await;
                let theirs = model.commit(Commit::new(theirs)).await;
                match (&ours, &theirs) {
                    (Ok(ours), Ok(theirs)) => {
                        let wrote = |versions: &[Option<Version>]| -> Vec<bool> {
                            versions.iter().map(Option::is_some).collect()
                        };
                        assert_eq!(wrote(&ours.versions), wrote(&theirs.versions), "seed {seed}");
                    }
                    (Err(ours), Err(theirs)) => assert_eq!(ours, theirs, "seed {seed}"),
                    _ => panic!("seed {seed}: {ours:?} where the model says {theirs:?}"),
                }
            }
        }
        agree(&fixture, &model, seed).await;
    }
    fixture.sweep().await;
    agree(&fixture, &model, seed).await;
    for n in 0..5 {
        fixture.remove(&format!("r{n}")).await;
    }
    fixture.sweep().await;
    assert_eq!(fixture.count(), 0, "seed {seed} leaves records behind");
}

#[tokio::test]
async fn random_commits_have_the_same_effect_as_on_a_store_without_limits() {
    for seed in 0..150 {
        run(seed).await;
    }
}

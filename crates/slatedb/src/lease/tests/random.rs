//! Many processes, many faults, by seeds: never two owners, and somebody owns the shard once the faults have ended.

use super::mutation::{Mutation, mutate};
use super::world::*;
use super::*;
use perennial_bucket::{Fault, Tags};
use std::ops::Range;
use std::panic::catch_unwind;
use std::time::Duration;

/// A small generator whose numbers are the same on every machine.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// What one process does again and again: acquires, serves, and releases, drops or keeps the lease until it is lost.
async fn live(process: Process, mut dice: Dice) {
    loop {
        let wait = match dice.below(3) {
            0 => Wait::For(ms(dice.below(4_000))),
            _ => Wait::Forever,
        };
        let limit = ms(500 + dice.below(20_000));
        let Some(Ok(held)) = within(limit, process.acquire(wait)).await else {
            pass(ms(dice.below(1_000))).await;
            continue;
        };
        match dice.below(4) {
            0 => {
                pass(ms(dice.below(8_000))).await;
                held.release().await.ok();
            }
            1 => {
                pass(ms(dice.below(8_000))).await;
                drop(held);
            }
            2 => {
                pass(ms(dice.below(4_000))).await;
                held.show(Shown::default()).await.ok();
                held.lost().await;
            }
            _ => {
                held.lost().await;
            }
        }
    }
}

/// What happens to one process: it freezes, its clock jumps, its requests fail.
async fn disturb(process: Process, mut dice: Dice, until: Duration) {
    let mut passed = Duration::ZERO;
    while passed < until {
        let time = ms(200 + dice.below(3_000));
        match dice.below(5) {
            0 => {
                process.freeze();
                pass(time).await;
                process.thaw();
            }
            1 => {
                process.clocks.set_wall_error_ms(dice.below(1 << 32) as i64 - (1 << 31));
                pass(time).await;
            }
            2 => {
                let mut faults = dice.clone();
                let percent = 5 + dice.below(60);
                process.bucket.plan(move |_| {
                    let all = Fault::all(ms(faults.below(3_000)));
                    let fault = all[faults.below(all.len() as u64) as usize].clone();
                    (faults.below(100) < percent).then_some(fault)
                });
                pass(time).await;
            }
            3 => {
                process.bucket.plan(|_| Some(Fault::Hang));
                pass(time).await;
            }
            _ => pass(time).await,
        }
        process.bucket.heal();
        passed += time;
    }
    process.thaw();
}

async fn run(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let tags = [Tags::Counter, Tags::Content][dice.below(2) as usize];
    let world = World::with(tags, settings());
    let until = secs(60);
    for number in 0..2 + dice.below(3) {
        let process = world.process(&format!("process {number}"));
        tokio::spawn(live(process.clone(), Dice(dice.next() | 1)));
        tokio::spawn(disturb(process, Dice(dice.next() | 1), until));
    }
    pass(until + secs(10)).await;
    let violations = world.violations();
    assert!(violations.is_empty(), "seed {seed}: two owners {}", violations[0]);
    // Releases and drops go on, but nobody is in the way for longer than a lease.
    let owner = world.owned(LENGTH + secs(25)).await;
    assert!(owner.is_some(), "seed {seed}: nobody owns the shard");
}

/// The seeds to run: `PERENNIAL_LEASE_SEEDS=1000..21000` runs others than the usual ones.
fn seeds() -> Range<u64> {
    let Ok(range) = std::env::var("PERENNIAL_LEASE_SEEDS") else {
        return 0..500;
    };
    let (from, to) = range.split_once("..").unwrap();
    from.parse().unwrap()..to.parse().unwrap()
}

#[test]
fn seeds_are_clean() {
    for seed in seeds() {
        in_virtual_time(run(seed));
    }
}

#[test]
fn seeds_find_broken_leases() {
    let mutations = [
        Mutation::EqualContent,
        Mutation::TakeEarly,
        Mutation::ServeAfterLease,
        Mutation::SkipVersion,
        Mutation::TrustWallClock,
    ];
    for mutation in mutations {
        mutate(Some(mutation));
        let is_found = (0..100).any(|seed| catch_unwind(|| in_virtual_time(run(seed))).is_err());
        mutate(None);
        assert!(is_found, "{mutation:?}");
    }
}

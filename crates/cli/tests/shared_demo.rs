//! Several demos on one store, as processes of their own, killed at random: the others end by themselves and prove
//! themselves, and so does one that comes later.
//!
//! To go further than the default, set in the environment:
//!
//! | variable | what it sets |
//! |---|---|
//! | `PERENNIAL_DEMOS_SEED` | when which demo is killed; what happens then is up to the machine |
//! | `PERENNIAL_DEMOS_ROUNDS` | how many times each test is run |

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a test may panic, and waits for real processes"
)]

#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use perennial_cosmos_server::{Options, Server};
use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use support::demo::{Demo, Ended};
use support::{perennial, run, told};

const ORDERS: &str = "24";

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// Numbers that look random (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

fn demo(directory: &Path, url: &str) -> Demo {
    let arguments = ["demo", "--workflows", ORDERS, "--step-ms", "20", "--store", url];
    Demo::start(perennial(directory, &arguments))
}

/// Every order ended well, every recorded step ran, and none that was finished ran again.
fn check(ended: &Ended) {
    let facts = ended.facts();
    println!("{facts:?}");
    assert_eq!(facts["orders"].to_string(), ORDERS, "{}", ended.told);
    assert_eq!(facts["delivered"] + facts["compensated"], facts["orders"]);
    assert_eq!((facts["failed"], facts["recorded_steps_run_again"]), (0, 0));
    assert_eq!(facts["steps_without_execution"], 0);
    assert!(facts["executions"] >= facts["steps"] && facts["steps"] > 0);
}

/// Starts demos, kills `victims` of them at random moments, one after the other, and waits for the rest. Each killed
/// one is started again if `again`.
fn kill_at_random(directory: &Path, url: &str, demos: usize, victims: usize, again: bool, dice: &mut Dice) -> usize {
    let mut running: Vec<Demo> = (0..demos).map(|_| demo(directory, url)).collect();
    let mut kills = 0;
    for _ in 0..victims {
        let mut victim = running.remove(dice.below(running.len() as u64) as usize);
        if victim.has_finished(dice.below(60)) {
            victim.kill();
            kills += 1;
            if again {
                running.push(demo(directory, url));
            }
        } else {
            check(&victim.ended());
        }
    }
    for survivor in running {
        check(&survivor.ended());
    }
    kills
}

/// A store for demos.
struct Fixture {
    server: Server,
    directory: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let server = Server::start(Options::default()).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let bed = Self { server, directory };
        let init = run(perennial(bed.directory.path(), &["cosmos", "init", &bed.url()])).await;
        assert!(init.status.success(), "{}", told(&init));
        bed
    }

    fn url(&self) -> String {
        format!("cosmos+{}db/workflows", self.server.endpoint())
    }

    fn demo(&self) -> Demo {
        demo(self.directory.path(), &self.url())
    }
}

/// Runs blocking work off the runtime's threads, which serve the store.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

async fn rounds(demos: usize, victims: usize, again: bool) {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let seed = number("PERENNIAL_DEMOS_SEED").unwrap_or(now_ms);
    println!("seed {seed}");
    let mut dice = Dice(seed);
    for _ in 0..number("PERENNIAL_DEMOS_ROUNDS").unwrap_or(1) {
        let bed = Fixture::new().await;
        let mut roll = Dice(dice.below(u64::MAX));
        let (url, directory) = (bed.url(), bed.directory.path().to_owned());
        let kills = blocking(move || kill_at_random(&directory, &url, demos, victims, again, &mut roll)).await;
        println!("{kills} kills");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_share_the_orders_and_a_later_one_begins_the_next_batch() {
    let bed = Fixture::new().await;
    let (one, other) = (bed.demo(), bed.demo());
    let next = blocking(move || {
        check(&one.ended());
        check(&other.ended());
        bed.demo().ended()
    });
    let next = next.await;
    check(&next);
    assert!(next.told.contains("starting batch 2"), "{}", next.told);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_one_is_killed_and_the_other_ends() {
    rounds(2, 1, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_two_are_killed_and_the_third_ends() {
    rounds(3, 2, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_any_are_killed_and_started_again() {
    rounds(3, 4, true).await;
}

/// A proof that cannot fail proves nothing. While a demo goes on with what another had finished, its ledger is forged.
async fn forged(forge: Op) -> Ended {
    let bed = Fixture::new().await;
    let mut first = bed.demo();
    let (bed, second) = blocking(move || {
        assert!(first.has_finished(60), "the demo ended before it could be killed");
        first.kill();
        let mut second = bed.demo();
        assert!(
            second.says("steps_in_flight="),
            "the second one has looked at what there is"
        );
        (bed, second)
    })
    .await;
    let store = perennial::open(&bed.url()).await.unwrap();
    store.store().commit(Commit::new(vec![forge])).await.unwrap();
    let ended = blocking(move || second.ended()).await;
    store.close().await.unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.told);
    ended
}

fn entry(id: RecordId) -> Key {
    Key::new(Partition::new("demo:ledger-1"), id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_step_that_runs_again_is_reported() {
    let again = r#"{"run":99,"step":"1/1/reserve-stock#1"}"#;
    let id = RecordId::of("ran").number(99).number(0);
    let ended = forged(Op::Create(Draft::new(entry(id), again))).await;
    assert!(
        ended.told.contains("1 steps that were recorded as finished ran again"),
        "{}",
        ended.told
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_step_that_never_ran_is_reported() {
    // The first entry of a run that has finished many steps: no other run had to repeat it.
    let ended = forged(Op::Remove(entry(RecordId::of("ran").number(1).number(0)))).await;
    assert!(
        ended.told.contains("steps are recorded as finished but never ran"),
        "{}",
        ended.told
    );
}

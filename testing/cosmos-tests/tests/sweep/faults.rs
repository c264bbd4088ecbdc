//! Every fault at every request. Each request of a scenario has its own instance.

use crate::scenario::{SHARED_BY, Scenario, scenarios};
use perennial_cosmos_server::{Fault, Rule};
use perennial_cosmos_tests::{Process, Program, Room};
use std::time::Duration;

/// Faults hit requests up to this many beyond those of a faultless run: retries count too.
const BEYOND: u64 = 2;

/// Sooner than any lease ends: no process may have to wait for that.
const LIMIT: Duration = Duration::from_secs(20);

/// A container, and the process that runs workflows on it.
struct Stage {
    room: Room,
    program: Program,
    process: Process,
}

impl Stage {
    async fn new() -> Self {
        let room = Room::new().await.impatient();
        let program = Program::default();
        Self {
            process: Process::start(&room, &program).await,
            room,
            program,
        }
    }

    /// Runs a scenario, whose requests are counted from 0.
    async fn run(&self, scenario: &Scenario, instance: &str) {
        let before = self.room.counts().total;
        let run = async {
            scenario.run(&self.process, instance).await;
            scenario.check(&self.process, &self.program, instance, 0).await;
        };
        let ended = tokio::time::timeout(LIMIT, run).await;
        let log = || self.room.log_since(before);
        assert!(ended.is_ok(), "{instance} takes too long:\n{}", log());
    }

    /// Nothing is left behind.
    async fn close(self) {
        self.room.mend();
        self.room.assert_clean().await;
        self.process.stop().await;
    }
}

/// How many requests a scenario takes where all is well.
async fn requests(scenario: &Scenario) -> u64 {
    let stage = Stage::new().await;
    stage.room.mend();
    stage.run(scenario, "calm").await;
    let seen = stage.room.seen();
    stage.close().await;
    seen
}

/// Meets every request with a fault, `times` in a row.
async fn sweep(name: &str, fault: Fault, times: u64) {
    for scenario in scenarios() {
        let calm = requests(&scenario).await;
        let all: Vec<u64> = (0..calm + BEYOND).collect();
        for some in all.chunks(SHARED_BY) {
            let stage = Stage::new().await;
            for at in some {
                stage.room.mend();
                for again in 0..times {
                    stage.room.fault(Rule::at(at + again, fault));
                }
                let instance = format!("{name}-{}-{at}", scenario.workflow);
                stage.run(&scenario, &instance).await;
            }
            stage.close().await;
        }
        println!("{name}: {} has {calm} requests", scenario.workflow);
    }
}

macro_rules! sweeps {
    ($($name:ident: $fault:expr, $times:expr;)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            sweep(stringify!($name), $fault, $times).await;
        }
    )* };
}

sweeps! {
    throttled_five_times: Fault::throttled(5), 5;
    unavailable: Fault::unavailable(), 1;
    met_another_write: Fault::retry_with(), 1;
    timed_out: Fault::timeout(false), 1;
    timed_out_and_happened: Fault::timeout(true), 1;
    range_gone: Fault::range_gone(), 1;
    splitting: Fault::splitting(), 1;
    lost_reply: Fault::LostReply, 1;
    lost_request: Fault::LostRequest, 1;
    hangs: Fault::Hang { executed: false, for_ms: 10_000 }, 1;
    hangs_and_happened: Fault::Hang { executed: true, for_ms: 10_000 }, 1;
    hangs_thrice: Fault::Hang { executed: true, for_ms: 10_000 }, 3;
}

//! Every fault at every request. Each kind has a container of its own, and each request of a scenario its own instance in it.

use crate::scenario::{Scenario, scenarios};
use perennial_cosmos_server::{Fault, Rule};
use perennial_cosmos_tests::{Process, Program, Room};
use std::time::Duration;

/// Requests are met up to so many beyond those of a run in which all is well: what is tried again counts too.
const BEYOND: u64 = 2;

/// Sooner than any lease ends: nobody may have to wait for that.
const LIMIT: Duration = Duration::from_secs(20);

/// How many requests a scenario takes where all is well.
async fn requests(room: &Room, process: &Process, program: &Program, scenario: &Scenario) -> u64 {
    let instance = format!("calm-{}", scenario.workflow);
    room.mend();
    scenario.run(process, &instance).await;
    scenario.check(process, program, &instance, 0).await;
    room.seen()
}

/// Meets every request with a fault, `times` in a row.
async fn sweep(name: &str, fault: Fault, times: u64) {
    let room = Room::new().await.impatient();
    let program = Program::default();
    let process = Process::start(&room, &program).await;
    for scenario in scenarios() {
        let calm = requests(&room, &process, &program, &scenario).await;
        for at in 0..calm + BEYOND {
            let instance = format!("{name}-{}-{at}", scenario.workflow);
            room.mend();
            for again in 0..times {
                room.fault(Rule::at(at + again, fault));
            }
            let before = room.counts().total;
            let run = async {
                scenario.run(&process, &instance).await;
                scenario.check(&process, &program, &instance, 0).await;
            };
            let ended = tokio::time::timeout(LIMIT, run).await;
            assert!(ended.is_ok(), "{instance} takes too long:\n{}", room.log_since(before));
        }
        println!("{name}: {} has {calm} requests", scenario.workflow);
    }
    room.mend();
    room.assert_clean().await;
    process.stop().await;
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

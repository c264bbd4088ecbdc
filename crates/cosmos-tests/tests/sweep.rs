//! Every fault at every request: workflows end as they should, their activities run once, and nothing is left behind.
//!
//! Each kind of fault has a container of its own, and each request of a scenario its own instance in it. `SWEEP=full` takes
//! a fan-out of 100 instead of 10, and `SWEEP_ONLY=Values` that workflow alone.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use perennial_cosmos_server::{Fault, Rule};
use perennial_cosmos_tests::{Process, Program, Room};
use std::time::Duration;

/// Requests are met up to so many beyond those of a run in which all is well: what is tried again counts too.
const BEYOND: u64 = 2;

/// Sooner than any lease ends: nobody may have to wait for that.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
struct Scenario {
    workflow: &'static str,
    input: &'static str,
    messages: &'static [&'static str],
    output: &'static str,
    /// How many activities it has.
    activities: usize,
}

fn scenarios() -> Vec<Scenario> {
    let width = match std::env::var("SWEEP").as_deref() {
        Ok("full") => ("100", 100),
        _ => ("10", 10),
    };
    let scenario = |workflow, input, output, activities| Scenario {
        workflow,
        input,
        messages: &[],
        output,
        activities,
    };
    let all = vec![
        scenario("Hello", "you", "Hello, you!", 1),
        scenario("Parent", "you", "Hello, you!", 1),
        scenario("Fan", width.0, width.0, width.1),
        scenario("Values", "you", "greeting-1,greeting-2,name", 3),
        Scenario {
            messages: &["a", "b", "c"],
            ..scenario("Loop", "", "abc", 0)
        },
    ];
    let only = std::env::var("SWEEP_ONLY").ok();
    let is_wanted = |scenario: &Scenario| only.as_ref().is_none_or(|only| only == scenario.workflow);
    all.into_iter().filter(is_wanted).collect()
}

impl Scenario {
    async fn run(&self, process: &Process, instance: &str) {
        process.begin(instance, self.workflow, self.input).await;
        for message in self.messages {
            process.enqueue(instance, message).await;
        }
    }

    /// What must be true at the end. A process that was killed may have run an activity whose result was lost.
    async fn check(&self, process: &Process, program: &Program, instance: &str, was_killed: bool) {
        let output = process.output(instance).await;
        assert_eq!(output, self.output, "{instance}");
        let effects = program.effects.of(&format!("{instance}:"));
        let children = program.effects.of(&format!("{instance}::"));
        let effects = if effects.is_empty() { children } else { effects };
        assert_eq!(effects.len(), self.activities, "{instance}: {effects:?}");
        let once = effects.values().all(|times| *times == 1);
        assert!(once || was_killed, "{instance} did something twice: {effects:?}");
    }
}

/// How many requests a scenario takes where all is well.
async fn requests(room: &Room, process: &Process, program: &Program, scenario: &Scenario) -> u64 {
    let instance = format!("calm-{}", scenario.workflow);
    room.mend();
    scenario.run(process, &instance).await;
    scenario.check(process, program, &instance, false).await;
    room.seen()
}

/// Meets every request with a fault, `times` in a row.
async fn sweep(name: &str, fault: Fault, times: u64) {
    let room = Room::new().await.impatient();
    let program = Program::default();
    let process = Process::start(&room, &program).await;
    // What hangs takes a second each time: short workflows must do.
    let is_slow = matches!(fault, Fault::Hang { .. });
    let fits = |scenario: &Scenario| !is_slow || (1..=3).contains(&scenario.activities);
    for scenario in scenarios().into_iter().filter(fits) {
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
                scenario.check(&process, &program, &instance, false).await;
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
    hangs: Fault::Hang { executed: false, for_ms: 5_000 }, 1;
    hangs_and_happened: Fault::Hang { executed: true, for_ms: 5_000 }, 1;
    hangs_thrice: Fault::Hang { executed: true, for_ms: 5_000 }, 3;
}

/// The process that runs a workflow dies at each of its requests; another one finishes what it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed() {
    let room = Room::new().await;
    let program = Program::default().brief();
    let heir = Process::start(&room, &program).await;
    let freeze = Fault::Hang {
        executed: true,
        for_ms: 60_000,
    };
    for scenario in scenarios() {
        let mut at = 0;
        // The heir's polls are among the requests: a few more than the scenario takes.
        while at < 12 {
            let instance = format!("killed-{}-{at}", scenario.workflow);
            let mortal = Process::start(&room, &program).await;
            scenario.run(&heir, &instance).await;
            room.mend();
            room.fault(Rule::at(at, freeze));
            while room.hits() == 0 && room.seen() <= at {
                tokio::task::yield_now().await;
            }
            mortal.kill();
            room.mend();
            scenario.check(&heir, &program, &instance, true).await;
            at += 3;
        }
    }
    room.assert_clean().await;
    heir.stop().await;
}

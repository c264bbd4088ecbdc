//! The process that runs a workflow dies at each of its requests, and another one finishes what it began.

use crate::scenario::{Scenario, scenarios};
use perennial_cosmos_server::{Fault, Rule};
use perennial_cosmos_tests::{Hurried, Process, Program, Room};
use std::cell::Cell;
use std::time::Duration;

/// How long after the end of a workflow its process may still have something to do.
const AFTERMATH: Duration = Duration::from_millis(200);

/// Who starts the workflow.
#[derive(Clone, Copy, PartialEq)]
enum Starter {
    /// A client in the process that dies.
    Mortal,
    /// A client in another process, before that one is there.
    Other,
}

/// When a process dies: at this request, which has taken effect or not.
#[derive(Clone, Copy)]
struct Death {
    at: u64,
    executed: bool,
}

impl Death {
    /// Awaits the process at its request.
    fn lurk(self, room: &Room) {
        let never_answered = Fault::Hang {
            executed: self.executed,
            for_ms: 60_000,
        };
        room.mend();
        room.fault(Rule::at(self.at, never_answered));
    }
}

/// A process dies at every request of every scenario, each time with its own instance.
async fn sweep(name: &str, starter: Starter, executed: bool) {
    let room = Room::new().await;
    let program = Program::default().brief();
    let is_fit = |scenario: &Scenario| starter == Starter::Other || scenario.is_alone();
    for scenario in scenarios().into_iter().filter(is_fit) {
        let mut at = 0;
        loop {
            let instance = format!("{name}-{}-{at}", scenario.workflow);
            let death = Death { at, executed };
            let Fate { is_started, died } = dies(&room, &program, &scenario, &instance, starter, death).await;
            let heir = Process::start(&room, &program).await;
            if !is_started {
                // Nobody knows whether it is; who wants it starts it again.
                scenario.run(&heir, &instance).await;
            }
            // There were two activities at most that it could die at.
            let again = if died { 2 } else { 0 };
            scenario.check(&heir, &program, &instance, again).await;
            heir.stop().await;
            if !died {
                break;
            }
            at += 1;
        }
        println!("{name}: {} has {at} requests", scenario.workflow);
        assert!(at >= 3, "{} was over after {at} requests", scenario.workflow);
    }
    // What the dead have left to do is done by those who live, after a while; for this one that is over sooner.
    let tidy = Process::start_with_clock(&room, &program, Hurried::by(20)).await;
    room.assert_clean().await;
    tidy.stop().await;
}

/// What became of a process and its workflow.
struct Fate {
    /// Its client was told that the workflow is started.
    is_started: bool,
    /// It died before the workflow was over.
    died: bool,
}

/// Runs a workflow in a process that dies, unless the workflow is over before.
async fn dies(
    room: &Room,
    program: &Program,
    scenario: &Scenario,
    instance: &str,
    starter: Starter,
    death: Death,
) -> Fate {
    let mortal = match starter {
        Starter::Mortal => {
            let mortal = Process::start(room, program).await;
            death.lurk(room);
            mortal
        }
        Starter::Other => {
            let client = Process::client(room).await;
            scenario.run(&client, instance).await;
            client.stop().await;
            let mut mortal = Process::client(room).await;
            death.lurk(room);
            mortal.serve(program).await;
            mortal
        }
    };
    let is_started = Cell::new(starter == Starter::Other);
    let life = async {
        if !is_started.get() {
            scenario.run(&mortal, instance).await;
            is_started.set(true);
        }
        mortal.output(instance).await;
    };
    let died = ends_before(room, life).await;
    mortal.kill();
    room.mend();
    Fate {
        is_started: is_started.get(),
        died,
    }
}

/// Whether death comes before the end of a life, or soon after.
async fn ends_before(room: &Room, life: impl Future<Output = ()>) -> bool {
    let comes = async {
        while room.hits() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let lives = async {
        life.await;
        tokio::time::sleep(AFTERMATH).await;
    };
    tokio::select! {
        () = comes => true,
        () = lives => false,
    }
}

macro_rules! sweeps {
    ($($name:ident: $starter:expr, $executed:expr;)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            sweep(stringify!($name), $starter, $executed).await;
        }
    )* };
}

sweeps! {
    killed_before: Starter::Other, false;
    killed_after: Starter::Other, true;
    killed_with_its_client_before: Starter::Mortal, false;
    killed_with_its_client_after: Starter::Mortal, true;
}

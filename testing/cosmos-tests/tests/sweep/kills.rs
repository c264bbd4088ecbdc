//! The process that runs a workflow dies at each of its requests, and another one finishes what it began.

use crate::scenario::{SHARED_BY, Scenario, scenarios};
use perennial_cosmos_server::{Fault, Rule};
use perennial_cosmos_tests::{Hurried, Process, Program, Room};
use std::cell::Cell;
use std::time::Duration;

/// How long after the end of a workflow its process may still have something to do.
const AFTERMATH: Duration = Duration::from_millis(200);

/// Which process starts the workflow.
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
    let is_fit = |scenario: &Scenario| starter == Starter::Other || scenario.is_alone();
    for scenario in scenarios().into_iter().filter(is_fit) {
        let mut at = 0;
        let mut has_died = true;
        while has_died {
            let stage = Stage::new(scenario, starter).await;
            for _ in 0..SHARED_BY {
                let instance = format!("{name}-{}-{at}", scenario.workflow);
                has_died = stage.dies_and_is_inherited(&instance, Death { at, executed }).await;
                if !has_died {
                    break;
                }
                at += 1;
            }
            stage.close().await;
        }
        println!("{name}: {} has {at} requests", scenario.workflow);
        assert!(at >= 3, "{} was over after {at} requests", scenario.workflow);
    }
}

/// A container, and what happens on it.
struct Stage {
    room: Room,
    program: Program,
    scenario: Scenario,
    starter: Starter,
}

/// What became of a process and its workflow.
struct Fate {
    /// Its client got the confirmation that the workflow is started.
    is_started: bool,
    /// It died before the workflow was over.
    died: bool,
}

impl Stage {
    async fn new(scenario: Scenario, starter: Starter) -> Self {
        Self {
            room: Room::new().await,
            program: Program::default().brief(),
            scenario,
            starter,
        }
    }

    /// Runs a workflow in a process that dies, and in its heir. Whether it did die.
    async fn dies_and_is_inherited(&self, instance: &str, death: Death) -> bool {
        let Fate { is_started, died } = self.dies(instance, death).await;
        let heir = Process::start(&self.room, &self.program).await;
        if !is_started {
            // Whether it is, is unknown; the caller starts it again.
            self.scenario.run(&heir, instance).await;
        }
        // There were two activities at most that it could die at.
        let again = if died { 2 } else { 0 };
        self.scenario.check(&heir, &self.program, instance, again).await;
        heir.stop().await;
        died
    }

    /// Runs a workflow in a process that dies, unless the workflow is over before.
    async fn dies(&self, instance: &str, death: Death) -> Fate {
        let room = &self.room;
        let mortal = match self.starter {
            Starter::Mortal => {
                let mortal = Process::start(room, &self.program).await;
                death.lurk(room);
                mortal
            }
            Starter::Other => {
                let client = Process::client(room).await;
                self.scenario.run(&client, instance).await;
                client.stop().await;
                let mut mortal = Process::client(room).await;
                death.lurk(room);
                mortal.serve(&self.program).await;
                mortal
            }
        };
        let is_started = Cell::new(self.starter == Starter::Other);
        let life = async {
            if !is_started.get() {
                self.scenario.run(&mortal, instance).await;
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

    /// Nothing is left behind: live processes do the remaining work of dead ones after a while, which this one
    /// shortens.
    async fn close(self) {
        let tidy = Process::start_with_clock(&self.room, &self.program, Hurried::by(20)).await;
        self.room.assert_clean().await;
        tidy.stop().await;
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

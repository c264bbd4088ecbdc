//! Every fault at every call, without sampling.

use crate::config::{Config, Kind};
use crate::fault::{Counters, Fault, Operation};
use crate::member::Member;
use crate::program::{Ending, Flow, Step};
use crate::run::{Outcome, run};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A scenario of the sweep.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Its workflows.
    pub flows: Vec<Flow>,
    /// Whether every pair of a lost reply and a later kill is tried, too.
    pub pairs: bool,
    /// The memory for cached instances.
    pub cache_bytes: u64,
    /// How processes use the store.
    pub kind: Kind,
    /// Whether it is so long that not every fault can be tried at each of its calls.
    pub is_long: bool,
}

fn call(ms: u64, session: Option<&str>) -> Step {
    Step::Call {
        ms,
        tag: None,
        session: session.map(str::to_owned),
        bytes: 10,
    }
}

fn scenario(name: &'static str, pairs: bool, ending: Ending, steps: Vec<Step>) -> Scenario {
    let flow = Flow {
        name: "f0".to_owned(),
        steps,
        ending,
        start_ms: 0,
    };
    Scenario {
        name,
        flows: vec![flow],
        pairs,
        cache_bytes: 1 << 27,
        kind: Kind::Alone,
        is_long: false,
    }
}

/// The scenarios of a kind of store.
pub fn scenarios(kind: Kind) -> Vec<Scenario> {
    let mut scenarios = usual();
    if kind == Kind::Shared {
        scenarios.retain(|scenario| scenario.name != "fan-out 100");
        scenarios.extend(large());
    }
    for scenario in &mut scenarios {
        scenario.kind = kind;
        scenario.pairs &= kind == Kind::Alone || PAIRED.contains(&scenario.name);
    }
    scenarios
}

/// Of the scenarios on a shared store, those that are short enough for pairs of faults.
const PAIRED: [&str; 3] = ["hello", "values at completion", "deleted while it runs"];

/// Work that does not fit into one commit of a database.
fn large() -> Vec<Scenario> {
    let bytes = |bytes| Step::Call {
        ms: 5,
        tag: None,
        session: None,
        bytes,
    };
    vec![
        scenario(
            "147 values at completion",
            false,
            Ending::Stay,
            vec![Step::SetMany(147)],
        ),
        Scenario {
            is_long: true,
            ..scenario("3 MB to and fro", false, Ending::Stay, vec![bytes(3_000_000)])
        },
        Scenario {
            is_long: true,
            ..scenario("fan-out 120, deleted", false, Ending::Delete, vec![Step::Fan(120)])
        },
    ]
}

fn usual() -> Vec<Scenario> {
    let text = |text: &str| text.to_owned();
    let child = |name: Option<&str>, steps| Step::Child(name.map(str::to_owned), steps);
    let queue = vec![Step::Queue(2), Step::Again, Step::Queue(2), call(5, None)];
    let values = vec![
        Step::Set(text("k0"), text("a")),
        Step::Set(text("k1"), text("b")),
        Step::Again,
        Step::Clear(text("k0")),
        Step::Status(text("s")),
        Step::Values,
        Step::Set(text("k2"), text("c")),
    ];
    let sessions = vec![call(5, Some("one")), call(5, Some("one")), call(5, Some("two"))];
    let tree = vec![
        child(Some("f0-a"), vec![child(None, vec![call(1, None)])]),
        child(Some("f0-b"), vec![call(1, None)]),
    ];
    vec![
        scenario("hello", true, Ending::Stay, vec![call(5, None)]),
        scenario(
            "sub-workflow",
            true,
            Ending::Stay,
            vec![child(Some("f0-child"), vec![call(5, None)])],
        ),
        scenario("fan-out 100", false, Ending::Stay, vec![Step::Fan(100)]),
        scenario("queue over continue-as-new", true, Ending::Stay, queue),
        scenario("values at completion", true, Ending::Stay, values),
        scenario("sessions", true, Ending::Stay, sessions),
        scenario(
            "cancelled activity",
            true,
            Ending::Cancel,
            vec![Step::LingerBoth(text("f0-child"))],
        ),
        scenario("deleted tree", false, Ending::Delete, tree),
        scenario(
            "deleted while it runs",
            true,
            Ending::ForceDelete,
            vec![call(5, None), Step::Linger],
        ),
        scenario(
            "timer against activity",
            true,
            Ending::Stay,
            vec![Step::Race(500, 1), Step::Race(30_000, 1)],
        ),
        scenario("", false, Ending::ForceDelete, vec![call(5, None), Step::Linger])
            .uncached("deleted while it runs, nothing cached"),
    ]
}

/// One run of a scenario: its faults by call.
pub type Faults = BTreeMap<u64, Fault>;

impl Scenario {
    /// The same, with nothing cached.
    fn uncached(mut self, name: &'static str) -> Self {
        self.name = name;
        self.cache_bytes = 0;
        self
    }

    /// Runs it.
    pub fn run(&self, faults: &Faults) -> Outcome {
        run(&self.config(faults), false)
    }

    /// What is run.
    pub fn config(&self, faults: &Faults) -> Config {
        let members = match self.kind {
            Kind::Alone => Vec::new(),
            Kind::Shared => vec![Member::generalist(); 2],
        };
        Config {
            faults: faults.clone(),
            cache_bytes: self.cache_bytes,
            members,
            ..Config::calm(self.flows.clone())
        }
    }

    /// The faults to try at a call. In long scenarios only two, and only at commits.
    fn faults(&self, operation: Operation) -> &'static [Fault] {
        match (self.kind, operation) {
            (Kind::Alone, Operation::Sync) => &Fault::OF_SYNC,
            (Kind::Alone, _) => Fault::ALONE,
            (Kind::Shared, Operation::Commit) if self.is_long => &[Fault::LostReply, Fault::KillAfter],
            (Kind::Shared, _) if self.is_long => &[],
            (Kind::Shared, _) => &Fault::SHARED,
        }
    }

    /// Every run of the scenario: every fault at every call, and for short ones every pair.
    pub fn all(&self) -> Vec<Faults> {
        let operations = self.run(&Faults::new()).operations;
        let calls: Vec<(u64, Operation)> = (0..).zip(operations).collect();
        let mut all = Vec::new();
        for (at, operation) in &calls {
            let faults = self.faults(*operation).iter();
            all.extend(faults.map(|fault| Faults::from([(*at, *fault)])));
        }
        if self.pairs {
            let is_lost =
                |(_, operation): &&(u64, Operation)| self.kind == Kind::Alone || *operation == Operation::Commit;
            let count = calls.len() as u64;
            for (lost, _) in calls.iter().filter(is_lost) {
                // Resolving the outcome of a commit takes some more calls.
                for killed in lost + 1..count + 4 {
                    let kills = [Fault::KillBefore, Fault::KillAfter];
                    all.extend(kills.map(|kill| Faults::from([(*lost, Fault::LostReply), (killed, kill)])));
                }
            }
        }
        all
    }
}

/// The result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// How many runs there were, by scenario.
    pub runs: BTreeMap<&'static str, u64>,
    /// The faults that were injected.
    pub counters: Counters,
    /// Runs that failed: the scenario with its faults, and the violation.
    pub failed: Vec<(String, String)>,
    /// The first of them, to be repeated.
    pub first: Option<Config>,
}

impl Swept {
    /// How many runs there were.
    pub fn total(&self) -> u64 {
        self.runs.values().sum()
    }
}

/// Runs every scenario with every fault, on several threads, until this many runs have failed.
pub fn sweep(scenarios: &[Scenario], threads: usize, most: usize) -> Swept {
    let jobs: Vec<(&Scenario, Faults)> = scenarios
        .iter()
        .flat_map(|scenario| scenario.all().into_iter().map(move |faults| (scenario, faults)))
        .collect();
    let (next, swept) = (AtomicUsize::new(0), Mutex::new(Swept::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((scenario, faults)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = scenario.run(faults);
                    let mut swept = swept.lock();
                    *swept.runs.entry(scenario.name).or_default() += 1;
                    swept.counters.add(&outcome.counters);
                    if let Some(violation) = outcome.violations.into_iter().next() {
                        swept.first.get_or_insert_with(|| scenario.config(faults));
                        swept
                            .failed
                            .push((format!("{} with {faults:?}", scenario.name), violation));
                    }
                    if swept.failed.len() >= most {
                        return;
                    }
                }
            });
        }
    });
    swept.into_inner()
}

/// The first failure of the whole sweep, on this thread.
pub fn first_failure(kind: Kind) -> Option<(String, String)> {
    scenarios(kind).iter().rev().find_map(|scenario| {
        scenario.all().into_iter().find_map(|faults| {
            let violation = scenario.run(&faults).violations.into_iter().next()?;
            Some((format!("{} with {faults:?}", scenario.name), violation))
        })
    })
}

//! Every fault at every call: no sampling.

use crate::config::Config;
use crate::fault::{Fault, Tally};
use crate::program::{Ending, Flow, Step};
use crate::run::{Outcome, run};
use std::collections::BTreeMap;

/// A scenario of the sweep.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// Its workflows.
    pub flows: Vec<Flow>,
    /// Whether every pair of a lost reply and a later kill is tried, too.
    pub pairs: bool,
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
    }
}

/// The scenarios.
pub fn scenarios() -> Vec<Scenario> {
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
    ]
}

/// What came of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// How many runs there were, by scenario: single faults and pairs.
    pub runs: BTreeMap<&'static str, (u64, u64)>,
    /// What went wrong by design.
    pub tally: Tally,
    /// Runs that failed: the scenario, what was done to it, what was seen.
    pub failed: Vec<(String, String)>,
}

impl Swept {
    /// How many runs there were.
    pub fn total(&self) -> u64 {
        self.runs.values().map(|(singles, pairs)| singles + pairs).sum()
    }

    fn take(&mut self, name: &str, faults: &BTreeMap<u64, Fault>, outcome: Outcome) {
        self.tally.add(&outcome.tally);
        if let Some(violation) = outcome.violations.into_iter().next() {
            self.failed.push((format!("{name} with {faults:?}"), violation));
        }
    }
}

fn with(scenario: &Scenario, faults: &BTreeMap<u64, Fault>) -> Outcome {
    let config = Config {
        faults: faults.clone(),
        ..Config::calm(scenario.flows.clone())
    };
    run(&config, false)
}

/// How many calls a scenario makes before it is checked.
fn calls_of(scenario: &Scenario) -> u64 {
    with(scenario, &BTreeMap::new()).calls_before_check
}

/// Sweeps one scenario, until so many runs have failed.
pub fn sweep(scenario: &Scenario, most: usize) -> Swept {
    let mut swept = Swept::default();
    let calls = calls_of(scenario);
    for at in 0..calls {
        for fault in Fault::ALL {
            let faults = BTreeMap::from([(at, fault)]);
            let outcome = with(scenario, &faults);
            swept.runs.entry(scenario.name).or_default().0 += 1;
            swept.take(scenario.name, &faults, outcome);
            if swept.failed.len() >= most {
                return swept;
            }
        }
    }
    if !scenario.pairs {
        return swept;
    }
    for lost in 0..calls {
        // Finding out what became of a commit takes some calls more.
        for killed in lost + 1..calls + 4 {
            for kill in [Fault::KillBefore, Fault::KillAfter] {
                let faults = BTreeMap::from([(lost, Fault::LostReply), (killed, kill)]);
                let outcome = with(scenario, &faults);
                swept.runs.entry(scenario.name).or_default().1 += 1;
                swept.take(scenario.name, &faults, outcome);
                if swept.failed.len() >= most {
                    return swept;
                }
            }
        }
    }
    swept
}

/// The first failure of the whole sweep.
pub fn first_failure() -> Option<(String, String)> {
    scenarios()
        .iter()
        .find_map(|scenario| sweep(scenario, 1).failed.into_iter().next())
}

//! What a run is made of: everything that a seed decides.

use crate::fault::{Fault, Rates};
use crate::program::{Ending, Flow, Step};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Decides all chance that is left.
    pub seed: u64,
    /// The workflows.
    pub flows: Vec<Flow>,
    /// What goes wrong by chance.
    pub rates: Rates,
    /// What goes wrong at which call of the store.
    pub faults: BTreeMap<u64, Fault>,
    /// When the process is killed, in true time.
    pub kills_ms: Vec<u64>,
    /// When the runtime is shut down and started again on the same engine, in true time.
    pub bounces_ms: Vec<u64>,
    /// When the wall clock jumps, and how far.
    pub jumps: Vec<(u64, i64)>,
    /// The longest time that a call takes when nothing is wrong.
    pub latency_ms: u64,
    /// The memory for recent instances.
    pub cache_bytes: u64,
    /// The largest body that waits in memory.
    pub held_body_bytes: usize,
    /// Dispatchers of turns.
    pub turn_dispatchers: usize,
    /// Dispatchers of activities.
    pub work_dispatchers: usize,
}

impl Config {
    /// A run of these workflows in which nothing goes wrong.
    pub fn calm(flows: Vec<Flow>) -> Self {
        Self {
            seed: 0,
            flows,
            rates: Rates::default(),
            faults: BTreeMap::new(),
            kills_ms: Vec::new(),
            bounces_ms: Vec::new(),
            jumps: Vec::new(),
            latency_ms: 0,
            cache_bytes: 1 << 27,
            held_body_bytes: 1 << 14,
            turn_dispatchers: 2,
            work_dispatchers: 2,
        }
    }

    /// The run of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let chance = &mut Rng::with_seed(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x5EED);
        let flows = (0..chance.usize(1..6)).map(|n| flow(chance, n)).collect();
        let mut config = Self {
            seed,
            rates: rates(chance),
            latency_ms: chance.choice([0, 0, 3, 50]).unwrap_or_default(),
            cache_bytes: if chance.u8(0..3) == 0 { 0 } else { 1 << 27 },
            held_body_bytes: if chance.u8(0..4) == 0 { 0 } else { 1 << 14 },
            turn_dispatchers: chance.usize(1..4),
            work_dispatchers: chance.usize(1..5),
            ..Self::calm(flows)
        };
        if chance.bool() {
            for _ in 0..chance.usize(1..5) {
                let fault = if chance.bool() {
                    Fault::KillBefore
                } else {
                    Fault::KillAfter
                };
                config.faults.insert(chance.u64(0..120), fault);
            }
        }
        if chance.u8(0..3) == 0 {
            config.kills_ms = (0..chance.usize(1..3)).map(|_| chance.u64(0..60_000)).collect();
        }
        if chance.u8(0..4) == 0 {
            config.bounces_ms = (0..chance.usize(1..3)).map(|_| chance.u64(0..60_000)).collect();
        }
        if chance.u8(0..4) == 0 {
            let jump = |chance: &mut Rng| (chance.u64(0..60_000), chance.i64(-90_000..90_000));
            config.jumps = (0..chance.usize(1..4)).map(|_| jump(chance)).collect();
        }
        config.sort();
        config
    }

    /// Puts what happens at a time in order.
    pub fn sort(&mut self) {
        self.kills_ms.sort_unstable();
        self.bounces_ms.sort_unstable();
        self.jumps.sort_unstable();
    }

    /// How long a call takes.
    pub fn latency(&self, chance: &mut Rng) -> u64 {
        if self.latency_ms == 0 || chance.bool() {
            return 0;
        }
        chance.u64(0..=self.latency_ms)
    }
}

fn rates(chance: &mut Rng) -> Rates {
    let mut rate = || {
        let most = [0, 0, 2_000, 20_000, 60_000];
        let at = chance.usize(0..most.len());
        most.get(at).copied().unwrap_or_default()
    };
    Rates {
        throttled: rate(),
        unavailable: rate(),
        outage: rate() / 4,
        lost_reply: rate(),
        lost_request: rate(),
        slow_before: rate() / 2,
        slow_after: rate() / 2,
    }
}

fn flow(chance: &mut Rng, n: usize) -> Flow {
    let name = format!("f{n}");
    let ending = match chance.u8(0..10) {
        0 | 1 => Ending::Cancel,
        2 => Ending::Delete,
        3 => Ending::ForceDelete,
        4 => Ending::Prune,
        _ => Ending::Stay,
    };
    let mut maker = Maker {
        chance,
        root: name.clone(),
        made: 0,
    };
    let count = maker.chance.usize(1..7);
    let mut steps = maker.steps(count, 0);
    match ending {
        Ending::Cancel if maker.chance.bool() => steps.push(Step::LingerBoth(maker.name("child"))),
        Ending::Cancel => steps.push(Step::Linger),
        // Who force-deletes an instance while its children are being born leaves orphans; the runtime says so.
        Ending::ForceDelete => {
            steps.retain(|step| !matches!(step, Step::Child(..)));
            steps.push(Step::Linger);
        }
        _ if maker.chance.u8(0..12) == 0 => steps.push(Step::Fail),
        _ => {}
    }
    Flow {
        name,
        steps,
        ending,
        start_ms: if chance.bool() { 0 } else { chance.u64(0..20_000) },
    }
}

struct Maker<'a> {
    chance: &'a mut Rng,
    root: String,
    made: u32,
}

impl Maker<'_> {
    fn name(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{}-{what}{}", self.root, self.made)
    }

    fn steps(&mut self, count: usize, depth: u32) -> Vec<Step> {
        (0..count).map(|_| self.step(depth)).collect()
    }

    fn step(&mut self, depth: u32) -> Step {
        let key = |chance: &mut Rng| format!("k{}", chance.u8(0..3));
        match self.chance.u8(0..26) {
            0..=4 => self.call(),
            5 => Step::Retry(self.chance.u32(1..4)),
            6 | 7 => Step::Fan(self.chance.u32(2..14)),
            8 => Step::Nap(self.chance.u64(1..5)),
            9 | 10 => Step::Race(self.chance.u64(0..30_000), self.chance.u64(1..4)),
            11 | 12 if depth < 2 => {
                let name = self.chance.bool().then(|| self.name("child"));
                let count = self.chance.usize(1..4);
                Step::Child(name, self.steps(count, depth + 1))
            }
            13 if depth == 0 => {
                let name = self.name("apart");
                let count = self.chance.usize(1..3);
                Step::Detach(name, self.steps(count, depth + 1))
            }
            14 | 15 if depth == 0 => Step::Event(self.name("event")),
            16..=18 if depth == 0 => Step::Queue(self.chance.u32(1..4)),
            19 | 20 => Step::Again,
            21 | 22 => Step::Set(key(self.chance), format!("v{}", self.chance.u8(..))),
            23 if self.chance.bool() => Step::Clear(key(self.chance)),
            23 => Step::ClearAll,
            24 => Step::Values,
            25 => Step::Status(format!("s{}", self.chance.u8(..))),
            _ => self.call(),
        }
    }

    fn call(&mut self) -> Step {
        Step::Call {
            ms: match self.chance.u8(0..6) {
                0 | 1 => 0,
                2 => self.chance.u64(0..60_000),
                _ => self.chance.u64(0..300),
            },
            tag: (self.chance.u8(0..6) == 0).then(|| "gpu".to_owned()),
            session: (self.chance.u8(0..5) == 0).then(|| format!("session{}", self.chance.u8(0..2))),
            bytes: if self.chance.u8(0..12) == 0 {
                self.chance.usize(0..60_000)
            } else {
                10
            },
        }
    }
}

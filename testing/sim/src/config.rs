//! What a run is made of: everything that a seed decides.

use crate::fault::{Fault, Rates};
use crate::maker::{Size, flow};
use crate::member::Member;
use crate::program::Flow;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Decides everything else that is left to chance.
    pub seed: u64,
    /// The workflows.
    pub flows: Vec<Flow>,
    /// How often faults occur by chance.
    pub rates: Rates,
    /// Faults at given calls of the store.
    pub faults: BTreeMap<u64, Fault>,
    /// When the process is killed, in true time.
    pub kills_ms: Vec<u64>,
    /// When the runtime is shut down and started again on the same engine, in true time.
    pub bounces_ms: Vec<u64>,
    /// When the wall clock jumps, and how far.
    pub jumps: Vec<(u64, i64)>,
    /// The longest time that a call takes when nothing is wrong.
    pub latency_ms: u64,
    /// Whether the store of one process has records far away, so that a commit is overtaken by those that name others.
    #[serde(default)]
    pub cold_reads: bool,
    /// The memory for cached instances.
    pub cache_bytes: u64,
    /// The largest body that waits in memory.
    pub held_body_bytes: usize,
    /// Dispatchers of turns.
    pub turn_dispatchers: usize,
    /// Dispatchers of activities.
    pub work_dispatchers: usize,
    /// The processes that live at once on a shared store. None: one process after another, on a store of its own.
    #[serde(default)]
    pub members: Vec<Member>,
    /// How long a process may not see other processes' commits.
    #[serde(default)]
    pub lag_ms: u64,
    /// How many signals are lost, late or doubled, in millionths.
    #[serde(default)]
    pub signal_faults: u32,
}

/// Of the seeds from here on, every other one has [cold reads](Config::cold_reads). Those before are what they always were.
pub const COLD_SEEDS: u64 = 1_000_000;

/// How processes use a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One process after another.
    Alone,
    /// Several processes at once.
    Shared,
}

impl Kind {
    /// The run of a seed.
    pub fn of_seed(self, seed: u64) -> Config {
        match self {
            Self::Alone => Config::of_seed(seed),
            Self::Shared => Config::shared_of_seed(seed),
        }
    }

    /// Its name, as the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Shared => "shared",
        }
    }
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
            cold_reads: false,
            cache_bytes: 1 << 27,
            held_body_bytes: 1 << 14,
            turn_dispatchers: 2,
            work_dispatchers: 2,
            members: Vec::new(),
            lag_ms: 0,
            signal_faults: 0,
        }
    }

    /// Whether several processes share the store.
    pub fn is_shared(&self) -> bool {
        !self.members.is_empty()
    }

    /// The run of a seed in which several processes share the store.
    pub fn shared_of_seed(seed: u64) -> Self {
        let chance = &mut Rng::with_seed(seed.wrapping_mul(0x9E6C_63D0_976A_8F2D) ^ 0x5AA4ED);
        let flows = (0..chance.usize(1..5)).map(|n| flow(chance, n, Size::Large)).collect();
        let count = chance.usize(1..5);
        let mut config = Self {
            seed,
            rates: Rates {
                twice: rate(chance) / 2,
                freeze_before: rate(chance) / 20,
                freeze_after: rate(chance) / 20,
                ..rates(chance)
            },
            latency_ms: chance.choice([0, 3, 3, 50]).unwrap_or_default(),
            cache_bytes: if chance.u8(0..3) == 0 { 0 } else { 1 << 27 },
            held_body_bytes: if chance.u8(0..4) == 0 { 0 } else { 1 << 14 },
            members: (0..count).map(|n| Member::by_chance(chance, n)).collect(),
            lag_ms: chance.choice([0, 0, 40, 3_000]).unwrap_or_default(),
            signal_faults: chance.choice([0, 100_000, 1_000_000]).unwrap_or_default(),
            ..Self::calm(flows)
        };
        if chance.bool() {
            for _ in 0..chance.usize(1..5) {
                config.faults.insert(chance.u64(0..300), death(chance));
            }
        }
        config
    }

    /// The run of a seed in which one process after another has the store for itself.
    pub fn of_seed(seed: u64) -> Self {
        let chance = &mut Rng::with_seed(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x5EED);
        let flows = (0..chance.usize(1..6)).map(|n| flow(chance, n, Size::Usual)).collect();
        let mut config = Self {
            seed,
            rates: rates(chance),
            latency_ms: chance.choice([0, 0, 3, 50]).unwrap_or_default(),
            cold_reads: seed >= COLD_SEEDS && seed.is_multiple_of(2),
            cache_bytes: if chance.u8(0..3) == 0 { 0 } else { 1 << 27 },
            held_body_bytes: if chance.u8(0..4) == 0 { 0 } else { 1 << 14 },
            turn_dispatchers: chance.usize(1..4),
            work_dispatchers: chance.usize(1..5),
            ..Self::calm(flows)
        };
        if chance.bool() {
            for _ in 0..chance.usize(1..5) {
                let fault = death(chance);
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

    /// Sorts everything that happens at a time.
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

fn death(chance: &mut Rng) -> Fault {
    if chance.bool() {
        Fault::KillBefore
    } else {
        Fault::KillAfter
    }
}

fn rate(chance: &mut Rng) -> u32 {
    let most = [0, 0, 2_000, 20_000, 60_000];
    let at = chance.usize(0..most.len());
    most.get(at).copied().unwrap_or_default()
}

fn rates(chance: &mut Rng) -> Rates {
    Rates {
        throttled: rate(chance),
        unavailable: rate(chance),
        outage: rate(chance) / 4,
        lost_reply: rate(chance),
        lost_request: rate(chance),
        slow_before: rate(chance) / 2,
        slow_after: rate(chance) / 2,
        ..Rates::default()
    }
}

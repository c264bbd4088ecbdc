//! The processes of a run in which several live at once.

use duroxide::providers::{SemverRange, TagFilter};
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Which activities a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tags {
    /// All.
    Any,
    /// Those without a tag.
    Plain,
    /// Those with the one tag there is.
    Gpu,
    /// None: it runs turns only.
    None,
}

impl Tags {
    /// The same, as the runtime has it.
    pub fn filter(self) -> TagFilter {
        match self {
            Self::Any => TagFilter::Any,
            Self::Plain => TagFilter::DefaultOnly,
            Self::Gpu => TagFilter::tags(["gpu"]),
            Self::None => TagFilter::None,
        }
    }
}

/// A process, which is started again whenever it dies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// How far its clock is off.
    pub skew_ms: i64,
    /// When it starts, in true time.
    pub start_ms: u64,
    /// Dispatchers of turns.
    pub turn_dispatchers: usize,
    /// Dispatchers of activities.
    pub work_dispatchers: usize,
    /// Which activities it runs.
    pub tags: Tags,
    /// Whether it is of an old release: it cannot replay what newer processes have begun, and cannot continue what it begins.
    pub old: bool,
    /// When it is killed, in true time.
    pub kills_ms: Vec<u64>,
    /// When it freezes, and for how long.
    pub freezes: Vec<(u64, u64)>,
    /// When its runtime is shut down and started again on the same engine, in true time.
    pub bounces_ms: Vec<u64>,
    /// When its clock jumps, and how far.
    pub jumps: Vec<(u64, i64)>,
}

impl Member {
    /// A process that serves everything, and to which nothing happens.
    pub fn generalist() -> Self {
        Self {
            skew_ms: 0,
            start_ms: 0,
            turn_dispatchers: 2,
            work_dispatchers: 2,
            tags: Tags::Any,
            old: false,
            kills_ms: Vec::new(),
            freezes: Vec::new(),
            bounces_ms: Vec::new(),
            jumps: Vec::new(),
        }
    }

    /// A random process; the first one serves everything, so that nothing waits for ever.
    pub fn by_chance(chance: &mut Rng, n: usize) -> Self {
        let mut member = Self {
            skew_ms: chance
                .choice([0, 0, -3_000, 2_000, 45_000, -45_000])
                .unwrap_or_default(),
            start_ms: if chance.bool() { 0 } else { chance.u64(0..30_000) },
            turn_dispatchers: chance.usize(1..3),
            work_dispatchers: chance.usize(1..4),
            ..Self::generalist()
        };
        if n > 0 {
            member.specialise(chance);
        }
        let mut times = |most: usize, one_in: u8| -> Vec<u64> {
            let count = if chance.u8(0..one_in) == 0 {
                chance.usize(1..most)
            } else {
                0
            };
            let mut times: Vec<u64> = (0..count).map(|_| chance.u64(0..90_000)).collect();
            times.sort_unstable();
            times
        };
        member.kills_ms = times(3, 3);
        member.bounces_ms = times(3, 6);
        let (freezes, jumps) = (times(3, 3), times(3, 5));
        member.freezes = freezes.iter().map(|at| (*at, chance.u64(1_000..100_000))).collect();
        member.jumps = jumps.iter().map(|at| (*at, chance.i64(-60_000..60_000))).collect();
        member
    }

    fn specialise(&mut self, chance: &mut Rng) {
        match chance.u8(0..8) {
            0 => (self.tags, self.work_dispatchers) = (Tags::None, 1),
            1 => self.turn_dispatchers = 0,
            2 => self.tags = Tags::Gpu,
            3 => self.tags = Tags::Plain,
            4 => self.old = true,
            _ => {}
        }
    }

    /// The versions of executions that its runtime can replay, if not all of today's.
    pub fn replays(&self) -> Option<SemverRange> {
        let version = |minor| semver::Version::new(0, minor, 0);
        self.old.then(|| SemverRange::new(version(0), version(1)))
    }
}

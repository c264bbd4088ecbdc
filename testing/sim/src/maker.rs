//! Generates workflows.

use crate::program::{Ending, Flow, Step};
use fastrand::Rng;

/// How much a workflow may require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// What every store takes in one commit.
    Usual,
    /// Sometimes more than the limits of databases.
    Large,
}

/// The workflow with this number.
pub fn flow(chance: &mut Rng, n: usize, size: Size) -> Flow {
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
        size,
    };
    let count = maker.chance.usize(1..7);
    let mut steps = maker.steps(count, 0);
    match ending {
        Ending::Cancel if maker.chance.bool() => steps.push(Step::LingerBoth(maker.name("child"))),
        Ending::Cancel => steps.push(Step::Linger),
        // Force-deleting an instance while its children are being started leaves orphans, as the runtime documents.
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
    size: Size,
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
        if self.size == Size::Large && self.chance.u8(0..24) == 0 {
            return self.large_step();
        }
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

    /// A step that does not fit into a commit of a database.
    fn large_step(&mut self) -> Step {
        match self.chance.u8(0..6) {
            0 if self.chance.u8(0..5) == 0 => Step::Call {
                ms: 0,
                tag: None,
                session: None,
                bytes: 3_000_000,
            },
            1 | 2 => Step::SetMany(147),
            _ => Step::Fan(120),
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

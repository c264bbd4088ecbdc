//! What can go wrong at a call of a store.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A call of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operation {
    /// A commit.
    Commit,
    /// A read of one record.
    Get,
    /// A scan of a partition.
    Scan,
    /// A query for due work.
    Due,
    /// A query by attributes.
    List,
    /// A read of totals.
    Counters,
    /// A write of everything that is ordered, and its sync: on a store of one process.
    Sync,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The store asks the caller to wait this many milliseconds; the call has no effect.
    Throttled(u64),
    /// The store cannot be reached; the call has no effect.
    Unavailable,
    /// The same for all processes, for this many milliseconds.
    Outage(u64),
    /// The call takes effect, and its reply is lost.
    LostReply,
    /// The call has no effect, and its reply is lost.
    LostRequest,
    /// The call takes effect this many milliseconds later.
    SlowBefore(u64),
    /// The call takes effect, and its reply arrives this many milliseconds later.
    SlowAfter(u64),
    /// The process dies before the call takes effect.
    KillBefore,
    /// The process dies right after the call took effect.
    KillAfter,
    /// The call takes effect and is repeated: a client library did not get the first reply. The result of the second attempt
    /// proves nothing.
    Twice,
    /// The process freezes for this many milliseconds before the call takes effect.
    FreezeBefore(u64),
    /// The call takes effect, and the process freezes for this many milliseconds before it gets the reply.
    FreezeAfter(u64),
}

impl Fault {
    /// Its name, without its numbers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throttled(_) => "throttled",
            Self::Unavailable => "unavailable",
            Self::Outage(_) => "outage",
            Self::LostReply => "lost reply",
            Self::LostRequest => "lost request",
            Self::SlowBefore(_) => "slow before",
            Self::SlowAfter(_) => "slow after",
            Self::KillBefore => "kill before",
            Self::KillAfter => "kill after",
            Self::Twice => "twice",
            Self::FreezeBefore(_) => "freeze before",
            Self::FreezeAfter(_) => "freeze after",
        }
    }

    /// The faults of a store of one process, as the sweep uses them: slower than every lease, out for most of the engine's
    /// timeout.
    pub const ALONE: &'static [Self] = Self::SHARED.split_at(9).0;

    /// The faults of a sync: before it, what was ordered since the last one is lost with the process.
    pub const OF_SYNC: [Self; 3] = [Self::SlowBefore(40_000), Self::KillBefore, Self::KillAfter];

    /// The faults of a shared store; those that other stores do not have come last.
    pub const SHARED: [Self; 12] = [
        Self::Throttled(700),
        Self::Unavailable,
        Self::Outage(3_000),
        Self::LostReply,
        Self::LostRequest,
        Self::SlowBefore(40_000),
        Self::SlowAfter(40_000),
        Self::KillBefore,
        Self::KillAfter,
        Self::Twice,
        Self::FreezeBefore(40_000),
        Self::FreezeAfter(40_000),
    ];
}

/// How often each fault occurs by chance, in millionths of the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// [`Fault::Throttled`].
    pub throttled: u32,
    /// [`Fault::Unavailable`].
    pub unavailable: u32,
    /// [`Fault::Outage`].
    pub outage: u32,
    /// [`Fault::LostReply`].
    pub lost_reply: u32,
    /// [`Fault::LostRequest`].
    pub lost_request: u32,
    /// [`Fault::SlowBefore`].
    pub slow_before: u32,
    /// [`Fault::SlowAfter`].
    pub slow_after: u32,
    /// [`Fault::Twice`].
    #[serde(default)]
    pub twice: u32,
    /// [`Fault::FreezeBefore`].
    #[serde(default)]
    pub freeze_before: u32,
    /// [`Fault::FreezeAfter`].
    #[serde(default)]
    pub freeze_after: u32,
}

impl Rates {
    /// Draws the fault of one call.
    pub fn draw(&self, chance: &mut fastrand::Rng) -> Option<Fault> {
        let at = chance.u32(0..1_000_000);
        let mut up_to = 0;
        let mut hit = |rate: u32| {
            up_to += rate;
            at < up_to
        };
        if hit(self.throttled) {
            return Some(Fault::Throttled(chance.u64(1..1_500)));
        }
        if hit(self.unavailable) {
            return Some(Fault::Unavailable);
        }
        if hit(self.outage) {
            return Some(Fault::Outage(chance.u64(100..3_000)));
        }
        if hit(self.lost_reply) {
            return Some(Fault::LostReply);
        }
        if hit(self.lost_request) {
            return Some(Fault::LostRequest);
        }
        if hit(self.slow_before) {
            return Some(Fault::SlowBefore(slowness(chance)));
        }
        if hit(self.slow_after) {
            return Some(Fault::SlowAfter(slowness(chance)));
        }
        if hit(self.twice) {
            return Some(Fault::Twice);
        }
        if hit(self.freeze_before) {
            return Some(Fault::FreezeBefore(slowness(chance)));
        }
        hit(self.freeze_after).then(|| Fault::FreezeAfter(slowness(chance)))
    }
}

/// Mostly a moment, sometimes longer than any lease.
fn slowness(chance: &mut fastrand::Rng) -> u64 {
    match chance.u8(0..4) {
        0 => chance.u64(10_000..90_000),
        1 => chance.u64(1_000..10_000),
        _ => chance.u64(1..200),
    }
}

/// How often each fault hit each operation.
#[derive(Clone, Debug, Default)]
pub struct Counters(BTreeMap<(&'static str, Operation), u64>);

impl Counters {
    /// Counts one.
    pub fn count(&mut self, fault: Fault, operation: Operation) {
        *self.0.entry((fault.name(), operation)).or_default() += 1;
    }

    /// Adds another count.
    pub fn add(&mut self, other: &Self) {
        for (key, count) in &other.0 {
            *self.0.entry(*key).or_default() += count;
        }
    }

    /// The total.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Operation::{Commit, Counters, Due, Get, List, Scan, Sync};
        let operations = [Commit, Get, Scan, Due, List, Counters, Sync];
        write!(f, "{:<14}", "fault")?;
        for operation in operations {
            write!(f, "{:>10}", format!("{operation:?}").to_lowercase())?;
        }
        for fault in Fault::SHARED {
            write!(f, "\n{:<14}", fault.name())?;
            for operation in operations {
                let count = self.0.get(&(fault.name(), operation)).copied().unwrap_or_default();
                write!(f, "{count:>10}")?;
            }
        }
        Ok(())
    }
}

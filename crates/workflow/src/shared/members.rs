//! Who else works on the store, and which of its work is whose.
//!
//! Every process that serves announces itself with a record among the chores, which others find when they look for those:
//! knowing each other costs nobody a question. What a process lanes is its own to work at, if it can. What a client
//! lanes, and every activity, belongs to the member that rendezvous hashing gives it to. This is affinity and not
//! ownership: who finds what is another's leaves it alone for a moment, and takes it if it is still there then. So
//! nothing waits for a process that is gone, or busy, or cannot do it.

mod announce;

pub use announce::{announce, leave, meet};

use crate::mutation::mutant;
use crate::records::lanes;
use crate::records::member::{Member, Serves};
use parking_lot::Mutex;
use perennial_store::{Key, Order, Record, Slot, Version};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// How long a process is believed to live that says nothing new: longer than two announcements are apart.
const LIFE_MS: u64 = 75_000;
/// How long each of those who come before this process is waited for.
pub const DEFER_MS: u64 = 200;
/// How many of them.
const MOST: u64 = 3;
/// How long what is another's is left alone while there is more to do than one answer tells.
const BACKLOG_MS: u64 = 5_000;
/// How much that is another's is remembered before the oldest of it is forgotten.
const SIGHTS: usize = 4_096;
/// For how long.
const SIGHT_MS: u64 = 60_000;

/// The processes that work on the store.
#[derive(Default)]
pub struct Members {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What this process serves, all that anybody here has asked for.
    serves: Serves,
    /// What it said last, and when.
    said: Option<(Serves, u64)>,
    others: BTreeMap<Arc<str>, Other>,
    /// How many rounds of chores have ended.
    rounds: u64,
    /// When something was first seen that is another's.
    sights: HashMap<Key, u64>,
}

/// Another process that works on the store.
struct Other {
    serves: Serves,
    /// Its record as it was last seen, and since when.
    version: Version,
    since_ms: u64,
    /// The round of chores that last told of it.
    round: u64,
}

impl Other {
    /// Whether it is believed to live.
    fn lives(&self, now_ms: u64) -> bool {
        now_ms < self.since_ms.saturating_add(LIFE_MS)
    }
}

impl Members {
    /// A process has announced itself; tells whether it lives: it does not if it has said nothing new for too long. That is
    /// measured by the clock here, but for one that is met for the first time, which may have been silent before.
    fn met(&self, member: Member, version: Version, now_ms: u64) -> bool {
        let mut state = self.state.lock();
        let round = state.rounds;
        let since_ms = match state.others.get(&member.process) {
            Some(known) if known.version == version => known.since_ms,
            Some(_) => now_ms,
            None => member.said_ms,
        };
        let other = Other {
            serves: member.serves,
            version,
            // If a clock is ahead or is put back, nobody lives longer by that.
            since_ms: since_ms.min(now_ms),
            round,
        };
        let lives = other.lives(now_ms);
        state.others.insert(member.process, other);
        lives
    }

    /// Somebody here serves these.
    pub fn serve(&self, serves: &Serves) {
        let mut state = self.state.lock();
        state.serves.any_work |= serves.any_work;
        for topic in &serves.topics {
            if !state.serves.topics.contains(topic) {
                state.serves.topics.insert(Arc::clone(topic));
            }
        }
    }

    /// A round of chores has ended: who was not met is gone.
    pub fn met_all(&self) {
        let mut state = self.state.lock();
        let round = std::mem::take(&mut state.rounds);
        state.others.retain(|_, other| other.round == round);
        state.rounds = round + 1;
    }

    /// Until when this process leaves something to others; `None` if it may take it. An activity goes by its `session` if it
    /// has one. `backlog` says that there is more to do than the store told.
    pub fn left_until(
        &self,
        me: &str,
        record: &Record,
        session: Option<&str>,
        backlog: bool,
        now_ms: u64,
    ) -> Option<u64> {
        let mut state = self.state.lock();
        let rank = state.rank(me, record, session, now_ms);
        if rank == 0 {
            return None;
        }
        mutant!(LeaveToOwners, return Some(u64::MAX));
        if state.sights.len() >= SIGHTS {
            state
                .sights
                .retain(|_, seen_ms| now_ms.saturating_sub(*seen_ms) < SIGHT_MS);
        }
        if state.sights.len() >= SIGHTS {
            state.sights.clear();
        }
        let seen_ms = state.sights.entry(record.key.clone()).or_insert(now_ms);
        // If the clock is put back, the wait does not become longer by that.
        *seen_ms = (*seen_ms).min(now_ms);
        let defer_ms = if backlog { BACKLOG_MS } else { rank.min(MOST) * DEFER_MS };
        let until_ms = *seen_ms + defer_ms;
        (until_ms > now_ms).then_some(until_ms)
    }

    /// Whether another process works at turns.
    pub fn takes_turns(&self, process: &str, now_ms: u64) -> bool {
        let state = self.state.lock();
        state.said.is_some() && state.others_for(lanes::TURN, now_ms).any(|other| other == process)
    }

    /// Whether an activity is another's to work at.
    pub fn is_foreign(&self, me: &str, topic: &str, order: Order, now_ms: u64) -> bool {
        let state = self.state.lock();
        state.said.is_some() && precede(me, state.others_for(topic, now_ms), order.0) > 0
    }
}

impl State {
    /// The others who take what stands in this topic.
    fn others_for(&self, topic: &str, now_ms: u64) -> impl Iterator<Item = &str> {
        let takes = move |other: &Other| other.lives(now_ms) && other.serves.takes(topic);
        let others = self.others.iter().filter(move |(_, other)| takes(other));
        others.map(|(process, _)| &**process)
    }

    /// How many come before this process to work at something. Until it has announced itself, it looks at nobody.
    fn rank(&self, me: &str, record: &Record, session: Option<&str>, now_ms: u64) -> u64 {
        let Some(place) = record.place.as_ref().filter(|_| self.said.is_some()) else {
            return 0;
        };
        let topic = place.lane.topic.as_deref().unwrap_or_default();
        if topic != lanes::TURN {
            let what = session.map_or(place.order.0, |session| xxh3_64(session.as_bytes()));
            return precede(me, self.others_for(topic, now_ms), what);
        }
        let maker = record.key.id.as_str().rsplit('/').next().unwrap_or_default();
        if maker == me {
            return 0;
        }
        let slot = u64::from(Slot::of(&record.key.partition).0);
        let before = precede(me, self.others_for(topic, now_ms).filter(|other| *other != maker), slot);
        before + u64::from(self.others_for(topic, now_ms).any(|other| other == maker))
    }
}

/// How many of the others rendezvous hashing puts before this process.
fn precede<'a>(me: &str, others: impl Iterator<Item = &'a str>, what: u64) -> u64 {
    let score = |process: &str| xxh3_64_with_seed(process.as_bytes(), what);
    let mine = score(me);
    others.filter(|other| score(other) > mine).count() as u64
}

#[cfg(test)]
mod tests;

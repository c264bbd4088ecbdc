//! The processes that work on the store, and which of them is preferred for which work.
//!
//! Every process that serves announces itself with a record among the chores, which the others find when they look for
//! those: knowing each other costs no query. A process is preferred for what it queues itself, if it can serve it. What a
//! client queues, and every activity, goes to the member that rendezvous hashing prefers. This is affinity, not ownership:
//! a process defers to the preferred one for a moment, then claims the work itself. So nothing waits for a process that is
//! gone, or busy, or cannot serve it.

mod announce;

pub use announce::{announce, leave, meet};

use crate::mutation::mutant;
use crate::records::lanes;
use crate::records::member::{Member, Serves};
use crate::tuning::{DEFER_BACKLOG_MS, DEFER_MS, DEFER_TO_MOST, MEMBER_LIFE_MS, SIGHT_MS, SIGHTS_MOST};
use parking_lot::Mutex;
use perennial_store::{Key, Order, Record, Slot, Version};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The processes that work on the store.
#[derive(Default)]
pub struct Members {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What this process serves: all that its fetches have asked for.
    serves: Serves,
    /// What it announced last, and when.
    said: Option<(Serves, u64)>,
    others: BTreeMap<Arc<str>, Other>,
    /// How many rounds of chores have ended.
    rounds: u64,
    /// When a record was first seen that another process is preferred for.
    sights: HashMap<Key, u64>,
}

/// Another process that works on the store.
struct Other {
    serves: Serves,
    /// The version of its record that was last seen, and since when.
    version: Version,
    since_ms: u64,
    /// The round of chores that last found it.
    round: u64,
}

impl Other {
    /// Whether it counts as alive.
    fn lives(&self, now_ms: u64) -> bool {
        now_ms < self.since_ms.saturating_add(MEMBER_LIFE_MS)
    }
}

impl Members {
    /// A process has announced itself; returns whether it counts as alive: not if its last announcement is too old. That is
    /// measured by the clock here, except for one that is met for the first time, which may have been silent before.
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
            // A clock that is ahead, or put back, makes no process live longer.
            since_ms: since_ms.min(now_ms),
            round,
        };
        let lives = other.lives(now_ms);
        state.others.insert(member.process, other);
        lives
    }

    /// A fetch of this process serves these.
    pub fn serve(&self, serves: &Serves) {
        let mut state = self.state.lock();
        state.serves.any_work |= serves.any_work;
        for topic in &serves.topics {
            if !state.serves.topics.contains(topic) {
                state.serves.topics.insert(Arc::clone(topic));
            }
        }
    }

    /// A round of chores has ended: a process that was not met is gone.
    pub fn met_all(&self) {
        let mut state = self.state.lock();
        let round = std::mem::take(&mut state.rounds);
        state.others.retain(|_, other| other.round == round);
        state.rounds = round + 1;
    }

    /// Until when this process defers to others that are preferred for a record; `None` if it may take it. An activity goes by
    /// its `session` if it has one. `backlog` says that there is more to do than one poll returns.
    pub fn deferred_until(
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
        if state.sights.len() >= SIGHTS_MOST {
            state
                .sights
                .retain(|_, seen_ms| now_ms.saturating_sub(*seen_ms) < SIGHT_MS);
        }
        if state.sights.len() >= SIGHTS_MOST {
            state.sights.clear();
        }
        let seen_ms = state.sights.entry(record.key.clone()).or_insert(now_ms);
        // A clock that is put back does not make the wait longer.
        *seen_ms = (*seen_ms).min(now_ms);
        let defer_ms = if backlog {
            DEFER_BACKLOG_MS
        } else {
            rank.min(DEFER_TO_MOST) * DEFER_MS
        };
        let until_ms = *seen_ms + defer_ms;
        (until_ms > now_ms).then_some(until_ms)
    }

    /// Whether another process serves turns.
    pub fn takes_turns(&self, process: &str, now_ms: u64) -> bool {
        let state = self.state.lock();
        state.said.is_some() && state.others_for(lanes::TURN, now_ms).any(|other| other == process)
    }

    /// Whether another process is preferred for an activity.
    pub fn is_foreign(&self, me: &str, topic: &str, order: Order, now_ms: u64) -> bool {
        let state = self.state.lock();
        state.said.is_some() && precede(me, state.others_for(topic, now_ms), order.0) > 0
    }
}

impl State {
    /// The other processes that serve a topic.
    fn others_for(&self, topic: &str, now_ms: u64) -> impl Iterator<Item = &str> {
        let takes = move |other: &Other| other.lives(now_ms) && other.serves.takes(topic);
        let others = self.others.iter().filter(move |(_, other)| takes(other));
        others.map(|(process, _)| &**process)
    }

    /// How many processes are preferred to this one for a record. Until it has announced itself, it defers to none.
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

/// How many of the others rendezvous hashing prefers to this process.
fn precede<'a>(me: &str, others: impl Iterator<Item = &'a str>, what: u64) -> u64 {
    let score = |process: &str| xxh3_64_with_seed(process.as_bytes(), what);
    let mine = score(me);
    others.filter(|other| score(other) > mine).count() as u64
}

#[cfg(test)]
mod tests;

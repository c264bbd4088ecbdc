//! Who else works on the store, and which of its work is whose.
//!
//! Every process that serves announces itself with a record among the chores, which others find when they look for those:
//! knowing each other costs nobody a question. What a process queues is its own to work at, if it can. What a client
//! queues, and every activity, belongs to the member that rendezvous hashing gives it to. This is affinity and not
//! ownership: who finds what is another's leaves it alone for a moment, and takes it if it is still there then. So
//! nothing waits for a process that is gone, or busy, or cannot do it.

use crate::engine::Engine;
use crate::mutation::{self, Mutation};
use crate::records::member::{Member, Serves};
use crate::records::{decode, queues};
use parking_lot::Mutex;
use perennial_store::{Commit, Error, Key, Op, Order, Record, Result, Slot};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tracing::debug;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How often a process announces itself.
const EVERY_MS: u64 = 30_000;
/// How long it is believed to live: longer than two announcements are apart.
const LIFE_MS: u64 = 75_000;
/// How long each of those who come before this process is waited for.
pub const PATIENCE_MS: u64 = 200;
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
    /// Everybody else, and which round of chores last told of them.
    others: BTreeMap<Arc<str>, (Member, u64)>,
    rounds: u64,
    /// When something was first seen that is another's.
    sights: HashMap<Key, u64>,
}

impl Members {
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
        state.others.retain(|_, (_, met)| *met == round);
        state.rounds = round + 1;
    }

    /// Until when this process leaves something to others; `None` if it may take it. `backlog` says that there is more to do
    /// than the store told.
    pub fn left_until(&self, me: &str, record: &Record, backlog: bool, now_ms: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let rank = state.rank(me, record, now_ms);
        if rank == 0 {
            return None;
        }
        if mutation::is(Mutation::LeaveToOwners) {
            return Some(u64::MAX);
        }
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
        let patience_ms = if backlog {
            BACKLOG_MS
        } else {
            rank.min(MOST) * PATIENCE_MS
        };
        let until_ms = *seen_ms + patience_ms;
        (until_ms > now_ms).then_some(until_ms)
    }

    /// Whether another process works at turns.
    pub fn takes_turns(&self, process: &str, now_ms: u64) -> bool {
        let state = self.state.lock();
        state.said.is_some() && state.others_for(queues::TURN, now_ms).any(|other| other == process)
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
        let others = self.others.values().map(|(other, _)| other);
        let takes = move |other: &&Member| other.until_ms > now_ms && other.serves.takes(topic);
        others.filter(takes).map(|other| &*other.process)
    }

    /// How many come before this process to work at something. Until it has announced itself, it looks at nobody.
    fn rank(&self, me: &str, record: &Record, now_ms: u64) -> u64 {
        let Some(place) = record.place.as_ref().filter(|_| self.said.is_some()) else {
            return 0;
        };
        let topic = place.lane.topic.as_deref().unwrap_or_default();
        if topic != queues::TURN {
            return precede(me, self.others_for(topic, now_ms), place.order.0);
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

/// Announces this process, if it is time to; tells whether it was.
pub async fn announce(engine: &Arc<Engine>) -> Result<bool> {
    let Some(shared) = &engine.shared else {
        return Ok(false);
    };
    let now_ms = engine.clock.now_ms();
    let serves = {
        let state = shared.members.state.lock();
        let is_said = |(serves, at_ms): &(Serves, u64)| {
            *serves == state.serves && *at_ms <= now_ms && now_ms < at_ms.saturating_add(EVERY_MS)
        };
        if state.said.as_ref().is_some_and(is_said) {
            return Ok(false);
        }
        state.serves.clone()
    };
    let member = Member {
        process: Arc::clone(&shared.owner),
        until_ms: now_ms + LIFE_MS,
        serves: serves.clone(),
    };
    let draft = member.draft(engine.next_order())?;
    engine.commit(Commit::new(vec![Op::Put(draft)])).await?;
    shared.members.state.lock().said = Some((serves, now_ms));
    Ok(true)
}

/// Somebody has announced itself; or has not for so long that it is gone.
pub async fn meet(engine: &Arc<Engine>, record: Record) -> Result<()> {
    let Some(shared) = &engine.shared else { return Ok(()) };
    let member: Member = decode(&record)?;
    if member.process == shared.owner {
        return Ok(());
    }
    if member.until_ms > engine.clock.now_ms() {
        let mut state = shared.members.state.lock();
        let met = state.rounds;
        state.others.insert(Arc::clone(&member.process), (member, met));
        return Ok(());
    }
    shared.members.state.lock().others.remove(&member.process);
    debug!(process = %member.process, "a process that worked on the store is gone");
    match engine
        .commit(Commit::new(vec![Op::Delete(record.key, record.version)]))
        .await
    {
        // It lives, or somebody else was faster.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Lets the others know that this process does not work on the store any more.
pub async fn leave(engine: &Engine) -> Result<()> {
    let Some(shared) = &engine.shared else { return Ok(()) };
    if shared.members.state.lock().said.take().is_none() {
        return Ok(());
    }
    let gone = Op::Remove(Member::key(&shared.owner));
    engine.commit(Commit::new(vec![gone])).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::queues::{Queues, work_topic};
    use crate::records::{partition, work};
    use perennial_store::{Draft, Place, Version};

    const NOW_MS: u64 = 1_000_000;

    /// How each of some processes sees the others, all of whom serve these topics.
    fn everybody(names: &[&str], topics: &[&str]) -> Vec<Members> {
        let serves = Serves {
            any_work: false,
            topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
        };
        let member = |name: &str| Member {
            process: Arc::from(name),
            until_ms: NOW_MS + LIFE_MS,
            serves: serves.clone(),
        };
        let seen_by = |me: &&str| {
            let members = Members::default();
            let mut state = members.state.lock();
            state.said = Some((serves.clone(), NOW_MS));
            let others = names.iter().filter(|name| *name != me);
            state.others = others.map(|name| (Arc::from(*name), (member(name), 0))).collect();
            drop(state);
            members
        };
        names.iter().map(seen_by).collect()
    }

    fn record(key: Key, place: Place) -> Record {
        let draft = Draft::new(key, "{}").placed(place);
        Record {
            key: draft.key,
            version: Version::number(1),
            body: draft.body,
            place: draft.place,
            listing: None,
        }
    }

    fn message(instance: &str, maker: &str) -> Record {
        let id = crate::records::message::id(Order(7), Some(maker));
        let place = Place {
            lane: Queues::One.turn(),
            order: Order(7),
            due_ms: 0,
        };
        record(Key::new(partition(instance), id), place)
    }

    fn activity(order: u64) -> Record {
        let id = work::of_activity(1, order).number(order);
        let place = Place {
            lane: Queues::One.work(None),
            order: Order(order),
            due_ms: 0,
        };
        record(Key::new(partition("i"), id), place)
    }

    /// How many of 300 records each of four processes takes at once; every record must be one's and no other's.
    fn shares(record: impl Fn(u64) -> Record) -> [usize; 4] {
        let names = ["a", "b", "c", "d"];
        let all = everybody(&names, &[queues::TURN, &work_topic(None)]);
        let mut shares = [0; 4];
        for n in 0..300 {
            let record = record(n);
            let takes: Vec<usize> = (0..4)
                .filter(|at| all[*at].left_until(names[*at], &record, false, NOW_MS).is_none())
                .collect();
            assert_eq!(takes.len(), 1, "{record:?}");
            shares[takes[0]] += 1;
        }
        shares
    }

    #[test]
    fn everything_is_somebodys_and_nothing_is_twos() {
        for shares in [shares(|n| message(&format!("i{n}"), "client")), shares(activity)] {
            assert!(shares.iter().all(|share| (45..=105).contains(share)), "{shares:?}");
        }
        assert_eq!(
            shares(|n| message(&format!("i{n}"), "c")),
            [0, 0, 300, 0],
            "whose it is"
        );
    }

    #[test]
    fn what_is_still_there_after_a_moment_may_be_taken() {
        let names = ["a", "b"];
        let all = everybody(&names, &[queues::TURN]);
        let (theirs, me) = (message("i", "b"), &all[0]);
        let first = me.left_until("a", &theirs, false, NOW_MS).unwrap();
        assert!((NOW_MS + PATIENCE_MS..=NOW_MS + MOST * PATIENCE_MS).contains(&first));
        assert_eq!(me.left_until("a", &theirs, false, first - 1), Some(first));
        assert_eq!(me.left_until("a", &theirs, false, first), None);
        let more = me.left_until("a", &theirs, true, first);
        assert_eq!(more, Some(NOW_MS + BACKLOG_MS), "there is enough to do");
        let before = me.left_until("a", &theirs, false, NOW_MS - 60_000).unwrap();
        assert!(
            before < NOW_MS,
            "the clock was put back, and the wait is no longer by that"
        );
    }

    #[test]
    fn nothing_is_left_to_who_cannot_do_it_or_is_gone() {
        let names = ["a", "b"];
        let [me, _] = &everybody(&names, &["work:gpu"])[..] else {
            unreachable!()
        };
        assert_eq!(me.left_until("a", &message("i", "b"), false, NOW_MS), None, "no turns");
        let [me, _] = &everybody(&names, &[queues::TURN])[..] else {
            unreachable!()
        };
        assert!(me.left_until("a", &message("i", "b"), false, NOW_MS).is_some());
        assert_eq!(
            me.left_until("a", &message("j", "b"), false, NOW_MS + LIFE_MS),
            None,
            "it is silent"
        );
        me.met_all();
        assert!(me.left_until("a", &message("k", "b"), false, NOW_MS).is_some());
        me.met_all();
        assert_eq!(
            me.left_until("a", &message("l", "b"), false, NOW_MS),
            None,
            "nobody met it"
        );
    }
}

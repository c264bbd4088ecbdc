//! Activities that wait for a worker, and those that run.

mod ahead;
mod claims;

use super::alarms::{Alarm, AlarmKey};
use super::claims::Subject;
use super::known::Recent;
use super::mailbox::Body;
use super::sessions::Sessions;
use super::waiters::Want;
use super::{ClaimId, Inner};
use crate::records::work::Activity;
use duroxide::providers::TagFilter;
use perennial_store::{Key, Order, Version};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What a worker can do.
#[derive(Clone, Debug)]
pub struct WorkWant {
    /// The tags that it serves.
    pub tags: TagFilter,
    /// The name under which it may own sessions; without one, it takes no session work.
    pub owner: Option<Arc<str>>,
}

/// An activity that waits or runs.
#[derive(Clone, Debug)]
pub struct QueuedActivity {
    /// Where its record is.
    pub key: Key,
    /// The version of its record.
    pub version: Version,
    /// What it is.
    pub activity: Activity,
    /// How often it was handed out.
    pub attempts: u32,
    /// The number of deliveries that its record says.
    pub noted: u32,
    /// Whether it was there when the store was opened.
    pub old: bool,
    /// What it says.
    pub body: Body,
    /// When it becomes visible.
    pub due_ms: u64,
    /// When this process's claim ahead of a worker ends; 0 if there is none.
    pub reserved_ms: u64,
    /// Whether another process is its preferred owner: then it comes after all that this process owns.
    pub foreign: bool,
}

impl QueuedActivity {
    /// Its position among the ready ones.
    fn turn(&self, order: Order) -> (bool, Order) {
        (self.foreign, order)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Hidden(AlarmKey),
    /// A commit under way may claim it, or release it.
    Aside,
    Claimed(ClaimId),
}

struct Entry {
    queued: QueuedActivity,
    state: State,
    lapsed: Option<ClaimId>,
    /// Whether a commit that is ordered cancels it: it is not handed out any more.
    cancelled: bool,
}

impl Entry {
    /// Whether this process has no claim on it, not even ahead.
    fn is_hint(&self) -> bool {
        self.state == State::Ready && self.lapsed.is_none() && self.queued.reserved_ms == 0
    }

    /// Its record was rewritten: reports of the version before are old.
    /// Takes the version that a write made. The replies to two writes may come in any order: the later write counts.
    fn change_version(&mut self, version: Version, recent: Option<&mut Recent>) {
        if version.is_older_than(&self.queued.version) {
            return;
        }
        let before = std::mem::replace(&mut self.queued.version, version);
        if let Some(recent) = recent {
            recent.remember(&self.queued.activity.instance, &self.queued.key.id, &before);
        }
    }
}

type ActivityKey = (Arc<str>, u64, u64);

fn activity_key(activity: &Activity) -> ActivityKey {
    (Arc::clone(&activity.instance), activity.execution, activity.id)
}

/// All activities that are not finished.
#[derive(Default)]
pub struct Work {
    entries: HashMap<Order, Box<Entry>>,
    /// Ready activities outside sessions, by tag; those with another preferred owner last.
    ready: BTreeMap<Option<Arc<str>>, BTreeSet<(bool, Order)>>,
    by_activity: BTreeMap<ActivityKey, Vec<Order>>,
    /// How many activities each instance has.
    by_instance: HashMap<Arc<str>, usize>,
    /// Activities that are claimed ahead and not handed out yet, and since when.
    reserved: BTreeMap<Order, u64>,
}

impl Work {
    /// How many activities there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether any activity outside sessions is ready.
    pub fn is_any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The oldest ready activity outside sessions that a worker may take.
    fn first(&self, tags: &TagFilter) -> Option<(bool, Order)> {
        let lanes = self.ready.iter().filter(|(tag, _)| tags.matches(tag.as_deref()));
        lanes.filter_map(|(_, queue)| queue.first()).min().copied()
    }

    /// An activity.
    pub fn activity(&self, order: Order) -> Option<&QueuedActivity> {
        self.entries.get(&order).map(|entry| &entry.queued)
    }

    /// Whether a worker here works on an activity, or is about to.
    pub fn is_taken(&self, order: Order) -> bool {
        let entry = self.entries.get(&order);
        entry.is_some_and(|entry| matches!(entry.state, State::Claimed(_) | State::Aside))
    }

    /// Whether an activity is here unclaimed.
    pub fn is_hint(&self, order: Order) -> bool {
        self.entries.get(&order).is_some_and(|entry| entry.is_hint())
    }

    /// All activities that are here unclaimed.
    pub fn hinted(&self) -> impl Iterator<Item = (Order, &QueuedActivity)> {
        let hints = self.entries.iter().filter(|(_, entry)| entry.is_hint());
        hints.map(|(order, entry)| (*order, &entry.queued))
    }

    /// Every queued record of an activity.
    pub fn of_activity(&self, instance: &Arc<str>, execution: u64, id: u64) -> &[Order] {
        self.by_activity
            .get(&(Arc::clone(instance), execution, id))
            .map_or(&[], Vec::as_slice)
    }

    /// How many activities an instance has that are not finished.
    pub fn of_instance(&self, instance: &str) -> usize {
        self.by_instance.get(instance).copied().unwrap_or_default()
    }

    /// The activities that are claimed ahead.
    pub fn reserved(&self) -> impl Iterator<Item = &QueuedActivity> {
        self.reserved.keys().filter_map(|order| self.activity(*order))
    }

    /// Invalidates all claims that were made ahead.
    pub fn distrust_reservations(&mut self) {
        self.reserved.clear();
        self.entries.values_mut().for_each(|entry| entry.queued.reserved_ms = 0);
    }

    /// Every activity whose record does not say how often it was handed out.
    pub fn unnoted(&self) -> impl Iterator<Item = (Order, &QueuedActivity)> {
        let entries = self.entries.iter().map(|(order, entry)| (*order, &entry.queued));
        entries.filter(|(_, queued)| queued.attempts != queued.noted)
    }
}

/// The oldest ready activity that a worker may take.
pub fn first(work: &Work, sessions: &Sessions, want: &WorkWant, now_ms: u64) -> Option<Order> {
    let plain = work.first(&want.tags);
    let session = want
        .owner
        .as_deref()
        .and_then(|owner| sessions.first(owner, &want.tags, now_ms));
    let session = session.map(|order| (false, order));
    [plain, session].into_iter().flatten().min().map(|(_, order)| order)
}

impl Inner {
    /// Puts an activity into the queue.
    pub fn offer(&mut self, order: Order, queued: QueuedActivity, now_ms: u64) {
        self.work
            .by_activity
            .entry(activity_key(&queued.activity))
            .or_insert_with(|| Vec::with_capacity(1))
            .push(order);
        *self
            .work
            .by_instance
            .entry(Arc::clone(&queued.activity.instance))
            .or_default() += 1;
        if let Some(session) = &queued.activity.session {
            self.sessions.joined(session);
        }
        let state = if queued.due_ms > now_ms {
            State::Hidden(self.set_alarm(queued.due_ms, Alarm::QueuedActivity(order)))
        } else {
            State::Ready
        };
        let ready = state == State::Ready;
        if queued.reserved_ms > 0 {
            self.work.reserved.insert(order, now_ms);
        }
        self.meters.work_depth.set((self.work.entries.len() + 1) as f64);
        let entry = Entry {
            queued,
            state,
            lapsed: None,
            cancelled: false,
        };
        self.work.entries.insert(order, Box::new(entry));
        if ready {
            self.show(order, now_ms);
        }
    }

    /// A hidden activity has become visible.
    pub fn reveal_task(&mut self, order: Order, now_ms: u64) {
        let Some(entry) = self.work.entries.get_mut(&order) else {
            return;
        };
        if matches!(entry.state, State::Hidden(_)) {
            entry.state = State::Ready;
            self.show(order, now_ms);
        }
    }

    /// Makes an activity ready and wakes a worker that may take it.
    fn show(&mut self, order: Order, now_ms: u64) {
        let Some(entry) = self.work.entries.get(&order).filter(|entry| !entry.cancelled) else {
            return;
        };
        let (tag, session) = (entry.queued.activity.tag.clone(), entry.queued.activity.session.clone());
        match &session {
            Some(session) => self.sessions.show(session, order, tag.clone()),
            None => {
                let turn = entry.queued.turn(order);
                self.work.ready.entry(tag.clone()).or_default().insert(turn);
            }
        }
        self.wake_worker(tag.as_deref(), session.as_deref(), now_ms);
    }

    /// A commit cancels activities that may still be queued: none of them is handed out any more. Those that run go on until
    /// the commit is durable.
    pub fn cancel(&mut self, orders: &[Order]) {
        for order in orders {
            self.unshow(*order);
            if let Some(entry) = self.work.entries.get_mut(order) {
                entry.cancelled = true;
            }
        }
    }

    /// The instance of an activity that a commit is about to cancel while a claim holds it.
    pub fn cancelling(&self, claim: ClaimId) -> Option<Arc<str>> {
        let Subject::Work { order } = self.claims.get(&claim)?.subject else {
            return None;
        };
        let entry = self.work.entries.get(&order).filter(|entry| entry.cancelled)?;
        Some(Arc::clone(&entry.queued.activity.instance))
    }

    /// That commit was refused.
    pub fn restore(&mut self, orders: &[Order], now_ms: u64) {
        for order in orders {
            let Some(entry) = self.work.entries.get_mut(order) else {
                continue;
            };
            entry.cancelled = false;
            if entry.state == State::Ready {
                self.show(*order, now_ms);
            }
        }
    }

    fn unshow(&mut self, order: Order) {
        let Some(entry) = self.work.entries.get(&order) else {
            return;
        };
        let (tag, session) = (&entry.queued.activity.tag, &entry.queued.activity.session);
        match session {
            Some(session) => self.sessions.unshow(session, order),
            None => {
                if let Some(queue) = self.work.ready.get_mut(tag) {
                    queue.remove(&entry.queued.turn(order));
                    if queue.is_empty() {
                        self.work.ready.remove(tag);
                    }
                }
            }
        }
    }

    /// Wakes a worker that may take an activity with this tag and session.
    pub fn wake_worker(&mut self, tag: Option<&str>, session: Option<&str>, now_ms: u64) {
        let Self {
            waiters,
            sessions,
            meters,
            ..
        } = self;
        let woken = waiters.wake(|want| match want {
            Want::Turn(_) => false,
            Want::Work(want) => {
                want.tags.matches(tag)
                    && session.is_none_or(|session| {
                        want.owner
                            .as_deref()
                            .is_some_and(|owner| sessions.admits(session, owner, now_ms))
                    })
            }
        });
        if woken {
            meters.handoffs.increment(1);
        }
    }

    /// The oldest ready activity that a worker may take.
    pub fn first_work(&self, want: &WorkWant, now_ms: u64) -> Option<Order> {
        first(&self.work, &self.sessions, want, now_ms)
    }

    /// Removes an activity that is finished or cancelled, and every claim on it.
    pub fn withdraw(&mut self, order: Order) {
        let Some(entry) = self.work.entries.get(&order) else {
            return;
        };
        if let Some(recent) = &mut self.recent {
            let queued = &entry.queued;
            recent.remember(&queued.activity.instance, &queued.key.id, &queued.version);
        }
        self.unlearn(order);
    }

    /// Removes an activity whose fate is unknown. If it still exists, the store will report it again.
    pub fn unlearn(&mut self, order: Order) {
        self.unshow(order);
        self.work.reserved.remove(&order);
        let Some(entry) = self.work.entries.remove(&order) else {
            return;
        };
        self.meters.work_depth.set(self.work.entries.len() as f64);
        match entry.state {
            State::Hidden(alarm) => self.alarms.cancel(alarm),
            State::Claimed(claim) => self.drop_claim(claim),
            State::Ready | State::Aside => {}
        }
        if let Some(lapsed) = entry.lapsed {
            self.drop_claim(lapsed);
        }
        let instance = &entry.queued.activity.instance;
        if let Some(count) = self.work.by_instance.get_mut(instance) {
            *count -= 1;
            if *count == 0 {
                self.work.by_instance.remove(instance);
            }
        }
        let key = activity_key(&entry.queued.activity);
        if let Some(orders) = self.work.by_activity.get_mut(&key) {
            orders.retain(|other| *other != order);
            if orders.is_empty() {
                self.work.by_activity.remove(&key);
            }
        }
        if let Some(session) = &entry.queued.activity.session {
            self.sessions.left(session);
        }
    }
}

//! Sessions: activities that must run on one worker, whichever instance they belong to.

use super::Inner;
use super::alarms::{Alarm, AlarmKey};
use duroxide::providers::TagFilter;
use perennial_store::Order;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
struct Session {
    /// The worker that holds or last held it.
    owner: Option<Arc<str>>,
    /// Until when.
    until_ms: u64,
    /// When it was last used.
    active_ms: u64,
    /// Its ready activities and their tags.
    ready: BTreeMap<Order, Option<Arc<str>>>,
    /// How many activities it has, ready or not.
    activities: usize,
    alarm: Option<AlarmKey>,
}

impl Session {
    fn admits(&self, owner: &str, now_ms: u64) -> bool {
        self.until_ms <= now_ms || self.owner.as_deref().is_none_or(|held| held == owner)
    }
}

/// The hold on a session: its worker, its end, and when the session was last used.
#[derive(Clone, Debug, Default)]
pub struct Tenure {
    owner: Option<Arc<str>>,
    until_ms: u64,
    active_ms: u64,
    /// When the hold ends that replaced this one.
    next_until_ms: u64,
}

/// All sessions.
#[derive(Default)]
pub struct Sessions {
    sessions: BTreeMap<Arc<str>, Session>,
    /// Sessions with ready activities, by the oldest of them.
    ready: BTreeSet<(Order, Arc<str>)>,
}

impl Sessions {
    /// How many sessions there are.
    #[cfg(feature = "testing")]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether any session has a ready activity.
    pub fn is_any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The oldest ready activity of any session.
    pub fn oldest(&self) -> Option<Order> {
        self.ready.first().map(|(order, _)| *order)
    }

    /// Whether a worker holds a session.
    pub fn is_held_by(&self, session: &str, owner: &str, now_ms: u64) -> bool {
        let session = self.sessions.get(session);
        session.is_some_and(|session| session.until_ms > now_ms && session.owner.as_deref() == Some(owner))
    }

    /// Whether a worker may take activities of a session.
    pub fn admits(&self, session: &str, owner: &str, now_ms: u64) -> bool {
        self.sessions
            .get(session)
            .is_none_or(|session| session.admits(owner, now_ms))
    }

    /// The oldest ready activity of a session that a worker may take.
    pub fn first(&self, owner: &str, tags: &TagFilter, now_ms: u64) -> Option<Order> {
        let mut best: Option<Order> = None;
        for (first, id) in &self.ready {
            if best.is_some_and(|best| best < *first) {
                break;
            }
            let Some(session) = self.sessions.get(id).filter(|session| session.admits(owner, now_ms)) else {
                continue;
            };
            let candidate = session
                .ready
                .iter()
                .find(|(_, tag)| tags.matches(tag.as_deref()))
                .map(|(order, _)| *order);
            best = [best, candidate].into_iter().flatten().min();
        }
        best
    }

    /// A session has one activity more.
    pub fn joined(&mut self, id: &Arc<str>) {
        self.sessions.entry(Arc::clone(id)).or_default().activities += 1;
    }

    /// A session has one activity fewer.
    pub fn left(&mut self, id: &Arc<str>) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.activities = session.activities.saturating_sub(1);
        if session.activities == 0 && session.owner.is_none() {
            self.sessions.remove(id);
        }
    }

    /// An activity has become ready.
    pub fn show(&mut self, id: &Arc<str>, order: Order, tag: Option<Arc<str>>) {
        self.change(id, |ready| ready.insert(order, tag).is_none());
    }

    /// An activity is no longer ready.
    pub fn unshow(&mut self, id: &Arc<str>, order: Order) {
        self.change(id, |ready| ready.remove(&order).is_some());
    }

    fn change(&mut self, id: &Arc<str>, change: impl FnOnce(&mut BTreeMap<Order, Option<Arc<str>>>) -> bool) {
        let session = self.sessions.entry(Arc::clone(id)).or_default();
        let before = session.ready.keys().next().copied();
        change(&mut session.ready);
        let after = session.ready.keys().next().copied();
        if before != after {
            if let Some(before) = before {
                self.ready.remove(&(before, Arc::clone(id)));
            }
            if let Some(after) = after {
                self.ready.insert((after, Arc::clone(id)));
            }
        }
    }

    /// A worker used a session that it still holds.
    pub fn used(&mut self, id: &str, now_ms: u64) {
        if let Some(session) = self.sessions.get_mut(id).filter(|session| session.until_ms > now_ms) {
            session.active_ms = now_ms;
        }
    }

    /// Forgets sessions that no worker holds and no activity waits for; returns them.
    pub fn clean_up(&mut self, now_ms: u64) -> Vec<Arc<str>> {
        let over = |session: &Session| session.activities == 0 && session.until_ms < now_ms;
        let gone: Vec<Arc<str>> = self
            .sessions
            .iter()
            .filter(|(_, session)| over(session))
            .map(|(id, _)| Arc::clone(id))
            .collect();
        for id in &gone {
            self.sessions.remove(id);
        }
        gone
    }

    /// The sessions that these workers hold and have used recently.
    pub fn used_lately(&self, owners: &[&str], idle_ms: u64, now_ms: u64) -> Vec<Arc<str>> {
        let lately = |session: &Session| {
            let owned = session.owner.as_deref().is_some_and(|owner| owners.contains(&owner));
            owned && session.until_ms > now_ms && session.active_ms > now_ms.saturating_sub(idle_ms)
        };
        let mut ids: Vec<Arc<str>> = self
            .sessions
            .iter()
            .filter(|(_, session)| lately(session))
            .map(|(id, _)| Arc::clone(id))
            .collect();
        ids.sort_unstable();
        ids
    }
}

impl Inner {
    /// Gives a session to a worker; returns the previous hold.
    pub fn claim_session(&mut self, id: &Arc<str>, owner: &Arc<str>, lock_ms: u64, now_ms: u64) -> Tenure {
        let until_ms = now_ms.saturating_add(lock_ms);
        let session = self.sessions.sessions.entry(Arc::clone(id)).or_default();
        let before = Tenure {
            owner: session.owner.replace(Arc::clone(owner)),
            until_ms: session.until_ms,
            active_ms: session.active_ms,
            next_until_ms: until_ms,
        };
        session.until_ms = until_ms;
        session.active_ms = now_ms;
        self.watch_session(id);
        before
    }

    /// Undoes giving a session to a worker, unless the session was given again or renewed since.
    pub fn give_back_session(&mut self, id: &Arc<str>, before: Tenure, now_ms: u64) {
        let Some(session) = self.sessions.sessions.get_mut(id) else {
            return;
        };
        if session.until_ms == before.next_until_ms {
            session.owner = before.owner;
            session.until_ms = before.until_ms;
            session.active_ms = before.active_ms;
            self.watch_session(id);
            self.wake_for_session(id, now_ms);
        }
    }

    /// The store has reported the hold on a session.
    pub fn session_is_held(&mut self, id: &Arc<str>, owner: &Arc<str>, until_ms: u64, now_ms: u64) {
        let session = self.sessions.sessions.entry(Arc::clone(id)).or_default();
        session.owner = Some(Arc::clone(owner));
        session.until_ms = until_ms;
        self.watch_session(id);
        self.wake_for_session(id, now_ms);
    }

    /// Sets an alarm for the end of the hold on a session. One that rings early does no harm.
    fn watch_session(&mut self, id: &Arc<str>) {
        let Some(session) = self.sessions.sessions.get_mut(id) else {
            return;
        };
        let until_ms = session.until_ms;
        if session.alarm.is_some_and(|alarm| alarm.at_ms() <= until_ms) {
            return;
        }
        if let Some(late) = session.alarm.take() {
            self.alarms.cancel(late);
        }
        let alarm = self.set_alarm(until_ms, Alarm::Session(Arc::clone(id)));
        if let Some(session) = self.sessions.sessions.get_mut(id) {
            session.alarm = Some(alarm);
        }
    }

    fn wake_for_session(&mut self, id: &Arc<str>, now_ms: u64) {
        let ready = self.sessions.sessions.get(id).map(|session| &session.ready);
        let tags: Vec<Option<Arc<str>>> = ready.into_iter().flat_map(|ready| ready.values().cloned()).collect();
        for tag in tags {
            self.wake_worker(tag.as_deref(), Some(id), now_ms);
        }
    }

    /// Extends the sessions of these workers that were used recently; returns how many.
    pub fn renew_sessions(&mut self, owners: &[&str], extend_ms: u64, idle_ms: u64, now_ms: u64) -> usize {
        let mut renewed = 0;
        let mut shortened = Vec::new();
        for (id, session) in &mut self.sessions.sessions {
            let owned = session.owner.as_deref().is_some_and(|owner| owners.contains(&owner));
            if owned && session.until_ms > now_ms && session.active_ms > now_ms.saturating_sub(idle_ms) {
                session.until_ms = now_ms.saturating_add(extend_ms);
                renewed += 1;
                if session.alarm.is_some_and(|alarm| alarm.at_ms() > session.until_ms) {
                    shortened.push(Arc::clone(id));
                }
            }
        }
        for id in shortened {
            self.watch_session(&id);
        }
        renewed
    }

    /// A hold on a session may have expired: then any worker may take its activities.
    pub fn session_alarm(&mut self, id: &Arc<str>, now_ms: u64) {
        let Some(session) = self.sessions.sessions.get_mut(id) else {
            return;
        };
        session.alarm = None;
        if session.until_ms > now_ms {
            self.watch_session(id);
        } else {
            self.wake_for_session(id, now_ms);
        }
    }
}

//! What this process knows of work on a store that it shares: hints, kept in line with what the store tells.

use super::mailbox::{Letter, Mailbox};
use super::waiters::Want;
use super::work::{Task, WorkWant};
use super::{Inner, Pin, Window};
use crate::outbox::Origin;
use crate::records::instance_of;
use perennial_store::{Order, Record, RecordId, Version};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// How many records that are gone are remembered.
const REMEMBERED: usize = 4_096;

type Gone = (Arc<str>, RecordId, Version);

/// Records that were removed or changed lately: an answer of the store that is older must not bring them back.
#[derive(Default)]
pub struct Recent {
    /// Versions of heads that this process has replaced, and what by.
    heads: HashMap<Version, Version>,
    heads_line: VecDeque<Version>,
    gone: HashSet<Gone>,
    line: VecDeque<Gone>,
}

impl Recent {
    /// A record of an instance is no longer what it was at this version.
    pub fn remember(&mut self, instance: &Arc<str>, id: &RecordId, version: &Version) {
        let gone = (Arc::clone(instance), id.clone(), version.clone());
        if self.gone.insert(gone.clone()) {
            self.line.push_back(gone);
        }
        if self.line.len() > REMEMBERED
            && let Some(oldest) = self.line.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }

    /// This process has replaced one version of a head by another.
    pub fn follow(&mut self, old: &Version, new: &Version) {
        if self.heads.insert(old.clone(), new.clone()).is_none() {
            self.heads_line.push_back(old.clone());
        }
        if self.heads_line.len() > REMEMBERED
            && let Some(oldest) = self.heads_line.pop_front()
        {
            self.heads.remove(&oldest);
        }
    }

    /// What became of a version of a head by writes of this process alone.
    pub fn newest(&self, mut version: Version) -> Version {
        while let Some(next) = self.heads.get(&version) {
            version = next.clone();
        }
        version
    }

    fn knows(&self, instance: &Arc<str>, id: &RecordId, version: &Version) -> bool {
        self.gone.contains(&(Arc::clone(instance), id.clone(), version.clone()))
    }
}

impl Inner {
    /// The store told of a message; returns whether that was news.
    pub fn learn_letter(&mut self, instance: &Arc<str>, order: Order, letter: Letter, pin: Pin, now_ms: u64) -> bool {
        let recent = self.recent.as_ref();
        if recent.is_some_and(|recent| recent.knows(instance, &letter.id, &letter.version)) {
            return false;
        }
        let there = self
            .turns
            .mailboxes
            .get_mut(instance)
            .and_then(|mailbox| mailbox.letter(order));
        if let Some(there) = there {
            // Another one with the same order waits until this one is gone: it will be told of again.
            if there.id == letter.id && there.version != letter.version {
                (there.version, there.attempts, there.certain) = (letter.version, letter.attempts, false);
            }
            return false;
        }
        self.post(instance, order, letter, pin, now_ms);
        true
    }

    /// Whether a queued record stands here at the version that the store told of, or is known to be gone.
    pub fn is_known(&self, record: &Record, order: Order) -> bool {
        let instance: Arc<str> = Arc::from(instance_of(&record.key.partition));
        let letter = || {
            self.turns
                .letter(&instance, order)
                .map(|letter| (&letter.id, &letter.version))
        };
        let task = || self.work.task(order).map(|task| (&task.key.id, &task.version));
        let there = |known: Option<(&RecordId, &Version)>| known == Some((&record.key.id, &record.version));
        let gone = |recent: &Recent| recent.knows(&instance, &record.key.id, &record.version);
        there(letter()) || there(task()) || self.recent.as_ref().is_some_and(gone)
    }

    /// The oldest that is ready of what somebody wants.
    pub fn first_of(&self, want: &Want) -> Option<Order> {
        match want {
            Want::Turn(window) => self.turns.first(|pin| window.admits(pin)).map(|(order, _)| order),
            Want::Work(want) => self.first_work(want, self.seen_ms),
        }
    }

    /// A commit of this process has brought a message; `false` if it was consumed or changed before the commit was answered.
    pub fn bring_letter(&mut self, instance: &Arc<str>, order: Order, letter: Letter, pin: Pin, now_ms: u64) -> bool {
        let gone = |recent: &Recent| recent.knows(instance, &letter.id, &letter.version);
        let there = self.turns.letter(instance, order);
        let changed = there.is_some_and(|there| there.id == letter.id && there.version != letter.version);
        if changed || self.recent.as_ref().is_some_and(gone) {
            return false;
        }
        self.post(instance, order, letter, pin, now_ms);
        true
    }

    /// A commit of this process has brought an activity. One that was found in the store before the commit was answered
    /// stays as it is: somebody here may work on it.
    pub fn bring_task(&mut self, order: Order, task: Task, now_ms: u64) {
        let gone = |recent: &Recent| recent.knows(&task.activity.instance, &task.key.id, &task.version);
        if self.work.task(order).is_none() && !self.recent.as_ref().is_some_and(gone) {
            self.offer(order, task, now_ms);
        }
    }

    /// The store told of an activity; returns whether that was news.
    pub fn learn_task(&mut self, order: Order, task: Task, now_ms: u64) -> bool {
        let recent = self.recent.as_ref();
        let instance = &task.activity.instance;
        if recent.is_some_and(|recent| recent.knows(instance, &task.key.id, &task.version)) {
            return false;
        }
        let Some(there) = self.work.task(order) else {
            self.offer(order, task, now_ms);
            return true;
        };
        if there.key == task.key && there.version != task.version && !self.work.is_taken(order) {
            // Either may be the newer one.
            self.unlearn(order);
            self.offer(order, task, now_ms);
            return true;
        }
        false
    }

    /// The orders of all messages of an instance that are here.
    pub fn orders(&self, instance: &str) -> HashSet<Order> {
        let mailbox = self.turns.mailboxes.get(instance);
        mailbox.into_iter().flat_map(|mailbox| mailbox.orders()).collect()
    }

    /// The store told all messages of an instance, up to the order `until`. Those that were here `before` it was asked and
    /// that it does not tell of are gone, or newer than its answer: then it will tell of them again.
    pub fn restock(
        &mut self,
        instance: &Arc<str>,
        letters: &[(Order, Letter)],
        before: &HashSet<Order>,
        until: Option<Order>,
        now_ms: u64,
    ) {
        let told: HashSet<Order> = letters.iter().map(|(order, _)| *order).collect();
        let gone: Vec<Order> = before
            .iter()
            .copied()
            .filter(|order| !told.contains(order) && until.is_none_or(|until| *order <= until))
            .collect();
        self.unlearn_letters(instance, &gone);
        if let Some(mailbox) = self.turns.mailboxes.get_mut(instance) {
            mailbox.partial = until.is_some();
        }
        for (order, letter) in letters {
            let there = self
                .turns
                .mailboxes
                .get_mut(instance)
                .and_then(|mailbox| mailbox.letter(*order));
            match there {
                Some(there) if there.id == letter.id => {
                    (there.version, there.attempts, there.certain) = (letter.version.clone(), letter.attempts, true);
                }
                Some(_) => {}
                None => self.post(instance, *order, letter.clone(), Pin::Open, now_ms),
            }
        }
    }

    /// Whether this process knows of work of an instance: then it is likely to be the one that does it.
    pub fn is_involved(&self, instance: &str) -> bool {
        self.turns.mailboxes.contains_key(instance) || self.work.of_instance(instance) > 0
    }

    /// The intent of a message, as far as this process knows it.
    pub fn origin(&self, instance: &str, order: Order, id: &RecordId) -> Option<Arc<Origin>> {
        let letter = self.turns.letter(instance, order).filter(|letter| letter.id == *id)?;
        letter.from.clone()
    }

    /// A message of an instance.
    pub fn letter(&mut self, instance: &str, order: Order) -> Option<&mut Letter> {
        self.turns.mailboxes.get_mut(instance)?.letter(order)
    }

    /// Forgets messages of instances that none of those can work on who wait: if that changes, the store tells again.
    pub fn forget_unwanted(&mut self) {
        let windows: Vec<&Window> = self.waiters.wants().filter_map(Want::window).collect();
        if windows.is_empty() {
            return;
        }
        let unwanted =
            |mailbox: &Mailbox| mailbox.is_free() && !windows.iter().any(|window| window.admits(&mailbox.pin));
        let mailboxes = self.turns.mailboxes.iter();
        let unwanted: Vec<(Arc<str>, Vec<Order>)> = mailboxes
            .filter(|(instance, mailbox)| unwanted(mailbox) && !self.foreseen.contains(*instance))
            .map(|(instance, mailbox)| (Arc::clone(instance), mailbox.orders().collect()))
            .collect();
        for (instance, orders) in unwanted {
            self.unlearn_letters(&instance, &orders);
            self.refresh(&instance);
            self.drop_if_idle(&instance);
        }
    }

    /// Whether a worker who waits here holds a session.
    pub fn holds_session(&self, session: &str, now_ms: u64) -> bool {
        self.waiters.wants().any(|want| match want {
            Want::Work(WorkWant { owner: Some(owner), .. }) => self.sessions.is_held_by(session, owner, now_ms),
            _ => false,
        })
    }

    /// What those want who wait.
    pub fn wants(&self) -> impl Iterator<Item = &Want> {
        self.waiters.wants()
    }

    /// How many messages and activities stand here unclaimed.
    pub fn known(&self) -> usize {
        self.turns.len() + self.work.len()
    }
}

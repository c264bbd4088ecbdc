//! What this process knows of the work on a shared store: hints, kept in line with what the store reports.

use super::mailbox::{Mailbox, QueuedMessage};
use super::waiters::Want;
use super::work::{QueuedActivity, WorkWant};
use super::{Inner, Pin, Window};
use crate::outbox::Origin;
use crate::records::instance_of;
use crate::tuning::GONE_REMEMBERED;
use perennial_store::{Order, Record, RecordId, Version};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

type Gone = (Arc<str>, RecordId, Version);

/// Records that were removed or changed recently: an older report of the store must not bring them back.
#[derive(Default)]
pub struct Recent {
    /// Versions of heads that this process has replaced, and the versions it replaced them by.
    heads: HashMap<Version, Version>,
    heads_line: VecDeque<Version>,
    gone: HashSet<Gone>,
    line: VecDeque<Gone>,
}

impl Recent {
    /// A record of an instance is no longer at this version.
    pub fn remember(&mut self, instance: &Arc<str>, id: &RecordId, version: &Version) {
        let gone = (Arc::clone(instance), id.clone(), version.clone());
        if self.gone.insert(gone.clone()) {
            self.line.push_back(gone);
        }
        if self.line.len() > GONE_REMEMBERED
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
        if self.heads_line.len() > GONE_REMEMBERED
            && let Some(oldest) = self.heads_line.pop_front()
        {
            self.heads.remove(&oldest);
        }
    }

    /// The version that followed a version of a head through writes of this process alone.
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
    /// The store has reported a message; returns whether that was news.
    pub fn ingest_message(
        &mut self,
        instance: &Arc<str>,
        order: Order,
        queued: QueuedMessage,
        pin: Pin,
        now_ms: u64,
    ) -> bool {
        let recent = self.recent.as_ref();
        if recent.is_some_and(|recent| recent.knows(instance, &queued.id, &queued.version)) {
            return false;
        }
        let there = self
            .turns
            .mailboxes
            .get_mut(instance)
            .and_then(|mailbox| mailbox.message(order));
        if let Some(there) = there {
            // Another message with the same order waits until this one is gone: the store will report it again.
            if there.id == queued.id && there.version != queued.version {
                (there.version, there.attempts, there.certain) = (queued.version, queued.attempts, false);
            }
            return false;
        }
        self.post(instance, order, queued, pin, now_ms);
        true
    }

    /// Whether a queued record is here at the version that the store reported, or is known to be gone.
    pub fn is_known(&self, record: &Record, order: Order) -> bool {
        let instance: Arc<str> = Arc::from(instance_of(&record.key.partition));
        let message = || {
            self.turns
                .message(&instance, order)
                .map(|queued| (&queued.id, &queued.version))
        };
        let activity = || {
            self.work
                .activity(order)
                .map(|queued| (&queued.key.id, &queued.version))
        };
        let there = |known: Option<(&RecordId, &Version)>| known == Some((&record.key.id, &record.version));
        let gone = |recent: &Recent| recent.knows(&instance, &record.key.id, &record.version);
        there(message()) || there(activity()) || self.recent.as_ref().is_some_and(gone)
    }

    /// The oldest ready work that a want admits.
    pub fn first_of(&self, want: &Want) -> Option<Order> {
        match want {
            Want::Turn(window) => self.turns.first(|pin| window.admits(pin)).map(|(order, _)| order),
            Want::Work(want) => self.first_work(want, self.seen_ms),
        }
    }

    /// A commit of this process has stored a message; `false` if it was consumed or changed before the commit returned.
    pub fn bring_message(
        &mut self,
        instance: &Arc<str>,
        order: Order,
        queued: QueuedMessage,
        pin: Pin,
        now_ms: u64,
    ) -> bool {
        let gone = |recent: &Recent| recent.knows(instance, &queued.id, &queued.version);
        let there = self.turns.message(instance, order);
        let changed = there.is_some_and(|there| there.id == queued.id && there.version != queued.version);
        if changed || self.recent.as_ref().is_some_and(gone) {
            return false;
        }
        self.post(instance, order, queued, pin, now_ms);
        true
    }

    /// A commit of this process has stored an activity. One that a poll found before the commit returned stays as it is: a
    /// worker here may have it.
    pub fn bring_activity(&mut self, order: Order, queued: QueuedActivity, now_ms: u64) {
        let gone = |recent: &Recent| recent.knows(&queued.activity.instance, &queued.key.id, &queued.version);
        if self.work.activity(order).is_none() && !self.recent.as_ref().is_some_and(gone) {
            self.offer(order, queued, now_ms);
        }
    }

    /// The store has reported an activity; returns whether that was news.
    pub fn ingest_activity(&mut self, order: Order, queued: QueuedActivity, now_ms: u64) -> bool {
        let recent = self.recent.as_ref();
        let instance = &queued.activity.instance;
        if recent.is_some_and(|recent| recent.knows(instance, &queued.key.id, &queued.version)) {
            return false;
        }
        let Some(there) = self.work.activity(order) else {
            self.offer(order, queued, now_ms);
            return true;
        };
        if there.key == queued.key && there.version != queued.version && !self.work.is_taken(order) {
            // Either may be the newer one.
            self.unlearn(order);
            self.offer(order, queued, now_ms);
            return true;
        }
        false
    }

    /// The orders of all messages of an instance that are here.
    pub fn orders(&self, instance: &str) -> HashSet<Order> {
        let mailbox = self.turns.mailboxes.get(instance);
        mailbox.into_iter().flat_map(|mailbox| mailbox.orders()).collect()
    }

    /// The store has listed all messages of an instance, up to the order `until`. Messages that were here `before` the query and
    /// are not listed are gone, or newer than the listing: then the store will report them again.
    pub fn restock(
        &mut self,
        instance: &Arc<str>,
        queued_messages: &[(Order, QueuedMessage)],
        before: &HashSet<Order>,
        until: Option<Order>,
        now_ms: u64,
    ) {
        let told: HashSet<Order> = queued_messages.iter().map(|(order, _)| *order).collect();
        let gone: Vec<Order> = before
            .iter()
            .copied()
            .filter(|order| !told.contains(order) && until.is_none_or(|until| *order <= until))
            .collect();
        self.forget_messages(instance, &gone);
        if let Some(mailbox) = self.turns.mailboxes.get_mut(instance) {
            mailbox.partial = until.is_some();
        }
        for (order, queued) in queued_messages {
            let there = self
                .turns
                .mailboxes
                .get_mut(instance)
                .and_then(|mailbox| mailbox.message(*order));
            match there {
                Some(there) if there.id == queued.id => {
                    (there.version, there.attempts, there.certain) = (queued.version.clone(), queued.attempts, true);
                }
                Some(_) => {}
                None => self.post(instance, *order, queued.clone(), Pin::Open, now_ms),
            }
        }
    }

    /// Whether this process knows of work of an instance: then it is likely to run it.
    pub fn is_involved(&self, instance: &str) -> bool {
        self.turns.mailboxes.contains_key(instance) || self.work.of_instance(instance) > 0
    }

    /// The intent of a message, as far as this process knows it.
    pub fn origin(&self, instance: &str, order: Order, id: &RecordId) -> Option<Arc<Origin>> {
        let queued = self.turns.message(instance, order).filter(|queued| queued.id == *id)?;
        queued.from.clone()
    }

    /// A message of an instance.
    pub fn message(&mut self, instance: &str, order: Order) -> Option<&mut QueuedMessage> {
        self.turns.mailboxes.get_mut(instance)?.message(order)
    }

    /// Forgets messages of instances that no waiting dispatcher can run: if that changes, the store reports them again.
    pub fn forget_unwanted(&mut self) {
        let windows: Vec<&Window> = self.waiters.wants().filter_map(Want::window).collect();
        if windows.is_empty() {
            return;
        }
        let is_unused =
            |mailbox: &Mailbox| mailbox.is_free() && !windows.iter().any(|window| window.admits(&mailbox.pin));
        let mailboxes = self.turns.mailboxes.iter();
        let unused: Vec<(Arc<str>, Vec<Order>)> = mailboxes
            .filter(|(instance, mailbox)| is_unused(mailbox) && !self.pending_claim.contains(*instance))
            .map(|(instance, mailbox)| (Arc::clone(instance), mailbox.orders().collect()))
            .collect();
        for (instance, orders) in unused {
            self.forget_messages(&instance, &orders);
            self.refresh(&instance);
            self.drop_if_idle(&instance);
        }
    }

    /// Whether a worker that waits here holds a session.
    pub fn holds_session(&self, session: &str, now_ms: u64) -> bool {
        self.waiters.wants().any(|want| match want {
            Want::Work(WorkWant { owner: Some(owner), .. }) => self.sessions.is_held_by(session, owner, now_ms),
            _ => false,
        })
    }

    /// What the waiting dispatchers and workers want.
    pub fn wants(&self) -> impl Iterator<Item = &Want> {
        self.waiters.wants()
    }

    /// How many messages and activities are here unclaimed.
    pub fn known(&self) -> usize {
        self.turns.len() + self.work.len()
    }
}

//! Hints grow old. What stands here unclaimed, on a store that many processes share, may have been taken by another one
//! since the store told of it. A newer answer that should tell of it and does not says so; and what another process was
//! found to work on is left to it for a while.

use super::Inner;
use super::mailbox::{Holder, Mailbox};
use crate::records::{lanes, message};
use perennial_store::{Key, Order, Topics};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How long it is remembered that another process has an instance: it exists, so a claim need not try to create it.
const REMEMBERED_MS: u64 = 30_000;
/// How many such instances are remembered before those are forgotten whose time is over.
const MANY: usize = 4_096;

/// Instances that other processes were found to work on.
#[derive(Default)]
pub struct Elsewhere {
    /// Until when an instance is left alone, and until when that is remembered.
    instances: HashMap<Arc<str>, (u64, u64)>,
}

impl Elsewhere {
    fn found(&mut self, instance: &Arc<str>, until_ms: u64, now_ms: u64) {
        if self.instances.len() >= MANY {
            self.instances.retain(|_, (_, forget_ms)| *forget_ms > now_ms);
        }
        if self.instances.len() >= MANY {
            // Who does not know tries, and is told.
            self.instances.clear();
        }
        let forget_ms = until_ms.max(now_ms + REMEMBERED_MS);
        self.instances.insert(Arc::clone(instance), (until_ms, forget_ms));
    }

    fn left_alone_until(&self, instance: &str, now_ms: u64) -> Option<u64> {
        let (until_ms, _) = *self.instances.get(instance)?;
        // If the clock is put back, it does not last longer by that.
        (until_ms > now_ms && until_ms <= now_ms + REMEMBERED_MS).then_some(until_ms)
    }

    fn is_known(&self, instance: &str, now_ms: u64) -> bool {
        let found = self.instances.get(instance);
        found.is_some_and(|(_, forget_ms)| *forget_ms > now_ms)
    }
}

/// Which records a question to the store tells of, if they are there.
pub struct Covered<'a> {
    /// Of these topics.
    pub topics: &'a Topics,
    /// That came after this.
    pub after: Option<Order>,
    /// That are due at this time.
    pub until_ms: u64,
}

impl Covered<'_> {
    fn topic(&self, topic: &str) -> bool {
        self.topics.matches(Some(topic))
    }

    fn covers(&self, order: Order, due_ms: u64) -> bool {
        self.after.is_none_or(|after| order > after) && due_ms <= self.until_ms
    }
}

/// Something that stands here unclaimed.
#[derive(Debug)]
pub struct Hint {
    /// Its record.
    pub key: Key,
    /// Its order.
    pub order: Order,
    /// The instance that it is a message for; `None` if it is an activity.
    message_for: Option<Arc<str>>,
}

impl Inner {
    /// What stands here and must be in the answer to a question, unless somebody has taken it.
    pub fn hints(&self, covered: &Covered<'_>) -> Vec<Hint> {
        let mut hints = Vec::new();
        if covered.topic(lanes::TURN) {
            for (instance, mailbox) in &self.turns.mailboxes {
                if !is_hinted(mailbox) || self.pending_claim.contains(instance) {
                    continue;
                }
                let queued_messages = mailbox.visible.iter();
                let told =
                    queued_messages.filter(|(order, queued)| !queued.certain && covered.covers(**order, queued.due_ms));
                hints.extend(told.map(|(order, queued)| Hint {
                    key: message::key(instance, &queued.id),
                    order: *order,
                    message_for: Some(Arc::clone(instance)),
                }));
            }
        }
        let queued_activities = self.work.hinted();
        let told = queued_activities.filter(|(order, queued)| {
            let topic = lanes::work_topic(queued.activity.tag.as_deref());
            covered.topic(&topic) && covered.covers(*order, queued.due_ms)
        });
        hints.extend(told.map(|(order, queued)| Hint {
            key: queued.key.clone(),
            order,
            message_for: None,
        }));
        hints
    }

    /// The store does not tell of these any more: they are gone, or newer than its answer. Then it will tell of them again.
    pub fn forget_hints(&mut self, untold: Vec<Hint>) {
        let mut instances = HashSet::new();
        for Hint {
            key,
            order,
            message_for,
        } in untold
        {
            let Some(instance) = message_for else {
                if self.work.is_hint(order) && self.work.activity(order).is_some_and(|queued| queued.key == key) {
                    self.unlearn(order);
                }
                continue;
            };
            let is_hint = self
                .turns
                .mailboxes
                .get(&instance)
                .is_some_and(|mailbox| is_hinted(mailbox))
                && !self.pending_claim.contains(&instance)
                && self
                    .turns
                    .message(&instance, order)
                    .is_some_and(|queued| !queued.certain && message::key(&instance, &queued.id) == key);
            if is_hint {
                self.forget_messages(&instance, &[order]);
                instances.insert(instance);
            }
        }
        for instance in instances {
            self.refresh(&instance);
            self.drop_if_idle(&instance);
        }
    }

    /// Another process works on an instance: it is left to that one until this time, whoever tells of messages.
    pub fn leave_alone(&mut self, instance: &Arc<str>, until_ms: u64, now_ms: u64) {
        self.elsewhere.found(instance, until_ms, now_ms);
        let Some(mailbox) = self.turns.mailboxes.get(instance) else {
            return;
        };
        let uncertain = mailbox.visible.iter().filter(|(_, queued)| !queued.certain);
        let orders: Vec<Order> = uncertain.map(|(order, _)| *order).collect();
        self.forget_messages(instance, &orders);
        self.refresh(instance);
        self.drop_if_idle(instance);
    }

    /// Until when an instance is left to another process, if it is.
    pub fn left_alone_until(&self, instance: &str, now_ms: u64) -> Option<u64> {
        self.elsewhere.left_alone_until(instance, now_ms)
    }

    /// Whether another process was found to work on an instance, not long ago.
    pub fn was_busy(&self, instance: &str, now_ms: u64) -> bool {
        self.elsewhere.is_known(instance, now_ms)
    }
}

/// Whether messages in a mailbox are hints: this process has no claim on the instance that others see.
fn is_hinted(mailbox: &Mailbox) -> bool {
    // Whoever takes it ends a claim that has lapsed.
    let is_free = mailbox.reserved.is_none() && mailbox.lapsed.is_none();
    is_free && matches!(mailbox.holder, Holder::Nobody | Holder::Claim(_))
}

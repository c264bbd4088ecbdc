//! Hints grow old. On a shared store, another process may have taken unclaimed work since the store reported it. A newer
//! poll that should return it and does not says so; and an instance that another process was found to work on is left to
//! that process for a while.

use super::Inner;
use super::mailbox::{Holder, Mailbox};
use crate::records::{lanes, message};
use crate::tuning::{LEASED_ELSEWHERE_KNOWN_MS, LEASED_ELSEWHERE_MOST};
use perennial_store::{Key, Order, Topics};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Instances that other processes were found to work on.
#[derive(Default)]
pub struct Elsewhere {
    /// When the deferral to the other process ends, and when the entry expires.
    instances: HashMap<Arc<str>, (u64, u64)>,
}

impl Elsewhere {
    fn found(&mut self, instance: &Arc<str>, until_ms: u64, now_ms: u64) {
        if self.instances.len() >= LEASED_ELSEWHERE_MOST {
            self.instances.retain(|_, (_, forget_ms)| *forget_ms > now_ms);
        }
        if self.instances.len() >= LEASED_ELSEWHERE_MOST {
            // If that is unknown, the claim is tried, and its result tells.
            self.instances.clear();
        }
        let forget_ms = until_ms.max(now_ms + LEASED_ELSEWHERE_KNOWN_MS);
        self.instances.insert(Arc::clone(instance), (until_ms, forget_ms));
    }

    fn left_alone_until(&self, instance: &str, now_ms: u64) -> Option<u64> {
        let (until_ms, _) = *self.instances.get(instance)?;
        // If the clock is put back, the deferral does not become longer.
        (until_ms > now_ms && until_ms <= now_ms + LEASED_ELSEWHERE_KNOWN_MS).then_some(until_ms)
    }

    fn is_known(&self, instance: &str, now_ms: u64) -> bool {
        let found = self.instances.get(instance);
        found.is_some_and(|(_, forget_ms)| *forget_ms > now_ms)
    }
}

/// Which records a poll returns, if they exist.
pub struct Covered<'a> {
    /// Records of these topics.
    pub topics: &'a Topics,
    /// Records after this one.
    pub after: Option<Order>,
    /// Records that are due at this time.
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

/// Unclaimed work on the board.
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
    /// Unclaimed work that a poll must return, unless another process has taken it.
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

    /// Forgets work that a poll did not return: it is gone, or newer than the poll. Then the store will report it again.
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

    /// Ignores an instance until this time, whatever polls report: another process holds its lease.
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

    /// When the deferral to another process ends, if there is one.
    pub fn left_alone_until(&self, instance: &str, now_ms: u64) -> Option<u64> {
        self.elsewhere.left_alone_until(instance, now_ms)
    }

    /// Whether another process was recently found to work on an instance.
    pub fn was_busy(&self, instance: &str, now_ms: u64) -> bool {
        self.elsewhere.is_known(instance, now_ms)
    }
}

/// Whether messages in a mailbox are hints: this process holds no claim on the instance that other processes see.
fn is_hinted(mailbox: &Mailbox) -> bool {
    // The next claim ends one that has lapsed.
    let is_free = mailbox.reserved.is_none() && mailbox.lapsed.is_none();
    is_free && matches!(mailbox.holder, Holder::Nobody | Holder::Claim(_))
}

//! Instances that have messages.

mod claims;

use super::alarms::Alarm;
use super::mailbox::{Holder, Mailbox, MessageKind, QueuedMessage};
use super::{ClaimId, Inner, Pin};
use crate::outbox::Origin;
use perennial_store::{Order, Version};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// All mailboxes, and which of them are ready.
#[derive(Default)]
pub struct Turns {
    /// All mailboxes.
    pub mailboxes: HashMap<Arc<str>, Box<Mailbox>>,
    ready: BTreeMap<Pin, BTreeMap<Order, Arc<str>>>,
    /// Instances that will be ready soon; a fetch that does not wait may take them now.
    pub coalescing: BTreeMap<Order, Arc<str>>,
    queued_messages: usize,
}

impl Turns {
    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.queued_messages
    }

    /// A message, visible or not.
    pub fn message(&self, instance: &str, order: Order) -> Option<&QueuedMessage> {
        self.mailboxes.get(instance)?.find(order)
    }

    /// Whether a message is here.
    pub fn has(&self, instance: &str, order: Order) -> bool {
        self.message(instance, order).is_some()
    }

    /// The intent of a message that came through an outbox.
    pub fn origin(&self, instance: &str, order: Order) -> Option<Arc<Origin>> {
        self.message(instance, order)?.from.clone()
    }

    /// Whether any instance is ready.
    pub fn is_any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The oldest ready message that these pins admit.
    pub fn first(&self, admits: impl Fn(&Pin) -> bool) -> Option<(Order, Arc<str>)> {
        let heads = self.ready.iter().filter(|(pin, _)| admits(pin));
        let (order, instance) = heads
            .filter_map(|(_, queue)| queue.first_key_value())
            .min_by_key(|(order, _)| **order)?;
        Some((*order, Arc::clone(instance)))
    }

    /// The oldest message that these pins admit, also of instances that wait for more results.
    pub fn first_at_once(&self, admits: impl Fn(&Pin) -> bool) -> Option<(Order, Arc<str>)> {
        let admitted = |instance: &Arc<str>| self.mailboxes.get(instance).is_some_and(|mailbox| admits(&mailbox.pin));
        let coalescing = self.coalescing.iter().find(|(_, instance)| admitted(instance));
        let coalescing = coalescing.map(|(order, instance)| (*order, Arc::clone(instance)));
        [self.first(&admits), coalescing]
            .into_iter()
            .flatten()
            .min_by_key(|(order, _)| *order)
    }

    /// The largest number of deliveries of a message of an instance.
    #[cfg(feature = "testing")]
    pub fn max_attempts(&self, instance: &str) -> u32 {
        let Some(mailbox) = self.mailboxes.get(instance) else {
            return 0;
        };
        let queued_messages = mailbox
            .visible
            .values()
            .chain(mailbox.hidden.values().map(|(queued, _)| queued));
        queued_messages.map(|queued| queued.attempts).max().unwrap_or_default()
    }

    /// Every message whose record does not say how often it was handed out.
    pub fn unnoted(&self) -> impl Iterator<Item = (&Arc<str>, Order, &QueuedMessage)> {
        self.mailboxes.iter().flat_map(|(instance, mailbox)| {
            let hidden = mailbox.hidden.iter().map(|(order, (queued, _))| (order, queued));
            let all = mailbox.visible.iter().chain(hidden);
            all.filter(|(_, queued)| queued.attempts != queued.noted)
                .map(move |(order, queued)| (instance, *order, queued.as_ref()))
        })
    }
}

impl Inner {
    /// Puts a message into its instance's mailbox.
    pub fn post(&mut self, instance: &Arc<str>, order: Order, mut queued: QueuedMessage, pin: Pin, now_ms: u64) {
        // A poll may find a commit of this process before the commit returns.
        self.forget_messages(instance, &[order]);
        self.turns.queued_messages += 1;
        self.meters.turn_depth.set(self.turns.queued_messages as f64);
        let hidden = queued.due_ms > now_ms;
        let start = queued.sort == MessageKind::Start && !hidden;
        let alarm = hidden.then(|| self.set_alarm(queued.due_ms, Alarm::QueuedMessage(Arc::clone(instance), order)));
        let mailbox = self
            .turns
            .mailboxes
            .entry(Arc::clone(instance))
            .or_insert_with(|| Box::new(Mailbox::new(pin)));
        queued.certain &= mailbox.is_ours();
        let queued = Box::new(queued);
        match alarm {
            Some(alarm) => {
                mailbox.hidden.insert(order, (queued, alarm));
            }
            None => {
                mailbox.visible.insert(order, queued);
            }
        }
        if start {
            mailbox.unpark();
        }
        self.coalesce(instance, now_ms);
        self.refresh(instance);
    }

    /// A hidden message has become visible.
    pub fn reveal(&mut self, instance: &Arc<str>, order: Order) {
        let Some(mailbox) = self.turns.mailboxes.get_mut(instance) else {
            return;
        };
        if let Some((queued, _)) = mailbox.hidden.remove(&order) {
            if queued.sort == MessageKind::Start {
                mailbox.unpark();
            }
            mailbox.visible.insert(order, queued);
        }
        self.refresh(instance);
    }

    /// Updates whether a mailbox is ready, and wakes a dispatcher if it has become so.
    pub fn refresh(&mut self, instance: &Arc<str>) {
        let Some(mailbox) = self.turns.mailboxes.get_mut(instance) else {
            return;
        };
        let first = match mailbox.holder {
            // While a commit under way may claim it, it must be known first whether the commit did.
            Holder::Nobody if mailbox.coalescing.is_none() && !self.pending_claim.contains(instance) => {
                mailbox.visible.first_key_value().map(|(order, _)| *order)
            }
            _ => None,
        };
        let ready = first.map(|order| (mailbox.pin.clone(), order));
        if mailbox.ready == ready {
            return;
        }
        let was = std::mem::replace(&mut mailbox.ready, ready.clone());
        let idle = mailbox.is_idle();
        if let Some((pin, order)) = &was
            && let Some(queue) = self.turns.ready.get_mut(pin)
        {
            queue.remove(order);
            if queue.is_empty() {
                self.turns.ready.remove(pin);
            }
        }
        if let Some((pin, order)) = ready {
            self.turns
                .ready
                .entry(pin.clone())
                .or_default()
                .insert(order, Arc::clone(instance));
            if was.is_none() && self.waiters.wake_for_turn(&pin) {
                self.meters.handoffs.increment(1);
            }
        } else if idle {
            self.remove_mailbox(instance);
        }
    }

    fn mailbox(&mut self, instance: &str) -> Option<&mut Mailbox> {
        self.turns.mailboxes.get_mut(instance).map(Box::as_mut)
    }

    /// Hides messages until `due_ms`.
    pub fn hide(&mut self, instance: &Arc<str>, orders: &[Order], due_ms: u64) {
        for order in orders {
            let Some(mut queued) = self.mailbox(instance).and_then(|mailbox| mailbox.visible.remove(order)) else {
                continue;
            };
            queued.due_ms = due_ms;
            let alarm = self.set_alarm(due_ms, Alarm::QueuedMessage(Arc::clone(instance), *order));
            if let Some(mailbox) = self.mailbox(instance) {
                mailbox.hidden.insert(*order, (queued, alarm));
            }
        }
        self.refresh(instance);
    }

    /// A message's deliveries were written to its record.
    pub fn noted(&mut self, instance: &str, order: Order, attempts: u32, version: Version) {
        if let Some(queued) = self
            .mailbox(instance)
            .and_then(|mailbox| mailbox.visible.get_mut(&order))
        {
            queued.noted = attempts;
            queued.take_version(version);
            queued.inline = false;
        }
    }

    /// A message is at this version in the store, whichever reply to the writes of its delivery count came last.
    pub fn refresh_message(&mut self, instance: &str, order: Order, version: Version) {
        if let Some(queued) = self
            .mailbox(instance)
            .and_then(|mailbox| mailbox.visible.get_mut(&order))
        {
            queued.take_version(version);
        }
    }

    /// Removes messages that were consumed.
    pub fn consume(&mut self, instance: &str, orders: &[Order]) {
        if let (Some(recent), Some((instance, mailbox))) =
            (&mut self.recent, self.turns.mailboxes.get_key_value(instance))
        {
            let queued_messages = orders.iter().filter_map(|order| mailbox.find(*order));
            queued_messages.for_each(|queued| recent.remember(instance, &queued.id, &queued.version));
        }
        self.forget_messages(instance, orders);
    }

    /// Removes messages whose fate is unknown. If they still exist, the store will report them again.
    pub fn forget_messages(&mut self, instance: &str, orders: &[Order]) {
        let Some(mailbox) = self.turns.mailboxes.get_mut(instance) else {
            return;
        };
        for order in orders {
            let hidden = mailbox.hidden.remove(order).map(|(_, alarm)| self.alarms.cancel(alarm));
            let there = mailbox.visible.remove(order).is_some() || hidden.is_some();
            self.turns.queued_messages -= usize::from(there);
        }
        self.meters.turn_depth.set(self.turns.queued_messages as f64);
    }

    /// Sets the runtime version that an instance is bound to.
    pub fn pin(&mut self, instance: &Arc<str>, pin: Pin) {
        if let Some(mailbox) = self.mailbox(instance)
            && mailbox.pin != pin
        {
            mailbox.pin = pin;
            self.refresh(instance);
        }
    }

    /// Ends every claim on an instance and removes these messages: the instance was deleted.
    pub fn evict(&mut self, instance: &Arc<str>, orders: &[Order]) {
        let is_shared = self.recent.is_some();
        let Some(mailbox) = self.mailbox(instance) else {
            return;
        };
        mailbox.pin = Pin::Open;
        mailbox.reserved = None;
        // On a shared store, messages that arrived since will be reported again.
        let others = mailbox.orders().filter(|order| is_shared && !orders.contains(order));
        let others: Vec<Order> = others.collect();
        let mut claims: Vec<ClaimId> = mailbox.lapsed.take().into_iter().collect();
        if let Holder::Claim(claim) = mailbox.holder {
            claims.push(claim);
        }
        mailbox.holder = Holder::Nobody;
        for claim in claims {
            self.drop_claim(claim);
        }
        self.stop_coalescing(instance);
        self.consume(instance, orders);
        self.forget_messages(instance, &others);
        self.refresh(instance);
        self.drop_if_idle(instance);
    }

    pub fn drop_if_idle(&mut self, instance: &Arc<str>) {
        if self
            .turns
            .mailboxes
            .get(instance)
            .is_some_and(|mailbox| mailbox.is_idle())
        {
            self.remove_mailbox(instance);
        }
    }

    /// Removes an empty mailbox, with the claim on it that has lapsed: no dispatcher will take the instance and end that claim,
    /// and there is nothing left that could be released.
    fn remove_mailbox(&mut self, instance: &Arc<str>) {
        let mailbox = self.turns.mailboxes.remove(instance);
        if let Some(lapsed) = mailbox.and_then(|mailbox| mailbox.lapsed) {
            self.drop_claim(lapsed);
        }
    }
}

#[cfg(test)]
mod tests;

//! Claims on instances that have messages.

use super::super::mailbox::{Holder, MessageKind, QueuedMessage};
use super::super::{ClaimId, Inner};
use crate::mutation::mutant;
use perennial_store::Order;
use std::sync::Arc;

impl Inner {
    /// Gives an instance to a claim: the messages that are visible now, and counts the delivery of each. At most `limit` of
    /// them, but always with a start if there is one: without it the rest might wait for ever.
    pub fn hold(&mut self, instance: &Arc<str>, claim: ClaimId, limit: usize) -> Vec<(Order, QueuedMessage)> {
        let alone = self.recent.is_none();
        let Some(mailbox) = self.mailbox(instance) else {
            return Vec::new();
        };
        mailbox.holder = Holder::Claim(claim);
        let lapsed = mailbox.lapsed.take();
        self.stop_coalescing(instance);
        let Some(mailbox) = self.mailbox(instance) else {
            return Vec::new();
        };
        let mut queued_messages = mailbox.visible.iter();
        let start = queued_messages.find(|(_, queued)| queued.sort == MessageKind::Start);
        let start = start.map(|(order, _)| *order);
        let far = start.filter(|start| mailbox.visible.range(..start).count() >= limit);
        let near = limit - usize::from(far.is_some()).min(limit);
        let mut queued_messages = Vec::with_capacity(mailbox.visible.len().min(limit));
        let held = mailbox.visible.iter_mut().enumerate();
        for (_, (order, queued)) in held.filter(|(at, (order, _))| *at < near || Some(**order) == far) {
            // On a shared store, the head counts deliveries.
            queued.attempts += u32::from(mutant!(SkipAttempt, false, alone));
            queued_messages.push((*order, QueuedMessage::clone(queued)));
        }
        mutant!(NewestFirst, queued_messages.reverse());
        if let Some(lapsed) = lapsed {
            self.claims.remove(&lapsed);
        }
        self.refresh(instance);
        queued_messages
    }

    /// Ends a claim on an instance without any change to its messages.
    pub fn let_go(&mut self, instance: &Arc<str>, claim: ClaimId, now_ms: u64) {
        if let Some(mailbox) = self.mailbox(instance) {
            if mailbox.holder == Holder::Claim(claim) {
                mailbox.holder = Holder::Nobody;
            }
            if mailbox.lapsed == Some(claim) {
                mailbox.lapsed = None;
            }
            if !mailbox.is_ours() {
                mailbox.doubt();
            }
            self.coalesce(instance, now_ms);
            self.refresh(instance);
            self.drop_if_idle(instance);
        }
    }

    /// A claim's lease has expired: another claim may take the instance, but until one does this one can be restored.
    pub fn lapse_turn(&mut self, instance: &Arc<str>, claim: ClaimId) {
        if let Some(mailbox) = self.mailbox(instance) {
            mailbox.holder = Holder::Nobody;
            mailbox.lapsed = Some(claim);
            mailbox.doubt();
            self.refresh(instance);
        }
        // No claim will ever take a mailbox without messages.
        self.drop_if_idle(instance);
        if !self.turns.mailboxes.contains_key(instance) {
            self.drop_claim(claim);
        }
    }

    /// A commit of this process has claimed an instance that nobody holds: the lease of the claim that has lapsed is overwritten,
    /// and even a clock that is put back does not bring it back.
    pub fn end_lapsed(&mut self, instance: &str) {
        if let Some(lapsed) = self.mailbox(instance).and_then(|mailbox| mailbox.lapsed.take()) {
            self.drop_claim(lapsed);
        }
    }

    /// Restores a claim whose lease ran out before its instance was handed out; `false` if another claim has the instance, or
    /// a commit under way may have made one.
    pub fn hold_again(&mut self, instance: &Arc<str>, claim: ClaimId) -> bool {
        let is_pending = self.is_claim_pending(instance);
        let Some(mailbox) = self.mailbox(instance) else {
            return false;
        };
        if mailbox.holder == Holder::Nobody && mailbox.lapsed == Some(claim) && !is_pending {
            mailbox.holder = Holder::Claim(claim);
            mailbox.lapsed = None;
            self.refresh(instance);
            return true;
        }
        mailbox.holder == Holder::Claim(claim)
    }

    /// Whether an instance is still held by this claim.
    pub fn is_held_by(&self, instance: &str, claim: ClaimId) -> bool {
        let mailbox = self.turns.mailboxes.get(instance);
        mailbox.is_some_and(|mailbox| mailbox.holder == Holder::Claim(claim))
    }

    /// Sets an instance aside that cannot be read in full, until the store is opened again.
    pub fn shelve(&mut self, instance: &Arc<str>, claim: ClaimId) {
        if let Some(mailbox) = self.mailbox(instance)
            && mailbox.holder == Holder::Claim(claim)
        {
            mailbox.holder = Holder::Damaged;
        }
    }

    /// Sets messages of an instance that does not exist aside until a start can be handed out with them.
    pub fn park(&mut self, instance: &Arc<str>, claim: ClaimId, taken: &[Order]) {
        let Some(mailbox) = self.mailbox(instance) else { return };
        let start_came = mailbox
            .visible
            .iter()
            .any(|(order, queued)| queued.sort == MessageKind::Start && !taken.contains(order));
        if mailbox.holder == Holder::Claim(claim) {
            mailbox.holder = if start_came { Holder::Nobody } else { Holder::Parked };
        }
        self.refresh(instance);
    }

    /// Undoes the count of a delivery.
    pub fn uncount(&mut self, instance: &str, orders: &[Order]) {
        if self.recent.is_some() {
            return;
        }
        let Some(mailbox) = self.mailbox(instance) else { return };
        for order in orders {
            if let Some(queued) = mailbox.visible.get_mut(order) {
                queued.attempts = queued.attempts.saturating_sub(1);
            }
        }
    }
}

//! Work that is claimed by the commit that creates it, for a dispatcher of this process that waits.

use super::waiters::Want;
use super::{Board, Handed, Inner, Pin, QueuedMessage, Subject};
use crate::instance::Snapshot;
use crate::records::work::Activity;
use crate::tuning::TURNS_AHEAD;
use perennial_store::{Order, Version};
use std::sync::Arc;

/// An instance that this process has claimed and not handed out yet.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The instance, with this process's lease in its head.
    pub snapshot: Arc<Snapshot>,
    /// When the lease ends for other processes.
    pub until_ms: u64,
    /// The version of the head that the claim wrote, if it came with a message.
    pub over: Option<Version>,
}

/// A claim that a commit under way may make; dropped when the board has it, or when the commit did not make it.
pub struct PendingClaim {
    board: Arc<Board>,
    instance: Arc<str>,
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        let mut inner = self.board.inner.lock();
        inner.pending_claim.remove(&self.instance);
        inner.refresh(&self.instance);
    }
}

impl Board {
    /// Announces a claim on an instance for a dispatcher that waits; `None` if no dispatcher here would take it at once, or if
    /// one already works on it or is about to.
    pub fn begin_claim(self: &Arc<Self>, instance: &Arc<str>, pin: &Pin) -> Option<PendingClaim> {
        let mut inner = self.inner.lock();
        if !inner.could_reserve(instance, pin) || !inner.pending_claim.insert(Arc::clone(instance)) {
            return None;
        }
        Some(PendingClaim {
            board: Arc::clone(self),
            instance: Arc::clone(instance),
        })
    }
}

impl Inner {
    /// Whether a commit is under way that may claim an instance.
    pub fn is_claim_pending(&self, instance: &str) -> bool {
        self.pending_claim.contains(instance)
    }

    /// Whether an instance could be claimed for a waiting dispatcher: none here works on it, and one would take it.
    fn could_reserve(&self, instance: &str, pin: &Pin) -> bool {
        let free = self
            .turns
            .mailboxes
            .get(instance)
            .is_none_or(|mailbox| mailbox.is_free() && mailbox.reserved.is_none());
        let sleeps = |want: &Want| matches!(want, Want::Turn(window) if window.admits(pin));
        free && (self.waiters.any_asleep(sleeps) || self.dispatchers_soon(pin) > 0)
    }

    /// How many more instances could be claimed for busy dispatchers: turns are short, and each will be back soon.
    fn dispatchers_soon(&self, pin: &Pin) -> usize {
        let room = self
            .claims
            .values()
            .filter(|claim| matches!(&claim.subject, Subject::Turn { window, .. } if window.admits(pin)))
            .count();
        let reserved = self
            .turns
            .mailboxes
            .values()
            .filter(|mailbox| mailbox.reserved.is_some())
            .count();
        (room * TURNS_AHEAD).saturating_sub(reserved + self.pending_claim.len())
    }

    /// Whether messages that are handed out are surely in the store, now that this process has claimed the instance and its head
    /// is at this version: this process sent all of them, and no other process has written the head since.
    pub fn is_certain(
        &mut self,
        instance: &str,
        queued_messages: &[(Order, QueuedMessage)],
        over: Option<&Version>,
    ) -> bool {
        let Some(mailbox) = self
            .turns
            .mailboxes
            .get_mut(instance)
            .filter(|mailbox| !mailbox.partial)
        else {
            return false;
        };
        let mut brought = |order: Order| {
            let queued = mailbox.message(order);
            queued.is_some_and(|queued| over.is_some() && queued.since.as_ref() == over)
        };
        let certain = !queued_messages.is_empty() && queued_messages.iter().all(|(order, _)| brought(*order));
        if certain {
            mailbox.certify(over);
        }
        certain
    }

    /// This process has replaced the head of an instance, or written its first version: no other process came in between.
    pub fn wrote_head(&mut self, instance: &str, old: Option<&Version>, new: Option<&Version>) {
        let Some(new) = new else { return };
        if let (Some(recent), Some(old)) = (&mut self.recent, old) {
            recent.follow(old, new);
        }
        if let Some(mailbox) = self.turns.mailboxes.get_mut(instance) {
            mailbox.follow(old, new);
        }
    }

    /// The version of a head that followed this one through writes of this process alone.
    pub fn newest_since(&self, since: Option<Version>) -> Option<Version> {
        match (&self.recent, since) {
            (Some(recent), Some(since)) => Some(recent.newest(since)),
            (_, since) => since,
        }
    }

    /// Whether a message that this process sent is surely in the store: this process works on the instance now, and no other
    /// process has since the message was sent.
    pub fn vouch(&mut self, instance: &str, order: Order) {
        let Some(mailbox) = self
            .turns
            .mailboxes
            .get_mut(instance)
            .filter(|mailbox| mailbox.is_ours())
        else {
            return;
        };
        let head = mailbox.head.clone();
        if let Some(queued) = mailbox.message(order) {
            queued.certain |= head.is_some() && queued.since == head;
        }
    }

    /// Whether no dispatcher here works on an instance.
    pub fn could_take(&self, instance: &str) -> bool {
        let mailbox = self.turns.mailboxes.get(instance);
        mailbox.is_none_or(|mailbox| mailbox.is_free() && mailbox.reserved.is_none())
    }

    /// Notes that an instance is claimed already. Its messages must be on the board. Those that the same commit wrote are surely
    /// in the store, and so are those that this process sent while the head was at the version that the claim replaced.
    pub fn reserve(&mut self, instance: &Arc<str>, reservation: Reservation, made: &[Order]) {
        let Some(mailbox) = self.turns.mailboxes.get_mut(instance) else {
            return;
        };
        for order in made {
            if let Some(queued) = mailbox.message(*order) {
                queued.certain = true;
            }
        }
        mailbox.certify(reservation.over.as_ref());
        let head = reservation.snapshot.head.as_ref();
        mailbox.head = head.map(|(_, version)| version.clone());
        mailbox.reserved = Some(reservation);
    }

    /// Whether an instance that this process works on surely has messages beside those that were handed out.
    pub fn has_more(&self, instance: &str, handed: &[Handed]) -> bool {
        // If not all messages were read, the next turn reads on.
        let Some(mailbox) = self.turns.mailboxes.get(instance).filter(|mailbox| !mailbox.partial) else {
            return false;
        };
        let is_left = |order: &Order| !handed.iter().any(|handed| handed.order == *order);
        let mut left = mailbox.visible.iter().filter(|(order, _)| is_left(order));
        left.next().is_some_and(|(_, queued)| queued.certain)
    }

    /// Takes the claim that was made ahead.
    pub fn take_reservation(&mut self, instance: &str) -> Option<Reservation> {
        self.turns.mailboxes.get_mut(instance)?.reserved.take()
    }

    /// Takes all claims that were made ahead and not handed out.
    pub fn take_reservations(&mut self) -> Vec<(Arc<str>, Reservation)> {
        let mailboxes = self.turns.mailboxes.iter_mut();
        mailboxes
            .filter_map(|(instance, mailbox)| Some((Arc::clone(instance), mailbox.reserved.take()?)))
            .collect()
    }

    /// The clock was put back: claims that were made ahead may have expired for other processes.
    pub fn distrust_reservations(&mut self) {
        for mailbox in self.turns.mailboxes.values_mut() {
            mailbox.reserved = None;
        }
        self.work.distrust_reservations();
    }

    /// For each of these activities, whether a worker waits for it or will be back soon; each worker takes one.
    pub fn wanted<'a>(&self, activities: impl Iterator<Item = &'a Activity>, now_ms: u64) -> Vec<bool> {
        let mut workers = self.waiters.workers_asleep();
        let mut soon = self.workers_soon(now_ms);
        let mut take = |activity: &Activity| {
            if activity.session.is_some() {
                return false;
            }
            if let Some(at) = workers.iter().position(|tags| tags.matches(activity.tag.as_deref())) {
                workers.swap_remove(at);
                return true;
            }
            let more = soon.get_mut(&activity.tag).filter(|more| **more > 0);
            more.map(|more| *more -= 1).is_some()
        };
        activities.map(&mut take).collect()
    }
}

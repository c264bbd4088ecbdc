//! Work that is claimed by the commit that makes it, for a dispatcher of this process that waits.

use super::waiters::Want;
use super::{Board, Handed, Inner, Pin, QueuedMessage, Subject};
use crate::instance::Snapshot;
use crate::records::work::Activity;
use perennial_store::{Order, Version};
use std::sync::Arc;

/// How many instances are claimed ahead for each dispatcher.
const AHEAD: usize = 8;

/// An instance that this process has claimed and not handed out yet.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The instance, with this process's lease in its head.
    pub snapshot: Arc<Snapshot>,
    /// When the lease ends for others.
    pub until_ms: u64,
    /// The version of the head that the claim made, if it brought a message.
    pub over: Option<Version>,
}

/// A claim that a commit under way may make; dropped when the board knows of it, or it has come to nothing.
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
    /// Announces a claim on an instance for a dispatcher that waits; `None` if nobody here would work on it at once, or
    /// somebody does or is about to.
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

    /// Whether an instance could be claimed for a dispatcher that waits: nobody here works on it, and somebody would.
    fn could_reserve(&self, instance: &str, pin: &Pin) -> bool {
        let free = self
            .turns
            .mailboxes
            .get(instance)
            .is_none_or(|mailbox| mailbox.is_free() && mailbox.reserved.is_none());
        let sleeps = |want: &Want| matches!(want, Want::Turn(window) if window.admits(pin));
        free && (self.waiters.any_asleep(sleeps) || self.dispatchers_soon(pin) > 0)
    }

    /// How many instances more could be claimed for dispatchers that are busy: turns are short, and each will be back soon.
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
        (room * AHEAD).saturating_sub(reserved + self.pending_claim.len())
    }

    /// Whether messages that are handed out are there for sure, now that this process has claimed the instance and its head
    /// is at this version: it brought all of them, and nobody has come in between since.
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

    /// This process has replaced the head of an instance, or written the first: nobody came in between.
    pub fn wrote_head(&mut self, instance: &str, old: Option<&Version>, new: Option<&Version>) {
        let Some(new) = new else { return };
        if let (Some(recent), Some(old)) = (&mut self.recent, old) {
            recent.follow(old, new);
        }
        if let Some(mailbox) = self.turns.mailboxes.get_mut(instance) {
            mailbox.follow(old, new);
        }
    }

    /// The version of a head that followed this one by nothing but writes of this process.
    pub fn newest_since(&self, since: Option<Version>) -> Option<Version> {
        match (&self.recent, since) {
            (Some(recent), Some(since)) => Some(recent.newest(since)),
            (_, since) => since,
        }
    }

    /// A message that this process brought is there for sure if it works on the instance now, and nobody else has since it
    /// was brought.
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

    /// Whether nobody here works on an instance.
    pub fn could_take(&self, instance: &str) -> bool {
        let mailbox = self.turns.mailboxes.get(instance);
        mailbox.is_none_or(|mailbox| mailbox.is_free() && mailbox.reserved.is_none())
    }

    /// Remembers that an instance is claimed already. Its messages must be on the board. Those that the same commit made
    /// are there for sure, and those that this process brought while the head was at the version that the claim replaced.
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

    /// Whether messages of an instance that this process works on are there for sure, beside those that were handed out.
    pub fn has_more(&self, instance: &str, handed: &[Handed]) -> bool {
        // Who has not read them all reads on.
        let Some(mailbox) = self.turns.mailboxes.get(instance).filter(|mailbox| !mailbox.partial) else {
            return false;
        };
        let is_left = |order: &Order| !handed.iter().any(|handed| handed.order == *order);
        let mut left = mailbox.visible.iter().filter(|(order, _)| is_left(order));
        left.next().is_some_and(|(_, queued)| queued.certain)
    }

    /// Takes the claim that was made in advance.
    pub fn take_reservation(&mut self, instance: &str) -> Option<Reservation> {
        self.turns.mailboxes.get_mut(instance)?.reserved.take()
    }

    /// All claims that were made in advance and not handed out.
    pub fn take_reservations(&mut self) -> Vec<(Arc<str>, Reservation)> {
        let mailboxes = self.turns.mailboxes.iter_mut();
        mailboxes
            .filter_map(|(instance, mailbox)| Some((Arc::clone(instance), mailbox.reserved.take()?)))
            .collect()
    }

    /// The clock was put back: what was claimed in advance by the time before may be over for others.
    pub fn distrust_reservations(&mut self) {
        for mailbox in self.turns.mailboxes.values_mut() {
            mailbox.reserved = None;
        }
        self.work.distrust_reservations();
    }

    /// For which of these activities a worker waits, each of whom can take one, or will be back soon.
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

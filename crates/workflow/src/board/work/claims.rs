//! Claims on activities.

use super::super::alarms::Alarm;
use super::super::{ClaimId, Inner};
use super::{QueuedActivity, State, WorkWant};
use crate::mutation::mutant;
use perennial_store::{Order, Version};

impl Inner {
    /// Gives an activity to a claim, and counts the delivery.
    pub fn hold_task(&mut self, order: Order, claim: ClaimId) -> Option<QueuedActivity> {
        self.unshow(order);
        let entry = self.work.entries.get_mut(&order)?;
        entry.state = State::Claimed(claim);
        entry.queued.attempts += mutant!(SkipAttempt, 0, 1);
        let lapsed = entry.lapsed.take();
        let queued = entry.queued.clone();
        // The claim ahead is used up.
        entry.queued.reserved_ms = 0;
        self.work.reserved.remove(&order);
        if let Some(lapsed) = lapsed {
            self.claims.remove(&lapsed);
        }
        Some(queued)
    }

    /// Restores a claim whose lease ran out before its activity was handed out; `false` if the activity is gone or claimed.
    pub fn hold_task_again(&mut self, order: Order, claim: ClaimId) -> bool {
        let Some(entry) = self.work.entries.get_mut(&order).filter(|entry| !entry.cancelled) else {
            return false;
        };
        if entry.state == State::Ready && entry.lapsed == Some(claim) {
            entry.lapsed = None;
            entry.state = State::Claimed(claim);
            self.unshow(order);
            return true;
        }
        entry.state == State::Claimed(claim)
    }

    /// Ends a claim on an activity: it is ready again, at once or at `due_ms`.
    pub fn put_back(&mut self, order: Order, claim: ClaimId, due_ms: Option<u64>, uncount: bool, now_ms: u64) {
        let Some(entry) = self.work.entries.get_mut(&order) else {
            return;
        };
        if entry.state != State::Claimed(claim) && entry.lapsed != Some(claim) {
            return;
        }
        entry.lapsed = None;
        if uncount {
            entry.queued.attempts = entry.queued.attempts.saturating_sub(1);
        }
        let was_ready = entry.state == State::Ready;
        match due_ms.filter(|due_ms| *due_ms > now_ms) {
            Some(due_ms) => {
                entry.queued.due_ms = due_ms;
                self.unshow(order);
                let alarm = self.set_alarm(due_ms, Alarm::QueuedActivity(order));
                if let Some(entry) = self.work.entries.get_mut(&order) {
                    entry.state = State::Hidden(alarm);
                }
            }
            None if was_ready => {}
            None => {
                entry.state = State::Ready;
                self.show(order, now_ms);
            }
        }
    }

    /// A claim's lease has expired: other workers may take the activity, but until one does the claim can be restored.
    pub fn lapse_activity(&mut self, order: Order, claim: ClaimId, now_ms: u64) {
        let Some(entry) = self.work.entries.get_mut(&order) else {
            return;
        };
        entry.lapsed = Some(claim);
        entry.state = State::Ready;
        self.show(order, now_ms);
    }

    /// An activity's deliveries were written to its record.
    pub fn noted_task(&mut self, order: Order, attempts: u32, version: Version) {
        let Some(entry) = self.work.entries.get_mut(&order) else {
            return;
        };
        entry.queued.noted = attempts;
        entry.change_version(version, self.recent.as_mut());
    }

    /// An activity is at this version in the store, whichever reply to the writes of its delivery count came last.
    pub fn refresh_activity(&mut self, order: Order, version: Version) {
        if let Some(entry) = self.work.entries.get_mut(&order) {
            entry.change_version(version, self.recent.as_mut());
        }
    }

    /// Whether the oldest ready activity that a worker may take has another preferred owner.
    pub fn would_take_foreign(&self, want: &WorkWant, now_ms: u64) -> bool {
        let first = self
            .first_work(want, now_ms)
            .and_then(|order| self.work.activity(order));
        first.is_some_and(|queued| queued.foreign)
    }
}

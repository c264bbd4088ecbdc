//! Settling: results of a fan-out that come within moments are one turn.
//!
//! A turn replays the whole history of its instance. Taking one for every result of a wide fan-out costs the square
//! of its width. So a mailbox that holds nothing but results, while many more activities of its instance are under
//! way, waits a moment for them. Who fetches without waiting gets it all the same, so that what was sent before can
//! always be had.

use super::Inner;
use super::alarms::{Alarm, AlarmKey};
use super::mailbox::{Mailbox, Sort};
use std::sync::Arc;

/// How long a mailbox settles at most.
const SETTLE_MS: u64 = 2;
/// The same where many processes share the store: there every turn is one request more, and requests take longer.
const SETTLE_SHARED_MS: u64 = 12;
/// How many more activities must be under way.
const MANY: usize = 8;
/// How many results are enough.
const ENOUGH: usize = 64;

impl Mailbox {
    /// Whether it holds results, few, and nothing else.
    fn holds_few_results(&self) -> bool {
        let letters = self.visible.len();
        (1..ENOUGH).contains(&letters) && self.visible.values().all(|letter| letter.sort == Sort::Result)
    }
}

impl Inner {
    /// Decides whether a mailbox that may have become ready should wait for more.
    pub fn settle(&mut self, instance: &Arc<str>, now_ms: u64) {
        let expects_more = self.work.of_instance(instance) >= MANY;
        let Some(mailbox) = self.turns.mailboxes.get(instance).filter(|mailbox| mailbox.is_free()) else {
            return;
        };
        let first = mailbox.visible.first_key_value().map(|(order, _)| *order);
        match (expects_more && mailbox.holds_few_results(), mailbox.settling) {
            (true, None) => {
                // One that stands among the ready already is not called back.
                let Some(first) = first.filter(|_| mailbox.ready.is_none()) else {
                    return;
                };
                let settle_ms = if self.recent.is_some() {
                    SETTLE_SHARED_MS
                } else {
                    SETTLE_MS
                };
                let alarm = self.set_alarm(now_ms + settle_ms, Alarm::Settled(Arc::clone(instance)));
                self.set_settling(instance, Some(alarm));
                self.turns.settling.insert(first, Arc::clone(instance));
            }
            (false, Some(_)) => self.settled(instance),
            _ => {}
        }
    }

    /// A mailbox has settled, or was taken before it had.
    pub fn settled(&mut self, instance: &Arc<str>) {
        let Some(alarm) = self.set_settling(instance, None) else {
            return;
        };
        self.alarms.cancel(alarm);
        self.turns.settling.retain(|_, settling| settling != instance);
    }

    fn set_settling(&mut self, instance: &Arc<str>, alarm: Option<AlarmKey>) -> Option<AlarmKey> {
        let mailbox = self.turns.mailboxes.get_mut(instance)?;
        std::mem::replace(&mut mailbox.settling, alarm)
    }
}

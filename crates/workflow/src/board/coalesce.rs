//! Coalescing: results of a fan-out that arrive within moments become one turn.
//!
//! A turn replays the whole history of its instance. Taking one turn for every result of a wide fan-out costs the square
//! of its width. So a mailbox that holds nothing but results, while many more activities of its instance are under
//! way, waits a moment for them. A fetch that does not wait gets the mailbox at once, so that a message that was sent
//! before can always be fetched.

use super::Inner;
use super::alarms::{Alarm, AlarmKey};
use super::mailbox::{Mailbox, MessageKind};
use crate::tuning::{COALESCE_AT_MOST, COALESCE_IF_UNDER_WAY, COALESCE_MS, COALESCE_SHARED_MS};
use std::sync::Arc;

impl Mailbox {
    /// Whether it holds results, few, and nothing else.
    fn holds_few_results(&self) -> bool {
        let queued_messages = self.visible.len();
        (1..COALESCE_AT_MOST).contains(&queued_messages)
            && self.visible.values().all(|queued| queued.sort == MessageKind::Result)
    }
}

impl Inner {
    /// Decides whether a mailbox that may have become ready should wait for more.
    pub fn coalesce(&mut self, instance: &Arc<str>, now_ms: u64) {
        let expects_more = self.work.of_instance(instance) >= COALESCE_IF_UNDER_WAY;
        let Some(mailbox) = self.turns.mailboxes.get(instance).filter(|mailbox| mailbox.is_free()) else {
            return;
        };
        let first = mailbox.visible.first_key_value().map(|(order, _)| *order);
        match (expects_more && mailbox.holds_few_results(), mailbox.coalescing) {
            (true, None) => {
                // A mailbox that is ready already stays ready.
                let Some(first) = first.filter(|_| mailbox.ready.is_none()) else {
                    return;
                };
                let coalesce_ms = if self.recent.is_some() {
                    COALESCE_SHARED_MS
                } else {
                    COALESCE_MS
                };
                let alarm = self.set_alarm(now_ms + coalesce_ms, Alarm::Coalesced(Arc::clone(instance)));
                self.set_coalescing(instance, Some(alarm));
                self.turns.coalescing.insert(first, Arc::clone(instance));
            }
            (false, Some(_)) => self.stop_coalescing(instance),
            _ => {}
        }
    }

    /// Ends the wait of a mailbox for more results.
    pub fn stop_coalescing(&mut self, instance: &Arc<str>) {
        let Some(alarm) = self.set_coalescing(instance, None) else {
            return;
        };
        self.alarms.cancel(alarm);
        self.turns.coalescing.retain(|_, coalescing| coalescing != instance);
    }

    fn set_coalescing(&mut self, instance: &Arc<str>, alarm: Option<AlarmKey>) -> Option<AlarmKey> {
        let mailbox = self.turns.mailboxes.get_mut(instance)?;
        std::mem::replace(&mut mailbox.coalescing, alarm)
    }
}

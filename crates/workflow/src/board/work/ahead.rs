//! Activities that are claimed before a worker fetches them.

use super::super::Inner;
use super::super::mailbox::Body;
use super::{QueuedActivity, State};
use crate::records::work::Activity;
use crate::tuning::NEXT_ACTIVITY_WITHIN;
use perennial_store::{Order, Version};

impl Inner {
    /// Takes the oldest ready activity of the same instance and tag out of the queue, for a commit that may claim it.
    pub fn set_next_aside(&mut self, done: &Activity) -> Option<(Order, QueuedActivity)> {
        let ready = self.work.ready.get(&done.tag)?;
        let suits = |(_, order): &&(bool, Order)| {
            let entry = self.work.entries.get(order);
            entry.is_some_and(|entry| {
                let queued = &entry.queued;
                queued.activity.instance == done.instance
                    && !queued.foreign
                    && queued.reserved_ms == 0
                    && entry.lapsed.is_none()
                    && matches!(queued.body, Body::Held(..))
            })
        };
        let (_, order) = *ready.iter().take(NEXT_ACTIVITY_WITHIN).find(suits)?;
        self.unshow(order);
        let entry = self.work.entries.get_mut(&order)?;
        entry.state = State::Aside;
        Some((order, entry.queued.clone()))
    }

    /// The outcome of that commit is known: `claimed` says at which version, until when, and delivered how often.
    pub fn put_next_back(&mut self, order: Order, claimed: Option<(Version, u64, u32)>, now_ms: u64) {
        let Some(entry) = self
            .work
            .entries
            .get_mut(&order)
            .filter(|entry| entry.state == State::Aside)
        else {
            return;
        };
        if let Some((version, until_ms, attempts)) = claimed {
            self.work.reserved.insert(order, now_ms);
            (entry.queued.reserved_ms, entry.queued.noted) = (until_ms, attempts);
            entry.change_version(version, self.recent.as_mut());
        }
        entry.state = State::Ready;
        self.show(order, now_ms);
    }

    /// Takes an activity out of the queue that was claimed ahead before `before_ms`: no worker here may take it until workers
    /// elsewhere may, too.
    pub fn set_unwanted_aside(&mut self, before_ms: u64) -> Option<(Order, QueuedActivity)> {
        let is_old = |(_, since_ms): &(&Order, &u64)| **since_ms < before_ms;
        let order = *self.work.reserved.iter().find(is_old)?.0;
        self.work.reserved.remove(&order);
        self.unshow(order);
        let entry = self.work.entries.get_mut(&order)?;
        entry.state = State::Aside;
        Some((order, entry.queued.clone()))
    }

    /// The claim ahead on an activity was released: workers here and elsewhere may take it again.
    pub fn unreserve(&mut self, order: Order, foreign: bool, now_ms: u64) {
        let Some(entry) = self.work.entries.get_mut(&order) else {
            return;
        };
        (entry.queued.reserved_ms, entry.queued.foreign) = (0, foreign);
        if entry.state == State::Aside {
            entry.state = State::Ready;
            self.show(order, now_ms);
        }
    }
}

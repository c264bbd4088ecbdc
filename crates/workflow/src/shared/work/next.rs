//! Claiming the next activity of an instance in the commit that ends the one before: its worker will be back at once.

use crate::board::{Body, QueuedActivity};
use crate::engine::Engine;
use crate::records::work;
use crate::shared::{Shared, until};
use perennial_store::{Op, Order, Place, Result, Version};
use std::sync::Arc;

/// An activity that a commit may claim on the side; no worker here may take it until that is known.
pub struct Next {
    engine: Arc<Engine>,
    order: Order,
    until_ms: u64,
    attempts: u32,
    claimed: Option<Version>,
}

impl Next {
    /// The next activity of the same instance that the worker of `done` can have, and the operation that claims it.
    pub fn of(engine: &Arc<Engine>, shared: &Shared, done: &QueuedActivity) -> Result<Option<(Self, Op)>> {
        if shared.work_lock().is_zero() {
            return Ok(None);
        }
        let now_ms = engine.clock.now_ms();
        let Some((order, queued)) = engine.board.lock().0.set_next_aside(&done.activity) else {
            return Ok(None);
        };
        let next = Self {
            engine: Arc::clone(engine),
            order,
            until_ms: until(now_ms, shared.work_lock()),
            attempts: queued.attempts + 1,
            claimed: None,
        };
        let Body::Held(item, _) = &queued.body else {
            return Ok(None);
        };
        let place = Place {
            lane: engine.lanes.work(queued.activity.tag.as_ref()),
            order,
            due_ms: next.until_ms,
        };
        let draft = work::draft(queued.key.clone(), item, place, next.attempts, Some(&shared.owner))?;
        Ok(Some((next, Op::Replace(draft, queued.version))))
    }

    /// The commit has, or has not, claimed it.
    pub fn resolve(mut self, claimed: Option<Version>) {
        self.claimed = claimed;
    }
}

impl Drop for Next {
    fn drop(&mut self) {
        let (mut board, now_ms) = self.engine.board.lock();
        let claimed = self
            .claimed
            .take()
            .map(|version| (version, self.until_ms, self.attempts));
        board.put_next_back(self.order, claimed, now_ms);
    }
}

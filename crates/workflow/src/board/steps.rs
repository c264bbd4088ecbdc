//! A clock that is put back: results that settle for a moment must not do so for as long as it was put back.

use super::Inner;
use std::sync::Arc;

impl Inner {
    /// Takes note of the time.
    pub fn see(&mut self, now_ms: u64) {
        if std::mem::replace(&mut self.seen_ms, now_ms) <= now_ms {
            return;
        }
        self.distrust_reservations();
        let settling: Vec<Arc<str>> = self.turns.settling.values().cloned().collect();
        for instance in settling {
            self.settled(&instance);
            self.refresh(&instance);
        }
    }
}

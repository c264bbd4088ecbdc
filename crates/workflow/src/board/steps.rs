//! A clock that is put back: results that coalesce for a moment must not wait for as long as the clock was put back.

use super::Inner;
use std::sync::Arc;

impl Inner {
    /// Notes the time.
    pub fn see(&mut self, now_ms: u64) {
        if std::mem::replace(&mut self.seen_ms, now_ms) <= now_ms {
            return;
        }
        self.distrust_reservations();
        let coalescing: Vec<Arc<str>> = self.turns.coalescing.values().cloned().collect();
        for instance in coalescing {
            self.stop_coalescing(&instance);
            self.refresh(&instance);
        }
    }
}

//! A clock that is ahead of the machine's.

use async_trait::async_trait;
use perennial_store::{Clock, SystemClock};
use std::time::Duration;

/// The machine's clock, ahead by a fixed time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ahead {
    /// How far it is ahead.
    pub by_ms: u64,
}

#[async_trait]
impl Clock for Ahead {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms().saturating_add(self.by_ms)
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }
}

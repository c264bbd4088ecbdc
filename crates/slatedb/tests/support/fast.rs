//! A clock that runs faster than the machine's.

use async_trait::async_trait;
use perennial_store::{Clock, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// A clock on which time passes so many times faster.
pub struct FastClock {
    speed: u32,
    started_ms: u64,
}

impl FastClock {
    pub fn new(speed: u32) -> Arc<Self> {
        let started_ms = SystemClock.now_ms();
        Arc::new(Self { speed, started_ms })
    }
}

#[async_trait]
impl Clock for FastClock {
    fn now_ms(&self) -> u64 {
        let passed_ms = SystemClock.now_ms() - self.started_ms;
        self.started_ms + passed_ms * u64::from(self.speed)
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration / self.speed).await;
    }
}

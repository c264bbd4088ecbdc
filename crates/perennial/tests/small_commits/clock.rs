//! Time that jumps when every task waits.

use async_trait::async_trait;
use perennial_store::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time of a paused runtime.
pub struct Virtual(Instant);

impl Virtual {
    /// It is some day in 2027.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

#[async_trait]
impl Clock for Virtual {
    fn now_ms(&self) -> u64 {
        1_800_000_000_000 + self.0.elapsed().as_millis() as u64
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

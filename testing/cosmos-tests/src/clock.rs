//! Clocks that are not the machine's.

use async_trait::async_trait;
use perennial_store::{Clock, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// A clock that runs several times as fast as the machine's, so that a minute of idling is over soon.
pub struct Hurried {
    began_ms: u64,
    times: u32,
}

impl Hurried {
    /// So many times as fast, from now on.
    pub fn by(times: u32) -> Arc<dyn Clock> {
        let began_ms = SystemClock.now_ms();
        Arc::new(Self { began_ms, times })
    }
}

#[async_trait]
impl Clock for Hurried {
    fn now_ms(&self) -> u64 {
        self.began_ms + (SystemClock.now_ms() - self.began_ms) * u64::from(self.times)
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration / self.times).await;
    }
}

/// A clock that is wrong by a fixed time.
pub struct Skewed(i64);

impl Skewed {
    /// Ahead by this time, or behind if it is negative.
    pub fn by_ms(ms: i64) -> Arc<dyn Clock> {
        Arc::new(Self(ms))
    }
}

#[async_trait]
impl Clock for Skewed {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms().saturating_add_signed(self.0)
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }
}

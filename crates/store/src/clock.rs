//! Time, as something that is handed in.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

/// The source of time. Nothing in perennial asks the machine directly, so that a simulation can own time.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Returns after this long.
    async fn sleep(&self, duration: Duration);
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// The machine's clock, as most callers hold it.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self)
    }
}

#[async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)]
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    #[allow(clippy::disallowed_methods)]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

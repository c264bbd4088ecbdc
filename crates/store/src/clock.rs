//! The clock, passed in as a dependency.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::on_one_runtime;
use async_trait::async_trait;
use tokio::time::Instant;

/// Stands for "never", where a sleep would end later than the machine can represent.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The source of time. Nothing in perennial reads the machine's clock directly, so that a simulation can control time.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// Returns after this long.
    async fn sleep(&self, duration: Duration);

    /// Whether a sleep may begin on one tokio runtime and end on another, after the first has ended. Only then can work
    /// that was under way on a runtime be finished elsewhere. The time of a simulation is bound to its runtime and ends
    /// with it.
    fn outlives_runtime(&self) -> bool {
        false
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// The machine's clock, in the form that most callers hold.
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
        let now = Instant::now();
        let until = now.checked_add(duration).unwrap_or_else(|| now + FAR);
        // A timer belongs to the runtime on which it was created, and dies with it.
        while on_one_runtime(tokio::time::sleep_until(until)).await.is_none() {}
    }

    fn outlives_runtime(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use tokio::runtime::{Builder, Runtime};

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn a_sleep_goes_on_when_its_runtime_has_ended() {
        let (one, other) = (runtime(), runtime());
        let mut sleep = SystemClock.sleep(Duration::from_millis(20));
        one.block_on(async { assert!((&mut sleep).now_or_never().is_none()) });
        drop(one);
        other.block_on(sleep);
    }

    #[test]
    fn a_sleep_goes_on_when_its_runtime_stands_still() {
        let (one, other) = (runtime(), runtime());
        let mut sleep = SystemClock.sleep(Duration::from_millis(20));
        one.block_on(async { assert!((&mut sleep).now_or_never().is_none()) });
        other.block_on(sleep);
        drop(one);
    }

    #[tokio::test]
    async fn a_sleep_longer_than_time_is_no_error() {
        let mut sleep = SystemClock.sleep(Duration::MAX);
        assert!((&mut sleep).now_or_never().is_none());
    }
}

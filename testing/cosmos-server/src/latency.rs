//! Time that each request takes more.

use fastrand::Rng;
use parking_lot::Mutex;
use perennial_store::Clock;
use std::time::Duration;

/// Time added to each request, before anything is done: from `base_ms` to `base_ms + jitter_ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The time that every request takes.
    pub base_ms: u64,
    /// The largest random time beyond that.
    pub jitter_ms: u64,
}

/// The latency in force, which a test can change.
#[derive(Debug)]
pub(crate) struct Delays {
    state: Mutex<(Latency, Rng)>,
}

impl Delays {
    pub fn new(latency: Latency, seed: u64) -> Self {
        Self {
            state: Mutex::new((latency, Rng::with_seed(seed))),
        }
    }

    pub fn set(&self, latency: Latency) {
        self.state.lock().0 = latency;
    }

    pub async fn wait(&self, clock: &dyn Clock) {
        let delay_ms = {
            let (latency, chance) = &mut *self.state.lock();
            latency.base_ms + chance.u64(0..=latency.jitter_ms)
        };
        if delay_ms > 0 {
            clock.sleep(Duration::from_millis(delay_ms)).await;
        }
    }
}

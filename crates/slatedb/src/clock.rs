//! The clock of a database, which never runs behind what is written in it.
//!
//! SlateDB stamps every write, every table and every merge with the time, and stops when a stamp is below one that is stored
//! already: a machine whose clock is a minute behind its predecessor's could not write. So this clock starts at the highest
//! stored stamp and runs at half speed until the machine has caught up. It does not stand still, because SlateDB also tells
//! by it whether whoever merged tables is alive.

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use perennial_store::Clock;
use slatedb_common::clock::{SystemClock, SystemClockTicker};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The given clock, but never below its floor, and never backwards.
pub(crate) struct FlooredClock {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The highest time that was told.
    latest_ms: i64,
    /// The floor, and what the machine's clock showed when it was set.
    floor: Option<(i64, i64)>,
}

impl FlooredClock {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let state = Mutex::default();
        Self { clock, state }
    }

    /// From now on no earlier time is told than this.
    pub(crate) fn raise(&self, floor_ms: i64) {
        let behind_ms = floor_ms.saturating_sub(self.now_ms());
        if behind_ms <= 0 {
            return;
        }
        tracing::debug!(
            behind_ms,
            "the clock is behind what is stored, and runs slowly until it has caught up"
        );
        self.state.lock().floor = Some((floor_ms, self.machine_ms()));
    }

    fn machine_ms(&self) -> i64 {
        i64::try_from(self.clock.now_ms()).unwrap_or(i64::MAX)
    }

    fn now_ms(&self) -> i64 {
        let machine_ms = self.machine_ms();
        let mut state = self.state.lock();
        let floor_ms = state.floor.map_or(0, |(floor_ms, set_ms)| {
            let passed_ms = machine_ms.saturating_sub(set_ms).max(0);
            floor_ms.saturating_add(passed_ms / 2)
        });
        state.latest_ms = state.latest_ms.max(machine_ms).max(floor_ms);
        state.latest_ms
    }
}

impl fmt::Debug for FlooredClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlooredClock({:?})", self.state.lock())
    }
}

impl SystemClock for FlooredClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.now_ms()).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.clock.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Hands(AtomicU64);

    #[async_trait::async_trait]
    impl Clock for Hands {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }

        async fn sleep(&self, _duration: Duration) {}
    }

    #[test]
    fn time_goes_on_slowly_from_the_floor_and_never_back() {
        let hands = Arc::new(Hands(AtomicU64::new(1_000)));
        let clock = FlooredClock::new(hands.clone());
        let at = |machine_ms: u64| {
            hands.0.store(machine_ms, Ordering::SeqCst);
            clock.now().timestamp_millis()
        };
        assert_eq!(at(1_000), 1_000);
        clock.raise(5_000);
        clock.raise(3_000);
        assert_eq!(at(1_000), 5_000);
        assert_eq!(at(3_000), 6_000);
        // It has caught up.
        assert_eq!(at(9_000), 9_000);
        assert_eq!(at(20_000), 20_000);
        assert_eq!(at(15_000), 20_000);
        assert_eq!(at(21_000), 21_000);
    }

    #[test]
    fn times_that_no_clock_can_show_are_no_panic() {
        let clock = FlooredClock::new(Arc::new(Hands(AtomicU64::new(u64::MAX))));
        clock.raise(i64::MIN);
        clock.raise(i64::MAX);
        assert_eq!(clock.now(), DateTime::<Utc>::MAX_UTC);
    }
}

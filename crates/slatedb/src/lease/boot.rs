//! The clock by which leases are measured, passed in as a dependency.

use std::time::Duration;

/// A clock that never jumps and counts the time while the machine was suspended. Its origin does not matter: only the times of
/// one clock are compared.
pub trait BootClock: Send + Sync + 'static {
    /// The time since the origin.
    fn now(&self) -> Duration;
}

/// The machine's own: `CLOCK_BOOTTIME` on Linux.
///
/// On Apple's systems `CLOCK_MONOTONIC` counts suspension, on Windows the performance counter does. Elsewhere a machine must not
/// be suspended while it owns a shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemBootClock;

#[cfg(unix)]
impl BootClock for SystemBootClock {
    fn now(&self) -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let clock = ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let clock = ClockId::Monotonic;
        let time = clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
    }
}

#[cfg(not(unix))]
impl BootClock for SystemBootClock {
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Duration {
        use std::sync::OnceLock;
        use std::time::Instant;
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_machine_goes_on() {
        let before = SystemBootClock.now();
        assert!(before > Duration::ZERO);
        while SystemBootClock.now() == before {}
        assert!(SystemBootClock.now() > before);
    }
}

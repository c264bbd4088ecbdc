//! What a candidate knows of the machine it runs on, passed in as a dependency.

use super::{BootClock, SystemBootClock};
use perennial_store::{Clock, SystemClock};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// A source of random numbers. Two processes must never get the same one, not even if one is a copy of the other's memory.
pub type Random = Arc<dyn Fn() -> u128 + Send + Sync>;

/// The machine and the process of a candidate.
#[derive(Clone)]
pub struct Machine {
    /// For sleeping, and for times that are shown.
    pub clock: Arc<dyn Clock>,
    /// For measuring leases.
    pub boot: Arc<dyn BootClock>,
    /// For incarnations and nonces.
    pub random: Random,
    /// The name of the host, for people.
    pub host: String,
    /// The id of the process, for people.
    pub process: u32,
}

/// The longest sleep at once. A sleep does not count suspension and the clock of leases does, so a machine that wakes up must
/// look at the clock soon.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

impl Machine {
    /// This process on this machine.
    pub fn this() -> Self {
        Self {
            clock: SystemClock::shared(),
            boot: Arc::new(SystemBootClock),
            random: Arc::new(random),
            host: host_name(),
            process: std::process::id(),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.boot.now()
    }

    /// A number that never comes twice, in the form in which it is written.
    pub(super) fn fresh(&self) -> String {
        format!("{:032x}", (self.random)())
    }

    /// The time of the wall clock, for people.
    pub(super) fn date(&self) -> String {
        let ms = i64::try_from(self.clock.now_ms()).unwrap_or(i64::MAX);
        let date = chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default();
        date.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
    }

    /// Returns at a time of the boot clock.
    pub(super) async fn sleep_until(&self, time: Duration) {
        loop {
            let left = time.saturating_sub(self.now());
            if left.is_zero() {
                return;
            }
            // Sleeps have a resolution of a millisecond.
            let sleep = left.clamp(Duration::from_millis(1), LONGEST_SLEEP);
            self.clock.sleep(sleep).await;
        }
    }
}

/// Asks the system each time: a copy of a virtual machine must not repeat the numbers of its original.
fn random() -> u128 {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u128::from_ne_bytes(bytes),
        Err(error) => {
            tracing::warn!(%error, "the system gives no random numbers; using those that this process began with");
            let half = || u128::from(RandomState::new().build_hasher().finish());
            half() << 64 | half()
        }
    }
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_a_name_and_numbers_that_do_not_repeat() {
        let machine = Machine::this();
        assert!(!machine.host.is_empty() && machine.process > 0);
        let (one, other) = (machine.fresh(), machine.fresh());
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
        assert!(machine.date().starts_with("20") && machine.date().ends_with('Z'));
    }
}

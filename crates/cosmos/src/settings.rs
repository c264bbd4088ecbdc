//! Settings of the Cosmos DB store: plain data.

use std::time::Duration;

/// How fresh reads must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consistency {
    /// At least as new as what this process has written or read before, whatever the account's own level: what the
    /// engine needs.
    #[default]
    Session,
    /// As the account is configured. Enough if that is Session or stronger; with Eventual or Consistent Prefix a
    /// process may not see what it has just written.
    Account,
    /// The latest commit in the region. Reads cost twice as much.
    LatestCommitted,
}

/// How a Cosmos DB store behaves. The defaults suit almost every use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long one call may take with all its retries, at least a second. A commit whose outcome is unknown may take
    /// several times as long.
    pub call_timeout: Duration,
    /// How fresh reads must be.
    pub consistency: Consistency,
    /// Regions to use, nearest first, by the names that Azure gives them. Empty means the account's own order.
    pub preferred_regions: Vec<String>,
    /// How often totals are written, if they have changed.
    pub counters_interval: Duration,
    /// After how long without a change this handle's totals are marked complete. A process that dies before makes other
    /// processes count anew: those that query totals, half a minute later at the earliest.
    pub counters_idle: Duration,
    /// Whether the certificate of an emulator on this machine may be self-signed. That of any other server never may.
    pub trust_local_emulator: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(10),
            consistency: Consistency::Session,
            preferred_regions: Vec::new(),
            counters_interval: Duration::from_secs(5),
            counters_idle: Duration::from_secs(60),
            trust_local_emulator: false,
        }
    }
}

/// When this handle's document of totals is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    interval: Duration,
    idle: Duration,
}

/// How many intervals may pass before a handle that should have written is taken for dead.
const MISSED_INTERVALS: u32 = 6;

impl Timing {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            interval: settings.counters_interval,
            idle: settings.counters_idle,
        }
    }

    /// How long nothing must have changed before totals are complete.
    pub(crate) fn idle_ms(self) -> u64 {
        u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX)
    }

    /// How long after a write other handles wait for the next one.
    pub(crate) fn grace_ms(self) -> u64 {
        let late = self.interval.saturating_mul(MISSED_INTERVALS).saturating_add(self.idle);
        u64::try_from(late.as_millis()).unwrap_or(u64::MAX)
    }
}

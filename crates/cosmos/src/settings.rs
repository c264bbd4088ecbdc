//! Settings of the Cosmos DB store: plain data.

use std::time::Duration;

/// How new must be what is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consistency {
    /// At least what this process has written or read before, whatever the account's own level is: what the engine needs.
    #[default]
    Session,
    /// As the account says. Enough if that is Session or stronger; with Eventual or Consistent Prefix a process may not see what it
    /// has just written.
    Account,
    /// The latest that was committed in the region. Reads cost twice as much.
    LatestCommitted,
}

/// How a Cosmos DB store behaves. The defaults suit nearly everyone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long one call may take with everything that is tried again, at least a second. A commit whose outcome is
    /// in doubt may take several times as long.
    pub call_timeout: Duration,
    /// How new must be what is read.
    pub consistency: Consistency,
    /// Regions to go to, nearest first, by the names that Azure gives them. Empty is the account's own order.
    pub preferred_regions: Vec<String>,
    /// How often totals are written, if they have changed.
    pub tally_interval: Duration,
    /// Whether the certificate of an emulator on this machine may be self-signed. Of any other server it never may.
    pub trust_local_emulator: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(10),
            consistency: Consistency::Session,
            preferred_regions: Vec::new(),
            tally_interval: Duration::from_secs(5),
            trust_local_emulator: false,
        }
    }
}

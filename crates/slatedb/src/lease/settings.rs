//! Settings of leases: plain data.

use super::Error;
use std::time::Duration;

/// How leases behave. The defaults suit almost every use; all processes of a bucket should have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a lease lasts after its last renewal, from 1 s to 1 h. Without its owner, a shard is not served for about so
    /// long. Other processes go by the length that is written in the lease, not by their own.
    pub length: Duration,
    /// How often the owner renews its lease.
    pub renew_every: Duration,
    /// How long before the end of its lease the owner stops serving. Must be more than the clocks of two machines can drift
    /// apart within a lease.
    pub margin: Duration,
    /// How often a standby looks at the lease: one GET each.
    pub look_every: Duration,
    /// After how long a request counts as failed.
    pub request_timeout: Duration,
    /// By how much two times of modification may be wrong relative to each other: their resolution is a second, and they
    /// may come from different machines of the object store. With [`Duration::MAX`] they are not compared, and a process that
    /// begins waits for a lease's length even if the owner died long ago.
    pub bucket_clock_error: Duration,
}

/// The limits of [`Settings::length`], and of the length in a lease that another process has written.
pub(super) const SHORTEST: Duration = Duration::from_secs(1);
pub(super) const LONGEST: Duration = Duration::from_secs(3_600);

impl Settings {
    /// Leases of this length, with everything else in proportion.
    pub fn of_length(length: Duration) -> Self {
        Self {
            length,
            renew_every: length / 3,
            margin: length / 10,
            look_every: Duration::from_secs(1),
            request_timeout: length / 6,
            bucket_clock_error: Duration::from_secs(5),
        }
    }

    /// When a lease ends for its owner if its last renewal was sent at `sent`.
    pub(super) fn deadline(&self, sent: Duration) -> Duration {
        (sent + self.length).saturating_sub(self.margin)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |why: &str| Err(Error::Settings(why.to_owned()));
        if self.length < SHORTEST || self.length > LONGEST {
            return wrong("the length must be from 1 s to 1 h");
        }
        let times = [self.renew_every, self.margin, self.look_every, self.request_timeout];
        if times.iter().any(Duration::is_zero) {
            return wrong("only bucket_clock_error may be zero");
        }
        let needed = self.request_timeout.saturating_mul(2).saturating_add(self.renew_every);
        if needed.saturating_add(self.margin) > self.length {
            return wrong(
                "a renewal that times out could not be repeated in time: renew_every, margin and twice the request_timeout must \
                 fit into the length",
            );
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::of_length(Duration::from_secs(30))
    }
}

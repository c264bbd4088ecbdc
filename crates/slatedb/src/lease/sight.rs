//! What a candidate has seen of the lease, and for how long it has not changed.

use super::document::State;
use super::mutation::mutant;
use super::object::{Found, Look};
use std::time::Duration;

/// What a candidate has seen of the lease. Times are of its own boot clock.
#[derive(Debug, Default)]
pub(super) enum Sight {
    /// No lease, ever.
    #[default]
    Nothing,
    Lease {
        found: Box<Found>,
        /// When this version was first seen.
        since: Duration,
        /// How long it had not changed before, by the clock of the object store.
        before: Duration,
    },
    /// There was a lease of this length, and then there was none.
    Gone { since: Duration, length: Duration },
}

/// Whether the lease may be taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Free,
    /// In so long at the earliest, if it does not change.
    Wait(Duration),
}

impl Sight {
    /// Takes in a look that ended at `now`.
    pub(super) fn note(&mut self, look: Look, now: Duration) {
        match look {
            Look::Unchanged => {}
            Look::Found(found) => {
                let is_known = self.found().is_some_and(|known| {
                    known.version == found.version && known.document.nonce == found.document.nonce
                });
                if !is_known {
                    *self = Self::Lease {
                        found,
                        since: now,
                        before: Duration::ZERO,
                    };
                }
            }
            Look::Absent => {
                if let Self::Lease { found, .. } = self {
                    *self = match found.document.state {
                        State::Released => Self::Nothing,
                        State::Held => Self::Gone {
                            since: now,
                            length: found.document.length(),
                        },
                    };
                }
            }
        }
    }

    /// Takes in that the clock of the object store said `bucket_ms` at some time before `now`. Two times of this clock may be
    /// wrong by `error`.
    pub(super) fn compare(&mut self, bucket_ms: i64, error: Duration, now: Duration) {
        let Self::Lease { found, since, before } = self else {
            return;
        };
        let age_ms = u64::try_from(bucket_ms.saturating_sub(found.modified_ms)).unwrap_or_default();
        let age = Duration::from_millis(age_ms).saturating_sub(error);
        let known = *before + now.saturating_sub(*since);
        if age > known {
            (*since, *before) = (now, age);
        }
    }

    /// The lease that was seen last.
    pub(super) fn found(&self) -> Option<&Found> {
        match self {
            Self::Lease { found, .. } => Some(found),
            Self::Nothing | Self::Gone { .. } => None,
        }
    }

    /// How long the lease is known to have been left unchanged.
    pub(super) fn unchanged_for(&self, now: Duration) -> Duration {
        match self {
            Self::Nothing => Duration::ZERO,
            Self::Lease { since, before, .. } => *before + now.saturating_sub(*since),
            Self::Gone { since, .. } => now.saturating_sub(*since),
        }
    }

    /// Whether the lease may be taken now. `is_ours` says whether an owner was an incarnation of this process that has ended.
    pub(super) fn verdict(&self, now: Duration, is_ours: impl Fn(&str) -> bool) -> Verdict {
        let length = match self {
            Self::Nothing => return Verdict::Free,
            Self::Gone { length, .. } => *length,
            Self::Lease { found, .. } => {
                let document = &found.document;
                if document.state == State::Released || is_ours(&document.owner.incarnation) {
                    return Verdict::Free;
                }
                document.length()
            }
        };
        match mutant!(TakeEarly, length / 2, length).saturating_sub(self.unchanged_for(now)) {
            Duration::ZERO => Verdict::Free,
            left => Verdict::Wait(left),
        }
    }
}

//! Why a store could not do what was requested: a closed set, so that an engine can handle each case.

use std::time::Duration;

/// Shorthand for the results of stores.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the condition of an operation did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictReason {
    /// The record exists and must not.
    Exists,
    /// The record does not exist and must.
    Missing,
    /// The record is at another version.
    Changed,
}

impl std::fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Exists => "the record exists already",
            Self::Missing => "the record does not exist",
            Self::Changed => "the record was changed since it was read",
        })
    }
}

/// What went wrong in a store. None of these ever holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A condition did not hold; the commit changed nothing.
    #[error("operation {op} of the commit did not apply: {reason}")]
    Conflict {
        /// The index of the operation, from 0.
        op: usize,
        /// Why.
        reason: ConflictReason,
    },
    /// The server demands a pause; nothing happened.
    #[error("the store demands a wait of {} ms before the next request", .retry_after.as_millis())]
    Throttled {
        /// How long to wait.
        retry_after: Duration,
    },
    /// The store cannot be reached or cannot work now; nothing happened.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The reply was lost: the commit may have happened or not. Only reading the records can tell.
    #[error("the outcome of the commit is unknown: {0}")]
    UnknownOutcome(String),
    /// More operations or bytes than one commit or record may have; nothing happened.
    #[error("{what} is {actual}, more than this store's limit of {limit}")]
    TooLarge {
        /// What was measured.
        what: &'static str,
        /// How much there was.
        actual: usize,
        /// How much there may be.
        limit: usize,
    },
    /// Another process has taken the store over; this handle is dead.
    #[error("another process has taken over the store: {0}")]
    Fenced(String),
    /// This handle was closed, or broke for good; nothing happened, and only opening the store again helps.
    #[error("this handle of the store takes no more requests: {0}")]
    Closed(String),
    /// Stored bytes could not be decoded.
    #[error("stored data is damaged or from another version: {0}")]
    Corrupt(String),
    /// The commit breaks a rule of the contract; nothing happened.
    #[error("the request is not valid: {0}")]
    Invalid(String),
}

impl Error {
    /// Whether the same request may succeed if it is repeated later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Throttled { .. } | Self::Unavailable(_) | Self::UnknownOutcome(_)
        )
    }
}

//! Why a lease could not be acquired or used, and what to do about it.

use super::document::FORMAT;
use super::{Ended, Owner};
use std::time::Duration;

/// Why a lease could not be acquired or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process owns the shard.
    #[error(
        "{bucket} is owned by {owner}, since {since} (generation {generation}); it last renewed its lease {}. Stop that process, \
         or open the store as a standby, which waits until the owner is gone",
        ago(*.unchanged_for)
    )]
    Owned {
        /// The store.
        bucket: String,
        /// The owner.
        owner: Box<Owner>,
        /// Since when, by the wall clock of the owner.
        since: String,
        /// How often the lease has been taken.
        generation: u64,
        /// For how long the lease is known to have been left unchanged.
        unchanged_for: Duration,
    },
    /// The bucket refuses this program.
    #[error(
        "{bucket} refuses this program access to {path} ({why}); an owner needs the rights to list the bucket and to read, write and \
         delete objects under the prefix: check the credentials and the rights of their identity"
    )]
    Denied {
        /// The store.
        bucket: String,
        /// The object.
        path: String,
        /// What the object store said.
        why: String,
    },
    /// The bucket does not exist.
    #[error(
        "{bucket} cannot be written, because the bucket or container does not exist ({why}); create it, or correct the name"
    )]
    NoBucket {
        /// The store.
        bucket: String,
        /// What the object store said.
        why: String,
    },
    /// The object store cannot do what is needed.
    #[error(
        "{bucket} is on an object store that cannot replace an object on condition of its version ({why}); use one that can"
    )]
    Unsupported {
        /// The store.
        bucket: String,
        /// What is missing.
        why: String,
    },
    /// A newer program wrote the lease.
    #[error(
        "the lease object {path} of {bucket} has format {found}, this program knows formats up to {FORMAT}; nothing was changed, use \
         the newer version of the program"
    )]
    NewerFormat {
        /// The store.
        bucket: String,
        /// The object.
        path: String,
        /// Its format.
        found: u32,
    },
    /// The lease cannot be understood.
    #[error(
        "the lease object {path} of {bucket} cannot be understood ({why}); nothing was changed. Make sure that no process uses the \
         store, then delete that one object and open the store again: nothing is lost with it"
    )]
    Damaged {
        /// The store.
        bucket: String,
        /// The object.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The bucket does not respond as it should.
    #[error("{bucket} cannot be reached ({why}); check the network, the end point and the region, then try again")]
    Unavailable {
        /// The store.
        bucket: String,
        /// The last failure.
        why: String,
    },
    /// The lease is not held any more.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The lease may not have been released. It runs out by itself.
    #[error("the lease of {bucket} could not be released ({why}); it runs out by itself")]
    NotReleased {
        /// The store.
        bucket: String,
        /// Why not.
        why: String,
    },
    /// The owner wants too much to be shown.
    #[error(
        "a lease object may have {} bytes, this one would have {bytes}; show less",
        super::document::MOST_BYTES
    )]
    TooLarge {
        /// How large the object would be.
        bytes: usize,
    },
    /// The settings do not fit together.
    #[error("the settings of leases are wrong: {0}")]
    Settings(String),
    /// The runtime of the candidate has ended.
    #[error("the runtime on which leases are acquired has ended; open the store again")]
    Stopped,
}

/// A length of time that has passed, for people.
fn ago(time: Duration) -> String {
    match time.as_secs() {
        0 => "less than a second ago".to_owned(),
        1 => "a second ago".to_owned(),
        seconds => format!("{seconds} seconds ago"),
    }
}

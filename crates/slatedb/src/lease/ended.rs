//! Why a lease ended.

use super::Owner;

/// Why a lease is not held any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// Its owner released it.
    #[error("the lease was released")]
    Released,
    /// Its owner dropped it without releasing it. It runs out by itself.
    #[error("the lease was dropped; it runs out by itself")]
    Dropped,
    /// It could not be renewed in time.
    #[error("the lease could not be renewed in time ({why}); the shard is not served any more")]
    Expired {
        /// Why not.
        why: String,
    },
    /// Another process has taken over.
    #[error("{owner} has taken over the lease (generation {generation})")]
    TakenOver {
        /// The new owner.
        owner: Owner,
        /// How often the lease has been taken.
        generation: u64,
    },
    /// The lease object was deleted.
    #[error("the lease object was deleted while this process held it; leave it alone while a process uses the store")]
    Deleted,
    /// The lease object cannot be understood any more.
    #[error("the lease object was changed by another program: {0}")]
    Unreadable(String),
    /// The runtime on which it was renewed has ended.
    #[error("the runtime that renews the lease has ended")]
    Stopped,
}

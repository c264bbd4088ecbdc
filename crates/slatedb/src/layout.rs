//! The names of objects.
//!
//! | object | what it is |
//! |---|---|
//! | `PREFIX/perennial.json` | the format, and the proof that the object store honours conditions |
//! | `PREFIX/0/lease` | who owns the shard |
//! | `PREFIX/0/lease-probe` | written to learn the time of the object store's clock |
//! | `PREFIX/0/db/…` | its SlateDB database |
//! | `PREFIX/0/inbox/INCARNATION/N` | the messages of a client |
//! | `PREFIX/0/inbox-quarantine/…` | messages that could not be applied |
//! | `PREFIX/0/bell` | changes when a client has left a message |

use crate::Bucket;
use object_store::path::Path;
use std::fmt;

/// A part of a store with one owner. There is one so far; its number is in every path, so that there can be more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(pub u16);

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Bucket {
    /// The lease of a shard's owner.
    pub(crate) fn lease(&self, shard: Shard) -> Path {
        self.shard(shard).join("lease")
    }

    /// An object that is written to learn the time of the object store's clock.
    pub(crate) fn lease_probe(&self, shard: Shard) -> Path {
        self.shard(shard).join("lease-probe")
    }

    /// The database of a shard.
    pub(crate) fn database(&self, shard: Shard) -> Path {
        self.shard(shard).join("db")
    }

    /// The messages of all clients of a shard.
    pub(crate) fn inbox(&self, shard: Shard) -> Path {
        self.shard(shard).join("inbox")
    }

    /// Messages that could not be applied.
    pub(crate) fn quarantine(&self, shard: Shard) -> Path {
        self.shard(shard).join("inbox-quarantine")
    }

    /// The object that changes when a client has left a message.
    pub(crate) fn bell(&self, shard: Shard) -> Path {
        self.shard(shard).join("bell")
    }
}

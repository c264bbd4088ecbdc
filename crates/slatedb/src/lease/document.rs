//! The content of a lease object: JSON for people.

use super::settings::{LONGEST, SHORTEST};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// The format that this program writes, and the newest that it knows.
pub(super) const FORMAT: u32 = 1;

/// How large a lease object may become by what its owner shows.
pub(super) const MOST_BYTES: usize = 64 * 1024;

/// How large a lease object may be at all. A larger one was not written by any version of this program.
pub(super) const MOST_BYTES_READ: u64 = 1024 * 1024;

/// The content of a lease object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The format of the object.
    pub format: u32,
    /// Whether the shard is owned.
    pub state: State,
    /// How often the lease has been taken, from 1.
    pub generation: u64,
    /// The owner, or the last one if the lease was released.
    pub owner: Owner,
    /// Since when the owner has had the lease, by its own wall clock.
    pub since: String,
    /// How long the lease lasts after its last renewal, in milliseconds.
    pub lease_ms: u64,
    /// Never the same twice, so that no two versions of the object are equal.
    pub nonce: String,
    /// What the owner wants to be known.
    #[serde(flatten)]
    pub shown: Shown,
    /// What a newer program has written. It is kept.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Whether a shard is owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is, unless the lease has run out.
    Held,
    /// The owner has given it up.
    Released,
}

/// A process that owns a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The name of its host.
    pub host: String,
    /// The id of the process.
    pub process: u32,
    /// A random number of 128 bits, another one each time that a process takes the lease.
    pub incarnation: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on host {:?}", self.process, self.host)
    }
}

/// What an owner wants to be known, by its successor and by people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The writer epoch of the database, as far as it is known. A successor inherits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_epoch: Option<u64>,
    /// Anything else. A successor finds it in [`Held::predecessor`](super::Held::predecessor), and begins with nothing.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

/// Why a lease object cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A newer program wrote it, in this format.
    Newer(u32),
    /// It is not what any program writes.
    Damaged(String),
}

/// The part that every format has.
#[derive(Deserialize)]
struct Header {
    format: u32,
}

impl Document {
    /// The content for an owner that takes the lease, free or left over as `base`.
    pub(super) fn taken(base: Option<&Self>, owner: Owner, since: String, length: Duration, nonce: String) -> Self {
        Self {
            format: FORMAT,
            state: State::Held,
            generation: base.map_or(0, |base| base.generation) + 1,
            owner,
            since,
            lease_ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
            nonce,
            shown: Shown {
                writer_epoch: base.and_then(|base| base.shown.writer_epoch),
                details: Map::new(),
            },
            unknown: base.map(|base| base.unknown.clone()).unwrap_or_default(),
        }
    }

    /// How long the lease lasts after its last renewal.
    pub fn length(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub(super) fn encode(&self) -> Result<Bytes, serde_json::Error> {
        serde_json::to_vec_pretty(self).map(Bytes::from)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let damaged = |error: serde_json::Error| Unreadable::Damaged(error.to_string());
        let header: Header = serde_json::from_slice(bytes).map_err(damaged)?;
        if header.format > FORMAT {
            return Err(Unreadable::Newer(header.format));
        }
        let document: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        match document.length() {
            length if length < SHORTEST || length > LONGEST => {
                let why = format!("a lease lasts from 1 s to 1 h, not {} ms", document.lease_ms);
                Err(Unreadable::Damaged(why))
            }
            _ => Ok(document),
        }
    }
}

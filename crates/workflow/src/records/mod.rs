//! What an instance's partition holds: one module per kind of record.
//!
//! | id | record | written |
//! |---|---|---|
//! | `head` | [`head::Head`] | by every turn |
//! | `page/<execution>/<turn>` | [`page::Page`]: the events of one turn | by a turn that has events |
//! | `exec/<execution>` | [`execution::Ended`] | when an execution ends or is followed by another |
//! | `kv/<key>` | [`kv::Entry`] | when a turn changes the key |
//! | `status` | [`custom_status::CustomStatus`] | when a turn changes it |
//! | `msg/<order>` | [`envelope::Envelope`] in a queue | by the sender of the message |
//! | `msg/<order>/<tag>` | the same, from another instance's outbox; when consumed perhaps [`tomb::Tomb`] in lane `chores` | by the delivery of the intent |
//! | `out/<order>` | [`intent::Body`] in lane `chores` | by a turn that sends a message to another partition |
//! | `redo/<turn>` | [`redo::Redo`]: what is left to do | by a turn that is larger than a commit |
//! | `work/<execution>/<activity>/<order>` | [`envelope::Envelope`] in a queue | by the turn that schedules the activity |
//!
//! On a shared store, ids of queued records end in the name of the process that made them, and sessions and processes have
//! partitions of their own, see [`session`] and [`member`].

pub mod chore;
pub mod custom_status;
pub mod envelope;
pub mod execution;
pub mod head;
pub mod intent;
pub mod kv;
pub mod lanes;
pub mod member;
pub mod message;
pub mod page;
pub mod redo;
pub mod session;
pub mod tomb;
pub mod work;

use bytes::Bytes;
use perennial_store::{Error, Key, Partition, Record, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

const PREFIX: &str = "wf:";

/// The partition of an instance.
pub fn partition(instance: &str) -> Partition {
    Partition::new(format!("{PREFIX}{instance}"))
}

/// The instance that owns a partition.
pub fn instance_of(partition: &Partition) -> &str {
    partition
        .as_str()
        .strip_prefix(PREFIX)
        .unwrap_or_else(|| partition.as_str())
}

/// A record's body.
pub fn encode<T: Serialize>(value: &T) -> Result<Bytes> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|e| Error::Invalid(format!("a record cannot be encoded: {e}")))
}

/// Reads a record's body.
pub fn decode<T: DeserializeOwned>(record: &Record) -> Result<T> {
    decode_body(&record.key, &record.body)
}

/// Reads the body of the record at `key`.
pub fn decode_body<T: DeserializeOwned>(key: &Key, body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|e| Error::Corrupt(format!("record {key} cannot be read: {e}")))
}

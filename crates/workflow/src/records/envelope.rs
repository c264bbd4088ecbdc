//! The envelope around a queued work item of the runtime.

use super::{decode, encode};
use bytes::Bytes;
use duroxide::providers::WorkItem;
use perennial_store::{Key, Partition, Record, RecordId, Result};
use serde::{Deserialize, Serialize};

/// The intent that a message came from, see [`super::intent`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentRef {
    /// The partition of the sender.
    pub partition: String,
    /// The id of the intent in it.
    pub id: String,
}

impl IntentRef {
    /// Names an intent.
    pub fn of(intent: &Key) -> Self {
        Self {
            partition: intent.partition.as_str().to_string(),
            id: intent.id.as_str().to_string(),
        }
    }

    /// Where the intent is, or was.
    pub fn key(&self) -> Key {
        Key::new(
            Partition::new(self.partition.as_str()),
            RecordId::from_raw(self.id.as_str()),
        )
    }
}

/// A work item and how often it was handed out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Envelope {
    /// The item.
    pub item: WorkItem,
    /// How often it was handed out before, as far as that was recorded.
    #[serde(default)]
    pub attempts: u32,
    /// The intent that it came from, if it came through an outbox.
    #[serde(default)]
    pub from: Option<IntentRef>,
}

#[derive(Serialize)]
struct Borrowed<'a> {
    item: &'a WorkItem,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a IntentRef>,
    /// The process that has claimed it: makes the claims of two processes differ in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
}

impl Envelope {
    /// The body of a record that holds `item`.
    pub fn body(item: &WorkItem, attempts: u32, owner: Option<&str>) -> Result<Bytes> {
        let from = None;
        encode(&Borrowed {
            item,
            attempts,
            from,
            owner,
        })
    }

    /// The body of a record that holds `item`, which came from an intent or not.
    pub fn body_from(item: &WorkItem, attempts: u32, from: Option<&IntentRef>) -> Result<Bytes> {
        let owner = None;
        encode(&Borrowed {
            item,
            attempts,
            from,
            owner,
        })
    }

    /// Opens a record.
    pub fn open(record: &Record) -> Result<Self> {
        decode(record)
    }
}

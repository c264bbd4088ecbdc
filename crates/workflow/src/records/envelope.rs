//! The envelope around a work item of the runtime, as it stands in a queue.

use super::{decode, encode};
use bytes::Bytes;
use duroxide::providers::WorkItem;
use perennial_store::{Record, Result};
use serde::{Deserialize, Serialize};

/// A work item and how often it was handed out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Envelope {
    /// The item.
    pub item: WorkItem,
    /// How often it was handed out before, as far as that was written down.
    #[serde(default)]
    pub attempts: u32,
}

fn is_none(owner: &Option<&str>) -> bool {
    owner.is_none()
}

#[derive(Serialize)]
struct Borrowed<'a> {
    item: &'a WorkItem,
    attempts: u32,
    /// Who has claimed it: it makes the claims of two processes differ, whatever else is the same.
    #[serde(skip_serializing_if = "is_none")]
    owner: Option<&'a str>,
}

impl Envelope {
    /// The body of a record that holds `item`.
    pub fn body(item: &WorkItem, attempts: u32, owner: Option<&str>) -> Result<Bytes> {
        encode(&Borrowed { item, attempts, owner })
    }

    /// Opens a record.
    pub fn open(record: &Record) -> Result<Self> {
        decode(record)
    }
}

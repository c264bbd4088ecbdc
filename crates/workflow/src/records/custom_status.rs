//! The custom status that a workflow shows to its clients.

use super::encode;
use perennial_store::{Draft, Key, Partition, RecordId, Result};
use serde::{Deserialize, Serialize};

/// The status and how often it was changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomStatus {
    /// The text; `None` after it was cleared.
    pub status: Option<String>,
    /// How often it was changed.
    pub version: u64,
}

impl CustomStatus {
    /// Where it is.
    pub fn key(partition: &Partition) -> Key {
        Key::new(partition.clone(), RecordId::of("status"))
    }

    /// The record to write.
    pub fn draft(&self, partition: &Partition) -> Result<Draft> {
        Ok(Draft::new(Self::key(partition), encode(self)?))
    }
}

//! Executions: one run of a workflow from its start to its end or to its continuation as new.

use super::encode;
use perennial_store::{Draft, Key, Partition, RecordId, Result};
use serde::{Deserialize, Serialize};

/// What is counted and known of an execution. The current one is part of the head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Its number.
    pub id: u64,
    /// `Running`, `Completed`, `Failed` or `ContinuedAsNew`.
    pub status: String,
    /// When its first turn was committed.
    pub started_ms: u64,
    /// When it ended.
    pub completed_ms: Option<u64>,
    /// The runtime version that its history belongs to.
    pub pinned: Option<semver::Version>,
    /// How many events its history has.
    pub events: u64,
    /// How many bytes those take as JSON.
    pub bytes: u64,
    /// The highest event id: a larger one cannot be a duplicate.
    pub last_event_id: u64,
    /// Whether an `exec` record of it exists.
    pub recorded: bool,
    /// Whether that record still says what is said here.
    pub fresh: bool,
}

impl Execution {
    /// An execution that has just begun.
    pub fn new(id: u64, now_ms: u64) -> Self {
        Self {
            id,
            status: "Running".to_string(),
            started_ms: now_ms,
            completed_ms: None,
            pinned: None,
            events: 0,
            bytes: 0,
            last_event_id: 0,
            recorded: false,
            fresh: false,
        }
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        self.status == "Running"
    }
}

/// The record of an execution that has ended or was followed by another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// As in the head.
    pub execution: Execution,
    /// Its result, error, or the input of its continuation.
    pub output: Option<String>,
}

impl Ended {
    /// The start of the ids of all executions.
    pub fn root() -> RecordId {
        RecordId::of("exec")
    }

    /// Where the record of an execution is.
    pub fn key(partition: &Partition, execution: u64) -> Key {
        Key::new(partition.clone(), Self::root().number(execution))
    }

    /// The record to write.
    pub fn draft(&self, partition: &Partition) -> Result<Draft> {
        Ok(Draft::new(Self::key(partition, self.execution.id), encode(self)?))
    }
}

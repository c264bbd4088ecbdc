//! What an ordered key-value engine must do to become a store.

use bytes::Bytes;
use std::io::{self, ErrorKind};

/// The tables that a store keeps in its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Records that neither queue nor list.
    Records,
    /// Records with a place in a queue. The only table that is read as a whole when a store opens.
    Queue,
    /// Records that are listed and do not queue.
    Listed,
    /// Keys by which listed records are found: by status, by parent, and those that queue.
    Index,
    /// The epoch, the totals, the number of the last written commit.
    Meta,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 5] = [Self::Records, Self::Queue, Self::Listed, Self::Index, Self::Meta];

    /// The name of the table on disk.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Queue => "queue",
            Self::Listed => "listed",
            Self::Index => "index",
            Self::Meta => "meta",
        }
    }
}

/// One change of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Write a value.
    Put {
        /// The table.
        table: Table,
        /// The key, never empty.
        key: Bytes,
        /// The value.
        value: Bytes,
    },
    /// Delete a key.
    Delete {
        /// The table.
        table: Table,
        /// The key, never empty.
        key: Bytes,
    },
}

impl Write {
    /// The table that changes.
    pub fn table(&self) -> Table {
        match self {
            Self::Put { table, .. } | Self::Delete { table, .. } => *table,
        }
    }

    /// The key that changes.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } => key,
        }
    }
}

/// Changes that all happen or none does. No key is named twice.
pub type Batch = Vec<Write>;

/// Keys from `from` up to but not including `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first key that may be met.
    pub from: Vec<u8>,
    /// The first key that is beyond; `None` has no end.
    pub to: Option<Vec<u8>>,
}

impl Span {
    /// Every key.
    pub fn all() -> Self {
        Self {
            from: Vec::new(),
            to: None,
        }
    }
}

/// Why an engine could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The disk or the operating system failed: in which way, and what it said.
    #[error("{1}")]
    Io(ErrorKind, String),
    /// What was asked for is damaged or cannot be read, while the rest of the store answers.
    #[error("{0}")]
    Corrupt(String),
    /// Another handle has taken the data over.
    #[error("{0}")]
    Fenced(String),
}

impl EngineError {
    /// What the operating system said.
    pub fn io(error: &io::Error) -> Self {
        Self::Io(error.kind(), error.to_string())
    }
}

/// An entry that a scan met: its key, and its value or why that cannot be read.
pub type Entry = (Bytes, Result<Bytes, String>);

/// A reader's view that later writes do not change.
pub trait View {
    /// The value of a key. [`EngineError::Corrupt`] if it, or the place where it would be, cannot be read.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// The first `limit` entries of a span, in order of their keys. A value that cannot be read does not end the scan;
    /// keys that cannot be read do, with [`EngineError::Corrupt`]: nobody could tell what is missing.
    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError>;
}

/// An ordered key-value engine: synchronous, with atomic batches over all tables.
///
/// Dropping the engine must let go of everything it holds: files, locks, threads.
pub trait OrderedKv: Send + Sync + 'static {
    /// The current value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// A view of the engine as it is now: of each batch it shows all or nothing.
    fn view(&self) -> Box<dyn View + '_>;

    /// Writes a batch, atomically. With `sync` it returns only when the batch, and every batch before it, survives
    /// a power cut, and readers do not see the batch earlier than that. An empty batch with `sync` makes
    /// earlier batches survive.
    fn write(&self, batch: Batch, sync: bool) -> Result<(), EngineError>;

    /// Whether a write is so quick that it is done in the caller's poll, without a committer thread.
    fn inline(&self) -> bool {
        false
    }

    /// The longest key that the engine takes, in bytes.
    fn key_limit(&self) -> usize {
        usize::MAX
    }
}

//! What an ordered key-value engine must provide to become a store.

use bytes::Bytes;
use std::io::{self, ErrorKind};
use tokio::runtime::Handle;

/// The tables that a store keeps in its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Records that are neither queued nor listed.
    Records,
    /// Queued records. The only table that is read as a whole when a store opens.
    Queue,
    /// Records that are listed and not queued.
    Listed,
    /// Keys by which listed records are found: by status, by parent, and the queued ones.
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
    /// The first key in the span.
    pub from: Vec<u8>,
    /// The first key beyond the span; `None` has no end.
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

/// Why an engine could not do what was requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The disk or the operating system failed: the kind of failure, and its message.
    #[error("{1}")]
    Io(ErrorKind, String),
    /// The requested data is damaged or unreadable, while the rest of the store works.
    #[error("{0}")]
    Corrupt(String),
    /// Another handle has taken the data over.
    #[error("{0}")]
    Fenced(String),
}

impl EngineError {
    /// An error of the operating system.
    pub fn io(error: &io::Error) -> Self {
        Self::Io(error.kind(), error.to_string())
    }
}

/// An entry of a scan: its key, and its value or why it cannot be read.
pub type Entry = (Bytes, Result<Bytes, String>);

/// A reader's view that later writes do not change.
pub trait View {
    /// The value of a key. [`EngineError::Corrupt`] if it, or the place where it would be, cannot be read.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// The values of these keys, in their order: one result for each, as [`get`](Self::get) returns it. An engine whose
    /// reads wait reads them all at the same time.
    fn get_many(&self, keys: &[(Table, Bytes)]) -> Vec<Result<Option<Bytes>, EngineError>> {
        keys.iter().map(|(table, key)| self.get(*table, key)).collect()
    }

    /// The first `limit` entries of a span, in order of their keys. A value that cannot be read does not end the scan;
    /// keys that cannot be read do, with [`EngineError::Corrupt`], because what is missing would be unknown.
    ///
    /// A table is read page by page through one view, each page from right behind the last key of the page before. So an
    /// engine may keep its place in the view, and read ahead.
    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError>;

    /// The first `limit` entries of each of these spans, in their order, as [`scan`](Self::scan) returns them. An engine
    /// whose reads wait scans them all at the same time.
    fn scan_many(&self, spans: &[(Table, &Span)], limit: usize) -> Result<Vec<Vec<Entry>>, EngineError> {
        spans
            .iter()
            .map(|(table, span)| self.scan(*table, span, limit))
            .collect()
    }
}

/// An ordered key-value engine: synchronous, with atomic batches over all tables.
///
/// An engine may be quick, such as a map in memory or files on a disk, or its reads may wait, such as those of an object
/// store. Then it names a runtime, see [`blocking`](Self::blocking), and blocks the thread on which it is called for as
/// long as it takes.
///
/// Dropping the engine must release everything it holds: files, locks, threads. The thread that writes drops it, when all
/// reads have returned.
pub trait OrderedKv: Send + Sync + 'static {
    /// The current value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// A view of the engine as it is now: it shows all or nothing of each batch.
    fn view(&self) -> Box<dyn View + '_>;

    /// Writes a batch, atomically. When it has returned, every later read and view shows the batch. With `sync` it returns
    /// only when the batch and every batch before it survive a power cut, and readers do not see the batch earlier than
    /// that. An empty batch with `sync` makes earlier batches durable.
    ///
    /// It is called by one thread, which may wait: never by a caller of the store, unless the engine is
    /// [inline](Self::inline).
    fn write(&self, batch: Batch, sync: bool) -> Result<(), EngineError>;

    /// Whether reads and writes are so quick that they run in the caller's poll and under a lock, without a committer
    /// thread. Such an engine is a map in memory.
    fn inline(&self) -> bool {
        false
    }

    /// The runtime whose blocking threads call this engine's reads, because they may wait. `None`: they are quick, and run
    /// where they are needed.
    ///
    /// Never more than [`Settings::blocking_reads`](crate::Settings::blocking_reads) of its threads are used at a time. If
    /// the engine needs blocking threads of this runtime itself, it must have more.
    fn blocking(&self) -> Option<&Handle> {
        None
    }

    /// The longest key that the engine takes, in bytes.
    fn key_limit(&self) -> usize {
        usize::MAX
    }
}

//! Names: partitions, record ids, and keys made of both.

use std::fmt;
use std::sync::Arc;

/// The unit of atomicity, named by any string: with quotes, slashes, line ends or emoji, a kilobyte long.
///
/// Stores encode the name as their database needs it; callers never escape it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(Arc<str>);

impl Partition {
    /// Names a partition.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a record inside its partition. Ids sort as byte strings, and scans return them in that order.
///
/// ```
/// use perennial_store::RecordId;
/// let first = RecordId::of("page").number(9);
/// let second = RecordId::of("page").number(10);
/// assert!(first < second, "numbers sort as numbers");
/// assert!(first.as_str().starts_with(RecordId::of("page").as_str()));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(Arc<str>);

impl RecordId {
    /// Wraps a complete id that a store returned.
    pub fn from_raw(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id of a record that is the only one of its kind, and the prefix of every id of that kind.
    pub fn of(kind: &str) -> Self {
        Self(kind.into())
    }

    /// This id followed by a number, padded so that ids sort by it.
    #[must_use]
    pub fn number(&self, n: u64) -> Self {
        Self(format!("{}/{n:016x}", self.0).into())
    }

    /// This id followed by a text.
    #[must_use]
    pub fn text(&self, text: &str) -> Self {
        Self(format!("{}/{text}", self.0).into())
    }

    /// The rest of this id after `parent/`, if it starts with that.
    pub fn below(&self, parent: &RecordId) -> Option<&str> {
        self.0.strip_prefix(parent.as_str())?.strip_prefix('/')
    }

    /// The id as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a record lives: its partition and its id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The partition.
    pub partition: Partition,
    /// The id inside the partition.
    pub id: RecordId,
}

impl Key {
    /// The key of a record in a partition.
    pub fn new(partition: Partition, id: RecordId) -> Self {
        Self { partition, id }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {:?}", self.id.as_str(), self.partition.as_str())
    }
}

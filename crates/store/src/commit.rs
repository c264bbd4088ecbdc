//! What a commit asks for and what it returns.

use crate::{Counter, Draft, Key, Version};

/// One operation of a commit. A commit names each key at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Write a record that must not exist.
    Create(Draft),
    /// Write a record whatever was there.
    Put(Draft),
    /// Write a record over the one that is at this version.
    Replace(Draft, Version),
    /// Delete a record that is at this version.
    Delete(Key, Version),
    /// Delete a record if it is there.
    Remove(Key),
    /// Change nothing, but fail the commit if there is such a record.
    Absent(Key),
}

impl Op {
    /// The key that this operation is about.
    pub fn key(&self) -> &Key {
        match self {
            Op::Create(draft) | Op::Put(draft) | Op::Replace(draft, _) => &draft.key,
            Op::Delete(key, _) | Op::Remove(key) | Op::Absent(key) => key,
        }
    }

    /// What this operation writes, if it writes.
    pub fn draft(&self) -> Option<&Draft> {
        match self {
            Op::Create(draft) | Op::Put(draft) | Op::Replace(draft, _) => Some(draft),
            Op::Delete(..) | Op::Remove(_) | Op::Absent(_) => None,
        }
    }
}

/// When a commit is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it survives a power cut.
    #[default]
    Durable,
    /// When it is ordered before every later commit. A crash may take it back, but never without taking back
    /// every later commit too. Stores that are shared by many processes treat it as [`Durability::Durable`].
    Relaxed,
}

/// Operations that all happen or none does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The operations; on most stores all in one partition, see [`crate::Limits::partitions_per_commit`].
    pub ops: Vec<Op>,
    /// Totals to add to.
    pub counters: Vec<(Counter, i64)>,
    /// When to answer.
    pub durability: Durability,
}

impl Commit {
    /// A durable commit of these operations.
    pub fn new(ops: Vec<Op>) -> Self {
        Self { ops, ..Self::default() }
    }

    /// The same commit, answered as soon as it is ordered.
    #[must_use]
    pub fn relaxed(mut self) -> Self {
        self.durability = Durability::Relaxed;
        self
    }

    /// The same commit, adding to a total.
    #[must_use]
    pub fn count(mut self, counter: Counter, delta: i64) -> Self {
        if delta != 0 {
            self.counters.push((counter, delta));
        }
        self
    }
}

/// What a commit made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// For each operation the version that it wrote. `None` where it wrote nothing; also where it did, if the reply was lost
    /// and somebody has written over it before anybody looked.
    pub versions: Vec<Option<Version>>,
    /// Whether this was found out after the reply was lost, and by nothing but that the records are gone which were to be
    /// deleted. On a shared store another process may have deleted them.
    pub inferred: bool,
}

impl Committed {
    /// A commit that was answered, with the versions that its operations wrote.
    pub fn of(versions: Vec<Option<Version>>) -> Self {
        Self {
            versions,
            inferred: false,
        }
    }

    /// The version that operation `op` wrote.
    pub fn version(&self, op: usize) -> Option<&Version> {
        self.versions.get(op)?.as_ref()
    }
}

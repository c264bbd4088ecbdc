//! What a commit requests and what it returns.

use crate::{Counter, Draft, Error, Key, Result, Version};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One operation of a commit. A commit names each key at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Write a record that must not exist.
    Create(Draft),
    /// Write a record, whether or not there is one already.
    Put(Draft),
    /// Replace the record that is at this version.
    Replace(Draft, Version),
    /// Delete the record that is at this version.
    Delete(Key, Version),
    /// Delete a record if there is one.
    Remove(Key),
    /// Change nothing, but fail the commit if the record exists.
    Absent(Key),
}

impl Op {
    /// The key of the record that this operation concerns.
    pub fn key(&self) -> &Key {
        match self {
            Op::Create(draft) | Op::Put(draft) | Op::Replace(draft, _) => &draft.key,
            Op::Delete(key, _) | Op::Remove(key) | Op::Absent(key) => key,
        }
    }

    /// The record that this operation writes, if it writes one.
    pub fn draft(&self) -> Option<&Draft> {
        match self {
            Op::Create(draft) | Op::Put(draft) | Op::Replace(draft, _) => Some(draft),
            Op::Delete(..) | Op::Remove(_) | Op::Absent(_) => None,
        }
    }
}

/// When a commit returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Once it survives a power cut.
    #[default]
    Durable,
    /// Once it is ordered before every later commit. A crash may undo it, but never without undoing every later commit
    /// too. Stores that are shared by many processes treat it as [`Durability::Durable`].
    Relaxed,
}

/// Operations that all happen or none does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The operations. On most stores all of them must be in one partition, see
    /// [`crate::Limits::partitions_per_commit`].
    pub ops: Vec<Op>,
    /// Totals to add to.
    pub counters: Vec<(Counter, i64)>,
    /// When to return.
    pub durability: Durability,
}

impl Commit {
    /// A durable commit of these operations.
    pub fn new(ops: Vec<Op>) -> Self {
        Self { ops, ..Self::default() }
    }

    /// The same commit, returning as soon as it is ordered.
    #[must_use]
    pub fn relaxed(mut self) -> Self {
        self.durability = Durability::Relaxed;
        self
    }

    /// The same commit, also adding to a total.
    #[must_use]
    pub fn count(mut self, counter: Counter, delta: i64) -> Self {
        if delta != 0 {
            self.counters.push((counter, delta));
        }
        self
    }
}

/// The result of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// For each operation the version that it wrote. `None` where it wrote nothing; also where the reply was lost and
    /// another commit had overwritten the record before it could be read back.
    pub versions: Vec<Option<Version>>,
    /// Whether the reply was lost and the only evidence for the commit is that the records it was to delete are gone.
    /// On a shared store another process may have deleted them.
    pub inferred: bool,
}

impl Committed {
    /// The result of a commit whose reply arrived, with the versions that its operations wrote.
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

/// Is called once with the result of a commit that was [ordered](crate::Store::order): when it is durable, or when it is known
/// that it will not be.
pub type OnDurable = Box<dyn FnOnce(Result<Committed>) + Send>;

/// Makes the call of a commit that was [ordered](crate::Store::order). A call that panics is logged: it must end neither the
/// store nor the caller of another commit.
pub fn call_on_durable(on_durable: OnDurable, outcome: Result<Committed>) {
    if catch_unwind(AssertUnwindSafe(|| on_durable(outcome))).is_err() {
        tracing::error!("a call after a commit panicked");
    }
}

/// A commit that was not ordered, and never will be.
pub struct Refused {
    /// Why.
    pub error: Error,
    /// The call, which was not made: for another try.
    pub on_durable: OnDurable,
}

impl Refused {
    /// Ends an [order](crate::Store::order) that was carried out as a commit: makes the call, or refuses.
    pub fn or_call(outcome: Result<Committed>, on_durable: OnDurable) -> std::result::Result<(), Self> {
        match outcome {
            Ok(committed) => {
                call_on_durable(on_durable, Ok(committed));
                Ok(())
            }
            Err(error) => Err(Self { error, on_durable }),
        }
    }
}

impl std::fmt::Debug for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Refused").field(&self.error).finish()
    }
}

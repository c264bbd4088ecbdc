//! What can be done for a commit before it is ordered: check limits, encode.

use crate::due::Item;
use crate::{Table, keys, value};
use bytes::{Bytes, BytesMut};
use perennial_store::{Commit, Counter, Draft, Durability, Error, Limits, Op, Result, Slot, Version};
use std::collections::HashSet;

/// The condition of an operation on the existing record.
pub(crate) enum Condition {
    Anything,
    Absent,
    /// This version; `None` is a version that no record of this store ever has.
    At(Option<u64>),
}

/// What an operation does.
pub(crate) enum Effect {
    Nothing,
    Delete,
    Write(Encoded),
}

/// A draft, encoded except for its version.
pub(crate) struct Encoded {
    pub(crate) table: Table,
    pub(crate) value: BytesMut,
    pub(crate) index: Vec<Bytes>,
    /// Its place in a queue, the version not yet set.
    pub(crate) item: Option<Item>,
}

pub(crate) struct PreparedOp {
    pub(crate) key: Bytes,
    pub(crate) condition: Condition,
    pub(crate) effect: Effect,
}

/// A commit within the limits, as bytes.
pub(crate) struct Prepared {
    pub(crate) ops: Vec<PreparedOp>,
    pub(crate) counters: Vec<(Counter, i64)>,
    pub(crate) durability: Durability,
}

impl Prepared {
    /// The keys of the records that it names.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.ops.iter().map(|op| &op.key)
    }
}

/// Checks the limits and encodes the records.
pub(crate) fn prepare(commit: Commit, limits: &Limits, key_limit: usize) -> Result<Prepared> {
    check_limits(&commit, limits)?;
    let mut ops = Vec::with_capacity(commit.ops.len());
    for op in commit.ops {
        ops.push(prepare_op(op));
    }
    check_keys(&ops, key_limit)?;
    Ok(Prepared {
        ops,
        counters: commit.counters,
        durability: commit.durability,
    })
}

fn at(version: &Version) -> Condition {
    Condition::At(version.as_number())
}

fn prepare_op(op: Op) -> PreparedOp {
    let key = keys::record(op.key());
    let (condition, effect) = match &op {
        Op::Create(draft) => (Condition::Absent, write(&key, draft)),
        Op::Put(draft) => (Condition::Anything, write(&key, draft)),
        Op::Replace(draft, version) => (at(version), write(&key, draft)),
        Op::Delete(_, version) => (at(version), Effect::Delete),
        Op::Remove(_) => (Condition::Anything, Effect::Delete),
        Op::Absent(_) => (Condition::Absent, Effect::Nothing),
    };
    PreparedOp { key, condition, effect }
}

fn write(key: &Bytes, draft: &Draft) -> Effect {
    let index = match &draft.listing {
        Some(listing) => keys::index(key, listing, draft.place.is_some()),
        None => Vec::new(),
    };
    let item = draft.place.as_ref().map(|place| Item {
        key: key.clone(),
        slot: Slot::of(&draft.key.partition),
        place: place.clone(),
        version: 0,
        index: index.clone(),
    });
    let table = match (&draft.place, &draft.listing) {
        (Some(_), _) => Table::Queue,
        (None, Some(_)) => Table::Listed,
        (None, None) => Table::Records,
    };
    Effect::Write(Encoded {
        table,
        value: value::encode(draft),
        index,
        item,
    })
}

fn check_limits(commit: &Commit, limits: &Limits) -> Result<()> {
    let within = |what, actual, limit| match actual > limit {
        true => Err(Error::TooLarge { what, actual, limit }),
        false => Ok(()),
    };
    within(
        "the number of operations in the commit",
        commit.ops.len(),
        limits.ops_per_commit,
    )?;
    let mut bytes = 0;
    for draft in commit.ops.iter().filter_map(Op::draft) {
        let length = draft.body.len();
        within("the size of a record in bytes", length, limits.bytes_per_record)?;
        bytes += length;
    }
    within("the size of the commit in bytes", bytes, limits.bytes_per_commit)?;
    if limits.partitions_per_commit < commit.ops.len() {
        let partitions: HashSet<_> = commit.ops.iter().map(|op| &op.key().partition).collect();
        within(
            "the number of partitions in the commit",
            partitions.len(),
            limits.partitions_per_commit,
        )?;
    }
    Ok(())
}

/// Up to this many keys are compared with each other instead of hashed.
const FEW_OPS: usize = 16;

fn check_keys(ops: &[PreparedOp], key_limit: usize) -> Result<()> {
    let mut seen = HashSet::with_capacity(if ops.len() > FEW_OPS { ops.len() } else { 0 });
    for (at, op) in ops.iter().enumerate() {
        let index = match &op.effect {
            Effect::Write(encoded) => encoded.index.as_slice(),
            _ => &[],
        };
        let longest = index.iter().map(Bytes::len).max().unwrap_or(0).max(op.key.len());
        if longest > key_limit {
            return Err(Error::TooLarge {
                what: "the length of a record's names in bytes",
                actual: longest,
                limit: key_limit,
            });
        }
        let is_new = match ops.len() > FEW_OPS {
            true => seen.insert(&op.key),
            false => !ops.iter().take(at).any(|earlier| earlier.key == op.key),
        };
        if !is_new {
            let key = keys::parse(&op.key).map_or_else(String::new, |key| key.to_string());
            return Err(Error::Invalid(format!("the commit names the record {key} twice")));
        }
    }
    Ok(())
}

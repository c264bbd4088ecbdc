//! The store's own data: its epoch, its totals and the number of the last written commit.

use crate::value::{put_varint, take_varint};
use crate::{Batch, EngineError, OrderedKv, Table, View, Write};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use perennial_store::Counter;
use std::borrow::Cow;
use std::collections::BTreeMap;

const EPOCH: &[u8] = b"epoch";
const GROUP: &[u8] = b"group";

pub(crate) type Totals = BTreeMap<Counter, i64>;

/// What every group writes about the store as a whole.
#[derive(Default)]
pub(crate) struct Group {
    /// The number of the last commit that is in the engine.
    pub(crate) last: u64,
    /// The number of the last commit that was known to be synced when the group was written.
    pub(crate) synced: u64,
    pub(crate) totals: Totals,
}

/// How far a store had come when it wrote a group, for engines that repair their own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of the last commit of the group.
    pub last: u64,
    /// The number of the last commit that was synced before the group was written.
    pub synced: u64,
}

impl Progress {
    /// The progress in a write, if it is the write of a group or of a new epoch. Commits of an epoch are numbered from
    /// its own number on; which commits were synced before it began, the write does not say.
    pub fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        if key == EPOCH {
            let epoch = u64::from_le_bytes(value.try_into().ok()?);
            let last = epoch.checked_mul(1 << 40)?;
            return Some(Self { last, synced: 0 });
        }
        if key != GROUP {
            return None;
        }
        let group = Group::decode(Bytes::copy_from_slice(value))?;
        Some(Self {
            last: group.last,
            synced: group.synced,
        })
    }
}

/// Moves the store into a new epoch, durably, and returns it.
pub(crate) fn next_epoch(engine: &impl OrderedKv) -> Result<u64, EngineError> {
    let epoch = match engine.get(Table::Meta, EPOCH)? {
        None => 1,
        Some(bytes) => {
            let bytes = <[u8; 8]>::try_from(bytes.as_ref())
                .map_err(|_| EngineError::Corrupt("the epoch of the store is damaged".to_owned()))?;
            u64::from_le_bytes(bytes) + 1
        }
    };
    let write = Write::Put {
        table: Table::Meta,
        key: Bytes::from_static(EPOCH),
        value: Bytes::copy_from_slice(&epoch.to_le_bytes()),
    };
    engine.write(Batch::from([write]), true)?;
    Ok(epoch)
}

impl Group {
    pub(crate) fn write(&self) -> Write {
        let length = |counter: &Counter| counter.0.len() + 16;
        let mut value = BytesMut::with_capacity(16 + self.totals.keys().map(length).sum::<usize>());
        value.put_u64_le(self.last);
        value.put_u64_le(self.synced);
        for (counter, total) in &self.totals {
            put_varint(&mut value, counter.0.len() as u64);
            value.put_slice(counter.0.as_bytes());
            value.put_i64_le(*total);
        }
        Write::Put {
            table: Table::Meta,
            key: Bytes::from_static(GROUP),
            value: value.freeze(),
        }
    }

    pub(crate) fn read(view: &dyn View) -> Result<Self, EngineError> {
        let Some(value) = view.get(Table::Meta, GROUP)? else {
            return Ok(Self::default());
        };
        Self::decode(value).ok_or_else(|| EngineError::Corrupt("the totals of the store are damaged".to_owned()))
    }

    fn decode(mut value: Bytes) -> Option<Self> {
        if value.len() < 16 {
            return None;
        }
        let mut group = Self {
            last: value.get_u64_le(),
            synced: value.get_u64_le(),
            totals: Totals::new(),
        };
        while value.has_remaining() {
            let length = usize::try_from(take_varint(&mut value).ok()?).ok()?;
            if value.len() < length.checked_add(8)? {
                return None;
            }
            let name = String::from_utf8(value.split_to(length).to_vec()).ok()?;
            group.totals.insert(Counter(Cow::Owned(name)), value.get_i64_le());
        }
        Some(group)
    }
}

/// Adds changes to totals. A total of 0 takes no room.
pub(crate) fn add(totals: &mut Totals, deltas: &[(Counter, i64)]) {
    for (counter, delta) in deltas {
        let total = totals.entry(counter.clone()).or_default();
        *total = total.saturating_add(*delta);
        if *total == 0 {
            totals.remove(counter);
        }
    }
}

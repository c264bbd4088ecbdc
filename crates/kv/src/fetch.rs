//! Reading what a commit must know of its records and memory does not.

use crate::bounded::{too_few, view};
use crate::known::Known;
use crate::lookup::Found;
use crate::prepare::PreparedOp;
use crate::{EngineError, OrderedKv, Table, View};
use bytes::Bytes;
use std::sync::Arc;

/// The tables in which a record may be that is not in memory: all that is queued is.
const TABLES: [Table; 2] = [Table::Records, Table::Listed];

type Value = Result<Option<Bytes>, EngineError>;

/// Reads the records of a commit that are unread.
pub(crate) fn fetch<E: OrderedKv>(engine: &E, ops: &[PreparedOp], found: &mut [Found]) {
    let unread = ops
        .iter()
        .zip(found)
        .filter(|(_, found)| matches!(found, Found::Unread));
    if engine.blocking().is_none() {
        for (op, found) in unread {
            *found = combine(&op.key, TABLES.map(|table| (table, move || engine.get(table, &op.key))));
        }
        return;
    }
    let mut unread: Vec<_> = unread.collect();
    let keys: Vec<_> = unread
        .iter()
        .flat_map(|(op, _)| TABLES.map(|table| (table, op.key.clone())))
        .collect();
    let mut values = view(engine).get_many(&keys).into_iter();
    for (op, found) in &mut unread {
        let values = TABLES.map(|table| {
            let value = values.next().unwrap_or_else(|| Err(too_few()));
            (table, move || value)
        });
        **found = combine(&op.key, values);
    }
}

/// What the tables say of a record, of which those are read that must be. It is in one of them only: a table that cannot be
/// read does not matter if another one has the record.
fn combine<const N: usize>(key: &Bytes, tables: [(Table, impl FnOnce() -> Value); N]) -> Found {
    let mut doubtful = None;
    for (table, read) in tables {
        match read() {
            Ok(None) => {}
            Ok(Some(value)) => return Found::Known(Some(Arc::new(Known::of(table, key, value)))),
            Err(EngineError::Corrupt(_)) => doubtful = doubtful.or(Some(table)),
            Err(error) => return Found::Failed(error),
        }
    }
    Found::Known(doubtful.map(|table| Arc::new(Known::damaged(table, true))))
}

//! What memory knows of the records of a commit, and whether its conditions hold.

use crate::known::Known;
use crate::prepare::{Condition, Prepared, PreparedOp};
use crate::state::State;
use crate::store::{closed, engine_error};
use crate::{EngineError, Table, keys};
use bytes::Bytes;
use perennial_store::{ConflictReason, Error, Result};
use std::sync::Arc;

/// What a commit found of one of its records.
pub(crate) enum Found {
    /// Its state as of all commits accepted so far; `None` if it does not exist.
    Known(Option<Arc<Known>>),
    /// Nothing: memory does not know it, so it must be read.
    Unread,
    /// It could not be read.
    Failed(EngineError),
}

/// What a commit found in memory, record by record.
pub(crate) enum Lookup {
    /// All that it must know: its conditions hold.
    Complete(Vec<Found>),
    /// Too little: some records must be read before its conditions can be checked.
    Incomplete(Vec<Found>),
}

impl State {
    /// Whether commits are accepted.
    pub(crate) fn check_open(&self) -> Result<()> {
        match &self.closed {
            _ if self.ended.is_some() => Err(closed()),
            Some(closed) => Err(closed.error()),
            None => Ok(()),
        }
    }

    /// What memory knows of the records of a commit. Fails if that is enough to refuse it.
    pub(crate) fn look_up_all(&self, prepared: &Prepared) -> Result<Lookup> {
        let mut all = Vec::with_capacity(prepared.ops.len());
        let mut is_complete = true;
        for (op, prepared) in prepared.ops.iter().enumerate() {
            let found = self.look_up(&prepared.key);
            match &found {
                Found::Known(known) if is_complete => check(op, prepared, known.as_deref())?,
                // The first operation that does not apply is named, and that may be one whose record must be read.
                Found::Known(_) => {}
                Found::Unread | Found::Failed(_) => is_complete = false,
            }
            all.push(found);
        }
        Ok(match is_complete {
            true => Lookup::Complete(all),
            false => Lookup::Incomplete(all),
        })
    }

    /// What memory knows of a record as of all commits accepted so far.
    fn look_up(&self, key: &Bytes) -> Found {
        if let Some(unwritten) = self.unwritten.get(key) {
            return Found::Known(unwritten.known.clone());
        }
        if let Some(known) = self.recent.get(key) {
            return Found::Known(Some(known.clone()));
        }
        if let Some(item) = self.due.get(key) {
            return Found::Known(Some(Arc::new(Known {
                table: Table::Queue,
                version: Some(item.version),
                is_doubtful: false,
                index: item.index.clone(),
            })));
        }
        if self.damaged.contains(key) {
            return Found::Known(Some(Arc::new(Known::damaged(Table::Queue, false))));
        }
        Found::Unread
    }

    /// Whether memory agrees with what a commit found before it read the other records, as far as memory knows. It need not
    /// know any more what it knew then.
    pub(crate) fn is_unchanged(&self, prepared: &Prepared, found: &[Found]) -> bool {
        let is_same = |before: &Known, now: &Known| {
            // A queued record may have been found to be unreadable.
            before.version == now.version || (now.table == Table::Queue && now.version.is_none())
        };
        prepared
            .ops
            .iter()
            .zip(found)
            .all(|(op, before)| match (before, self.look_up(&op.key)) {
                (Found::Known(None), Found::Known(now)) => now.is_none(),
                (Found::Known(Some(before)), Found::Known(now)) => now.is_some_and(|now| is_same(before, &now)),
                (before, _) => matches!(before, Found::Known(_)),
            })
    }
}

/// Fails with the first operation of a commit that does not apply, by what was found of all its records.
pub(crate) fn check_all(prepared: &Prepared, found: &[Found]) -> Result<()> {
    for (op, (prepared, found)) in prepared.ops.iter().zip(found).enumerate() {
        match found {
            Found::Known(known) => check(op, prepared, known.as_deref())?,
            Found::Failed(error) => return Err(engine_error(error.clone())),
            // The engine is gone.
            Found::Unread => return Err(closed()),
        }
    }
    Ok(())
}

fn check(op: usize, prepared: &PreparedOp, known: Option<&Known>) -> Result<()> {
    let unreadable = || {
        let key = keys::parse(&prepared.key).map_or_else(String::new, |key| key.to_string());
        Err(Error::Corrupt(format!("the record {key} cannot be read")))
    };
    let reason = match (&prepared.condition, known) {
        (Condition::Anything, _) | (Condition::Absent, None) => return Ok(()),
        (Condition::Absent, Some(known)) if known.is_doubtful => return unreadable(),
        (Condition::Absent, Some(_)) => ConflictReason::Exists,
        (Condition::At(_), None) => ConflictReason::Missing,
        (Condition::At(_), Some(Known { version: None, .. })) => return unreadable(),
        (Condition::At(version), Some(known)) if *version == known.version => return Ok(()),
        (Condition::At(_), Some(_)) => ConflictReason::Changed,
    };
    Err(Error::Conflict { op, reason })
}

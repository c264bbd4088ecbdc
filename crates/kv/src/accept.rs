//! Accepting a commit: its conditions are checked, its versions assigned, its place in the order fixed.

use crate::known::Known;
use crate::prepare::{Condition, Effect, Encoded, Prepared, PreparedOp};
use crate::state::{Accepted, Change, Reply, State, Ticket};
use crate::store::engine_error;
use crate::{EngineError, OrderedKv, Table, Write, keys, value};
use bytes::Bytes;
use perennial_store::{Committed, ConflictReason, Durability, Error, Result, Version};
use std::sync::Arc;

impl State {
    /// Accepts a commit, or returns the operation that does not apply. Changes nothing but the version counter.
    pub(crate) fn accept(&mut self, engine: &impl OrderedKv, prepared: Prepared) -> Result<(Accepted, Committed)> {
        if let Some(closed) = &self.closed {
            return Err(closed.error());
        }
        let mut found = Vec::with_capacity(prepared.ops.len());
        for (op, prepared) in prepared.ops.iter().enumerate() {
            let known = match (&prepared.condition, &prepared.effect) {
                (Condition::Anything, Effect::Nothing) => None,
                _ => self.look_up(engine, &prepared.key)?,
            };
            check(op, prepared, known.as_deref())?;
            found.push(known);
        }
        let mut accepted = Accepted {
            seq: 0,
            writes: Vec::with_capacity(prepared.ops.len() + 1),
            changes: Vec::with_capacity(prepared.ops.len()),
            counters: prepared.counters,
            durable: prepared.durability == Durability::Durable,
            published: false,
            reply: Reply::None,
            bytes: 0,
        };
        let mut versions = Vec::with_capacity(prepared.ops.len());
        for (op, known) in prepared.ops.into_iter().zip(found) {
            let version = match op.effect {
                Effect::Nothing => None,
                Effect::Delete => {
                    if let Some(known) = known {
                        accepted.delete(op.key, &known);
                    }
                    None
                }
                Effect::Write(encoded) => {
                    self.last_version += 1;
                    accepted.put(op.key, encoded, known.as_deref(), self.last_version);
                    Some(Version::number(self.last_version))
                }
            };
            versions.push(version);
        }
        self.last_version += 1;
        accepted.seq = self.last_version;
        Ok((accepted, Committed::of(versions)))
    }

    /// What is known of a record as of all commits accepted so far.
    fn look_up(&self, engine: &impl OrderedKv, key: &Bytes) -> Result<Option<Arc<Known>>> {
        if let Some(unwritten) = self.unwritten.get(key) {
            return Ok(unwritten.known.clone());
        }
        if let Some(known) = self.recent.get(key) {
            return Ok(Some(known.clone()));
        }
        if let Some(item) = self.due.get(key) {
            return Ok(Some(Arc::new(Known {
                table: Table::Queue,
                version: Some(item.version),
                is_doubtful: false,
                index: item.index.clone(),
            })));
        }
        if self.damaged.contains(key) {
            return Ok(Some(Arc::new(damaged(Table::Queue, false))));
        }
        // A record is in one table only: a table that cannot be read does not matter if another one has the record.
        let mut doubtful = None;
        for table in [Table::Records, Table::Listed] {
            match engine.get(table, key) {
                Ok(None) => {}
                Ok(Some(value)) => return Ok(Some(Arc::new(know(table, key, value)))),
                Err(EngineError::Corrupt(_)) => doubtful = doubtful.or(Some(table)),
                Err(error) => return Err(engine_error(error)),
            }
        }
        Ok(doubtful.map(|table| Arc::new(damaged(table, true))))
    }
}

/// What is known of a record that cannot be read. It can be overwritten and removed.
fn damaged(table: Table, is_doubtful: bool) -> Known {
    Known {
        table,
        version: None,
        is_doubtful,
        index: Vec::new(),
    }
}

fn know(table: Table, key: &Bytes, value: Bytes) -> Known {
    if table == Table::Records {
        return Known {
            version: value::version(&value),
            ..damaged(table, false)
        };
    }
    match value::decode(value) {
        Ok(stored) => Known {
            table,
            version: Some(stored.version),
            is_doubtful: false,
            index: stored
                .listing
                .map_or_else(Vec::new, |listing| keys::index(key, &listing, false)),
        },
        Err(_) => damaged(table, false),
    }
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

impl Accepted {
    /// A commit of nothing, which completes when everything before it is written.
    pub(crate) fn barrier(seq: u64, ticket: Ticket) -> Self {
        Self {
            seq,
            writes: Vec::new(),
            changes: Vec::new(),
            counters: Vec::new(),
            durable: false,
            published: true,
            reply: Reply::Ticket(ticket),
            bytes: 0,
        }
    }

    fn delete(&mut self, key: Bytes, known: &Known) {
        self.bytes += key.len();
        self.writes.push(Write::Delete {
            table: known.table,
            key: key.clone(),
        });
        for index in &known.index {
            self.unindex(index);
        }
        self.changes.push(Change {
            key,
            known: None,
            item: None,
        });
    }

    fn put(&mut self, key: Bytes, mut encoded: Encoded, known: Option<&Known>, version: u64) {
        value::set_version(&mut encoded.value, version);
        self.bytes += key.len() + encoded.value.len();
        let old_index = known.map_or(&[][..], |known| &known.index);
        if let Some(known) = known.filter(|known| known.table != encoded.table) {
            self.writes.push(Write::Delete {
                table: known.table,
                key: key.clone(),
            });
        }
        self.writes.push(Write::Put {
            table: encoded.table,
            key: key.clone(),
            value: encoded.value.freeze(),
        });
        for index in old_index.iter().filter(|index| !encoded.index.contains(index)) {
            self.unindex(index);
        }
        for index in encoded.index.iter().filter(|index| !old_index.contains(index)) {
            self.writes.push(Write::Put {
                table: Table::Index,
                key: index.clone(),
                value: Bytes::new(),
            });
        }
        self.changes.push(Change {
            key,
            known: Some(Arc::new(Known {
                table: encoded.table,
                version: Some(version),
                is_doubtful: false,
                index: encoded.index,
            })),
            item: encoded.item.map(|mut item| {
                item.version = version;
                Arc::new(item)
            }),
        });
    }

    fn unindex(&mut self, index: &Bytes) {
        self.writes.push(Write::Delete {
            table: Table::Index,
            key: index.clone(),
        });
    }
}

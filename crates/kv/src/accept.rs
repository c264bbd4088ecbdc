//! Accepting a commit: its versions are assigned, its place in the order is fixed.

use crate::known::Known;
use crate::lookup::Found;
use crate::prepare::{Effect, Encoded, Prepared};
use crate::state::{Accepted, Change, Reply, State, Ticket};
use crate::{Table, Write, value};
use bytes::Bytes;
use perennial_store::{Committed, Durability, Version};
use std::sync::Arc;

impl State {
    /// Accepts a commit whose conditions hold.
    pub(crate) fn accept(&mut self, prepared: Prepared, found: Vec<Found>) -> (Accepted, Committed) {
        debug_assert!(
            self.is_unchanged(&prepared, &found),
            "a record changed after it was read"
        );
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
        for (op, found) in prepared.ops.into_iter().zip(found) {
            let known = match found {
                Found::Known(known) => known,
                Found::Unread | Found::Failed(_) => None,
            };
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
        (accepted, Committed::of(versions))
    }
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

//! What is left to do of a turn that is larger than a commit.

use super::{decode, encode};
use perennial_store::{Draft, Error, Key, Lane, Listing, Op, Order, Partition, Place, Record, RecordId, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// The operations that did not fit, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redo {
    ops: Vec<Step>,
}

/// An operation without a condition of its own: it is fenced by the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    Put {
        id: String,
        body: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<Spot>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        listing: Option<Box<Attributes>>,
    },
    Remove {
        id: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Spot {
    lane: String,
    topic: Option<String>,
    order: u64,
    due_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Attributes {
    kind: String,
    status: String,
    name: String,
    parent: Option<String>,
    created_ms: u64,
    completed_ms: Option<u64>,
}

impl Redo {
    /// Records operations that have no condition but that a record does not exist yet.
    pub fn new(ops: &[Op]) -> Result<Self> {
        let ops = ops.iter().map(Step::of).collect::<Result<_>>()?;
        Ok(Self { ops })
    }

    /// The operations.
    pub fn ops(self, partition: &Partition) -> Vec<Op> {
        self.ops.into_iter().map(|step| step.op(partition)).collect()
    }

    /// Where the record of a turn is.
    pub fn key(partition: &Partition, turn: u64) -> Key {
        Key::new(partition.clone(), RecordId::of("redo").number(turn))
    }

    /// The record to write.
    pub fn draft(&self, key: Key) -> Result<Draft> {
        Ok(Draft::new(key, encode(self)?))
    }

    /// Opens a record.
    pub fn open(record: &Record) -> Result<Self> {
        decode(record)
    }
}

impl Step {
    fn of(op: &Op) -> Result<Self> {
        match op {
            Op::Create(draft) | Op::Put(draft) => {
                let body = String::from_utf8(draft.body.to_vec());
                Ok(Self::Put {
                    id: draft.key.id.as_str().to_string(),
                    body: body.map_err(|_| Error::Invalid(format!("the record {} is not text", draft.key)))?,
                    place: draft.place.as_ref().map(Spot::of),
                    listing: draft.listing.as_ref().map(|listing| Box::new(Attributes::of(listing))),
                })
            }
            Op::Remove(key) => Ok(Self::Remove {
                id: key.id.as_str().to_string(),
            }),
            Op::Replace(..) | Op::Delete(..) | Op::Absent(_) => {
                let why = format!("an operation on {} has a condition and cannot be made later", op.key());
                Err(Error::Invalid(why))
            }
        }
    }

    fn op(self, partition: &Partition) -> Op {
        let key = |id: String| Key::new(partition.clone(), RecordId::from_raw(id));
        match self {
            Self::Put {
                id,
                body,
                place,
                listing,
            } => Op::Put(Draft {
                key: key(id),
                body: body.into(),
                place: place.map(Spot::place),
                listing: listing.map(|listing| listing.listing()),
            }),
            Self::Remove { id } => Op::Remove(key(id)),
        }
    }
}

impl Spot {
    fn of(place: &Place) -> Self {
        Self {
            lane: place.lane.name.to_string(),
            topic: place.lane.topic.as_deref().map(str::to_string),
            order: place.order.0,
            due_ms: place.due_ms,
        }
    }

    fn place(self) -> Place {
        Place {
            lane: Lane {
                name: Cow::Owned(self.lane),
                topic: self.topic.map(Arc::from),
            },
            order: Order(self.order),
            due_ms: self.due_ms,
        }
    }
}

impl Attributes {
    fn of(listing: &Listing) -> Self {
        Self {
            kind: listing.kind.to_string(),
            status: listing.status.to_string(),
            name: listing.name.clone(),
            parent: listing.parent.clone(),
            created_ms: listing.created_ms,
            completed_ms: listing.completed_ms,
        }
    }

    fn listing(self) -> Listing {
        Listing {
            kind: Cow::Owned(self.kind),
            status: Cow::Owned(self.status),
            name: self.name,
            parent: self.parent,
            created_ms: self.created_ms,
            completed_ms: self.completed_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perennial_store::Version;

    #[test]
    fn operations_come_back_as_they_went() {
        let partition = Partition::new("p");
        let key = |id: &str| Key::new(partition.clone(), RecordId::of("kv").text(id));
        let place = Place {
            lane: Lane::topic("work", Some(Arc::from("gpu"))),
            order: Order(7),
            due_ms: 9,
        };
        let listing = Listing {
            kind: "kind".into(),
            status: "Running".into(),
            name: "\"name\"".to_string(),
            parent: Some("parent".to_string()),
            created_ms: 1,
            completed_ms: None,
        };
        let put = Draft::new(key("ä/\n"), "{\"a\": 1}").placed(place).listed(listing);
        let ops = vec![Op::Put(put.clone()), Op::Remove(key("b"))];
        let record = Record {
            key: Redo::key(&partition, 3),
            version: Version::number(1),
            body: Redo::new(&ops).unwrap().draft(Redo::key(&partition, 3)).unwrap().body,
            place: None,
            listing: None,
        };
        assert_eq!(Redo::open(&record).unwrap().ops(&partition), ops);
        assert!(Redo::new(&[Op::Replace(put, Version::number(1))]).is_err());
    }
}

//! The lane `chores`: what remains to be done after a commit.

use perennial_store::{DueQuery, Lane, Order, Place, Record, Topics};
use std::sync::Arc;

/// The lane of chores.
pub const LANE: &str = "chores";

/// A kind of chore: a topic of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Roll a turn forward.
    Redo,
    /// Carry a deletion out, or cancel it.
    Deletion,
    /// Deliver an intent.
    Outbox,
    /// Remove a tombstone.
    Tombs,
    /// Remove the record of a session without an owner.
    Sessions,
    /// Remove a lease on an instance that does not exist.
    PhantomLeases,
    /// Note a process that works on the store.
    Members,
    /// Remove parts of a large body that no record refers to.
    Parts,
}

impl Topic {
    /// All of them, in the order in which they are done when a store is opened.
    pub const ALL: [Self; 8] = [
        Self::Redo,
        Self::Deletion,
        Self::Outbox,
        Self::Tombs,
        Self::Sessions,
        Self::PhantomLeases,
        Self::Members,
        Self::Parts,
    ];

    /// Its name in the lane.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redo => "redo",
            Self::Deletion => "condemned",
            Self::Outbox => "outbox",
            Self::Tombs => "tombs",
            Self::Sessions => "sessions",
            Self::PhantomLeases => "strays",
            Self::Members => "members",
            Self::Parts => "parts",
        }
    }

    /// Its lane and topic.
    pub fn lane(self) -> Lane {
        Lane::topic(LANE, Some(Arc::from(self.name())))
    }
}

/// The place of a chore that is due at `due_ms`.
pub fn place(topic: Topic, order: Order, due_ms: u64) -> Place {
    Place {
        lane: topic.lane(),
        order,
        due_ms,
    }
}

/// The first `limit` chores of these kinds that are due at `until_ms`. Other topics of the lane belong to other engines, or
/// to later versions of this one, and are not even read.
pub fn due(topics: &[Topic], until_ms: u64, limit: usize) -> DueQuery {
    let names = topics.iter().map(|topic| Arc::from(topic.name()));
    DueQuery {
        topics: Topics::These {
            topics: names.collect(),
            default: false,
        },
        ..DueQuery::new(&Lane::new(LANE), until_ms, limit)
    }
}

/// The kind of chore that a record is; `None` if it is none.
pub fn topic_of(record: &Record) -> Option<Topic> {
    let lane = &record.place.as_ref()?.lane;
    let topic = lane.topic.as_deref().filter(|_| lane.name == LANE)?;
    Topic::ALL.into_iter().find(|known| known.name() == topic)
}

//! Chores: what a process owes to the store after a commit, written down so that others do it if this process dies.
//!
//! Every chore is a record in the lane `chores`, and due only when the process that owes it has had its time. Doing a
//! chore twice, or two processes doing it at once, changes nothing: each step is conditional, or the same every time.

mod housekeeper;

pub use housekeeper::{Housekeeper, round};

use crate::admin::two_phase_delete;
use crate::engine::Engine;
use crate::outbox;
use crate::records::instance_of;
use crate::redo;
use crate::shared;
use perennial_store::{DueQuery, Error, Lane, Order, Place, Record, Result, Slot, Topics};
use std::collections::BTreeSet;
use std::sync::Arc;
use tracing::warn;

/// The queue of chores.
pub const LANE: &str = "chores";

const PAGE: usize = 100;

/// What is to be done; a topic of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Roll a turn forward.
    Redo,
    /// Carry a deletion out, or take it back.
    Deletion,
    /// Deliver an intent.
    Outbox,
    /// Remove a tombstone.
    Tombs,
    /// Remove the record of a session that nobody holds.
    Sessions,
    /// Remove a claim on an instance that is not there.
    PhantomLeases,
    /// Take note of a process that works on the store.
    Members,
    /// Remove parts of a large body that no record refers to.
    Parts,
}

impl Topic {
    /// All of them, in the order in which a store that is opened needs them.
    const ALL: [Self; 8] = [
        Self::Redo,
        Self::Deletion,
        Self::Outbox,
        Self::Tombs,
        Self::Sessions,
        Self::PhantomLeases,
        Self::Members,
        Self::Parts,
    ];

    const fn name(self) -> &'static str {
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
}

/// Where a chore stands that is due at `due_ms`.
pub fn place(topic: Topic, order: Order, due_ms: u64) -> Place {
    Place {
        lane: Lane::topic(LANE, Some(Arc::from(topic.name()))),
        order,
        due_ms,
    }
}

/// What is to be done with a record; `None` if it is no chore.
pub fn topic_of(record: &Record) -> Option<Topic> {
    let lane = &record.place.as_ref()?.lane;
    let topic = lane.topic.as_deref().filter(|_| lane.name == LANE)?;
    Topic::ALL.into_iter().find(|known| known.name() == topic)
}

/// Does a chore that is due, or finds that it is done.
pub async fn run(engine: &Arc<Engine>, record: Record) -> Result<()> {
    match topic_of(&record) {
        Some(Topic::Outbox | Topic::Tombs) => outbox::chore(engine, record).await,
        Some(Topic::Redo) => {
            redo::finish(engine, &record.key.partition).await?;
            engine
                .cache
                .forget(instance_of(&record.key.partition), Slot::of(&record.key.partition));
            Ok(())
        }
        Some(Topic::Parts) => engine.parts.sweep(&record.key).await.map(drop),
        Some(Topic::PhantomLeases) => shared::turn::forget_phantom(engine, record).await,
        Some(Topic::Members) => engine.mode.meet(engine, record).await,
        Some(Topic::Sessions) => shared::work::forget_session(engine, record).await,
        Some(Topic::Deletion) => two_phase_delete::chore(engine, record).await,
        // A chore of a later version of perennial: that one does it.
        None => Ok(()),
    }
}

/// Does every chore there is, due or not: the store belongs to this process, which has just opened it and not yet filled
/// its board.
pub async fn run_all(engine: &Arc<Engine>) -> Result<()> {
    for topic in Topic::ALL {
        let mut query = DueQuery {
            topics: Topics::These {
                topics: BTreeSet::from([Arc::from(topic.name())]),
                default: false,
            },
            ..DueQuery::new(&Lane::new(LANE), u64::MAX, PAGE)
        };
        loop {
            let page = engine.store.due(&query).await?;
            query.after = page.end();
            for record in page.records {
                engine
                    .orders
                    .pass(record.place.as_ref().map_or(Order(0), |place| place.order));
                let key = record.key.clone();
                match run(engine, record).await {
                    Err(Error::Corrupt(why)) => warn!(%key, why, "a chore cannot be understood: it is left alone"),
                    outcome => outcome?,
                }
            }
            if !page.more {
                break;
            }
        }
    }
    Ok(())
}

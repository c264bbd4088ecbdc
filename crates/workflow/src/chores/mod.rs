//! Chores: what remains to be done after a commit, recorded so that another process does it if this one dies.
//!
//! Every chore is a record in the lane `chores`, due only after the process that owes it has had time to do it. Doing a
//! chore twice, or in two processes at once, is harmless: each step is conditional or idempotent.

mod housekeeper;

pub use housekeeper::{Housekeeper, round};

use crate::admin::two_phase_delete;
use crate::engine::Engine;
use crate::outbox;
use crate::records::chore::{self, Topic, topic_of};
use crate::records::instance_of;
use crate::redo;
use crate::shared;
use crate::tuning::CHORES_PAGE;
use perennial_store::{Error, Order, Record, Result, Slot};
use std::sync::Arc;
use tracing::warn;

/// Does a chore that is due, if it is not done already.
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
        // No chore of this engine: `chore::due` does not ask for it.
        None => Ok(()),
    }
}

/// Does every chore, due or not. For a process that has just opened a store of its own and has not filled its board yet.
pub async fn run_all(engine: &Arc<Engine>) -> Result<()> {
    for topic in Topic::ALL {
        let mut query = chore::due(&[topic], u64::MAX, CHORES_PAGE);
        loop {
            let page = engine.store.due(&query).await?;
            query.after = page.end();
            for record in page.records {
                engine
                    .orders
                    .pass(record.place.as_ref().map_or(Order(0), |place| place.order));
                let key = record.key.clone();
                match run(engine, record).await {
                    Err(Error::Corrupt(why)) => warn!(%key, why, "a chore cannot be read: it is left alone"),
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

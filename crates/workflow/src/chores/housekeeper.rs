//! The housekeeper: a task that does due chores. It does not run while there are none.

use super::run;
use crate::engine::Engine;
use crate::lazy_task::LazyTask;
use crate::records::chore::{self, Topic};
use crate::tuning::{CHORES_EXCLUSIVE_EVERY, CHORES_PAGE};
use perennial_store::{Clock, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use tracing::warn;

/// A task that runs from the first chore that is left for later until the last one is done.
#[derive(Default)]
pub struct Housekeeper {
    task: LazyTask,
    /// Whether a chore was left since its last round.
    is_called: AtomicBool,
}

impl Housekeeper {
    /// Notes that a chore was left for later.
    pub fn call(&self, engine: &Arc<Engine>) {
        // Where there is a poller, it does the chores, too.
        if engine.mode.polls_chores() || engine.is_closed() {
            return;
        }
        self.is_called.store(true, Ordering::Release);
        let clock = Arc::clone(&engine.clock);
        let run = || keep_house(Arc::downgrade(engine), clock);
        self.task.start(engine.spawner, run);
    }
}

async fn keep_house(engine: Weak<Engine>, clock: Arc<dyn Clock>) {
    loop {
        clock.sleep(CHORES_EXCLUSIVE_EVERY).await;
        let Some(engine) = engine.upgrade().filter(|engine| !engine.is_closed()) else {
            return;
        };
        let Housekeeper { task, is_called } = &engine.housekeeper;
        is_called.store(false, Ordering::Release);
        match round(&engine).await {
            Ok(false) if task.may_end(|| !is_called.load(Ordering::Acquire)) => return,
            Ok(_) => {}
            Err(error) => warn!(%error, "chores could not be looked for; looking again later"),
        }
    }
}

/// Does what is due; returns whether any chore is left.
pub async fn round(engine: &Arc<Engine>) -> Result<bool> {
    let mut query = chore::due(&Topic::ALL, engine.clock.now_ms(), CHORES_PAGE);
    loop {
        let page = engine.store.due(&query).await?;
        query.after = page.end();
        for record in page.records {
            if engine.is_closed() {
                return Ok(true);
            }
            let key = record.key.clone();
            if let Err(error) = run(engine, record).await {
                warn!(%key, %error, "a chore could not be done; trying again later");
            }
        }
        if !page.more {
            break;
        }
    }
    if engine.mode.polls_chores() {
        return Ok(true);
    }
    let any = engine.store.due(&chore::due(&Topic::ALL, u64::MAX, 1)).await?;
    Ok(!any.records.is_empty())
}

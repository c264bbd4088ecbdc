//! The housekeeper: a task that does due chores. It does not run while there are none.

use super::run;
use crate::engine::Engine;
use crate::records::chore::{self, Topic};
use crate::tuning::{CHORES_EXCLUSIVE_EVERY, CHORES_PAGE};
use futures::FutureExt;
use futures::future::{AbortHandle, abortable};
use parking_lot::Mutex;
use perennial_store::{Clock, Result};
use std::sync::{Arc, Weak};
use tracing::warn;

/// A task that runs from the first chore that is left for later until the last one is done.
#[derive(Default)]
pub struct Housekeeper(Mutex<State>);

#[derive(Default)]
struct State {
    task: Option<AbortHandle>,
    /// Whether a chore was left since its last round.
    called: bool,
}

impl Housekeeper {
    /// Notes that a chore was left for later.
    pub fn call(&self, engine: &Arc<Engine>) {
        if engine.mode.polls_chores() {
            // The poller that queries for work does the chores, too.
            return;
        }
        let mut state = self.0.lock();
        state.called = true;
        if state.task.is_none() && !engine.is_closed() {
            let clock = Arc::clone(&engine.clock);
            let (task, handle) = abortable(keep_house(Arc::downgrade(engine), clock));
            state.task = Some(handle);
            engine.spawner.spawn(task.map(drop));
        }
    }

    /// Ends the task.
    pub fn dismiss(&self) {
        if let Some(task) = self.0.lock().task.take() {
            task.abort();
        }
    }

    /// Whether no chore was left since the last round; then the task must end.
    fn may_go(&self) -> bool {
        let mut state = self.0.lock();
        if !state.called {
            state.task = None;
        }
        !state.called
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        self.dismiss();
    }
}

async fn keep_house(engine: Weak<Engine>, clock: Arc<dyn Clock>) {
    loop {
        clock.sleep(CHORES_EXCLUSIVE_EVERY).await;
        let Some(engine) = engine.upgrade().filter(|engine| !engine.is_closed()) else {
            return;
        };
        engine.housekeeper.0.lock().called = false;
        match round(&engine).await {
            Ok(false) if engine.housekeeper.may_go() => return,
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

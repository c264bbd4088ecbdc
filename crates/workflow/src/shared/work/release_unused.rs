//! Releasing activities that were claimed in advance for a worker that does not come.

use super::lease;
use crate::board::QueuedActivity;
use crate::engine::Engine;
use crate::lazy_task::LazyTask;
use crate::shared::Shared;
use crate::tuning::UNUSED_CLAIM_AFTER;
use perennial_store::{Clock, Order};
use std::sync::{Arc, Weak};
use tracing::debug;

/// The task that releases claims for which no worker comes.
#[derive(Default)]
pub struct ReservationReaper(LazyTask);

impl ReservationReaper {
    /// Activities were claimed in advance: they are released unless their workers come.
    pub fn start(&self, engine: &Arc<Engine>, shared: &Arc<Shared>) {
        let clock = Arc::clone(&engine.clock);
        let run = || run(Arc::downgrade(engine), Arc::clone(shared), clock);
        self.0.start(engine.spawner, run);
    }
}

async fn run(engine: Weak<Engine>, shared: Arc<Shared>, clock: Arc<dyn Clock>) {
    loop {
        clock.sleep(UNUSED_CLAIM_AFTER).await;
        let Some(engine) = engine.upgrade().filter(|engine| !engine.is_closed()) else {
            return;
        };
        let since_ms = clock.now_ms().saturating_sub(UNUSED_CLAIM_AFTER.as_millis() as u64);
        release_unused(&engine, &shared, since_ms).await;
        let is_idle = || engine.board.lock().0.work().reserved().next().is_none();
        if is_idle() && shared.reaper.0.may_end(is_idle) {
            return;
        }
    }
}

/// Releases what was claimed in advance before `before_ms` and not handed out yet.
pub async fn release_unused(engine: &Arc<Engine>, shared: &Arc<Shared>, before_ms: u64) {
    loop {
        let unused = engine.board.lock().0.set_unwanted_aside(before_ms);
        let Some((order, queued)) = unused else { return };
        release(engine, shared, order, &queued).await;
    }
}

async fn release(engine: &Arc<Engine>, shared: &Arc<Shared>, order: Order, queued: &QueuedActivity) {
    let written = lease::write(engine, shared, order, queued, 0, queued.attempts).await;
    let foreign = engine.is_foreign(&queued.activity, order);
    let (mut board, now_ms) = engine.board.lock();
    match written {
        Ok(Some(_)) => board.unreserve(order, foreign, now_ms),
        // It was cancelled.
        Ok(None) => board.withdraw(order),
        Err(error) => {
            debug!(%error, "an activity that no worker took is left to its lease");
            board.unlearn(order);
        }
    }
}

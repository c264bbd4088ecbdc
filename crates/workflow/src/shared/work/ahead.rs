//! Activities that are claimed for workers of this process by the commit that schedules them.

use crate::engine::Engine;
use crate::records::work::Activity;
use crate::shared::{Shared, until};
use duroxide::providers::WorkItem;
use std::sync::Arc;

/// For each item until when it is claimed for a worker of this process that waits for it; 0 if it is not.
pub fn claim_ahead(engine: &Engine, shared: &Shared, items: &[WorkItem], now_ms: u64) -> Vec<u64> {
    if shared.work_lock().is_zero() {
        return vec![0; items.len()];
    }
    let activities: Vec<Option<Activity>> = items.iter().map(Activity::of).collect();
    let mut wanted = engine
        .board
        .lock()
        .0
        .wanted(activities.iter().flatten(), now_ms)
        .into_iter();
    let until_ms = until(now_ms, shared.work_lock());
    let reserve = |activity: &Option<Activity>| match activity.as_ref().and_then(|_| wanted.next()) {
        Some(true) => until_ms,
        _ => 0,
    };
    activities.iter().map(reserve).collect()
}

/// A turn has scheduled activities: some were claimed `ahead`, some `left` to whichever process takes them.
pub fn scheduled(engine: &Arc<Engine>, shared: &Arc<Shared>, ahead: bool, left: bool) {
    if left {
        shared.poller.expect_results();
    }
    if ahead {
        shared.reaper.start(engine, shared);
    }
}

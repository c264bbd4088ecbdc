//! Counting everything anew, where the store says that its totals may be wrong.
//!
//! Commits maintain the totals, so that no query has to count. They are in doubt only where a process died before it wrote down what
//! it had counted; then the next query for metrics counts all instances. While other processes keep working, a count cannot
//! replace the totals, see [`perennial_store::Store::resolve_doubt`]. It is then shown for a while, and repeated no more often than
//! it is worth.

use super::{inspect, totals};
use crate::engine::Engine;
use crate::records::decode;
use crate::records::head::Head;
use crate::records::instance_of;
use crate::tuning::{COUNT_PAGE, COUNT_SHOWN_MS, COUNT_SHOWN_TIMES, COUNT_TIMEOUT};
use duroxide::providers::SystemMetrics;
use futures::future::{Either, select};
use perennial_store::{Commit, Counted, Counter, Cursor, Doubt, Error};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tracing::{debug, info};

/// The totals in the runtime's form: exact, or as exact as possible without counting again and again.
pub async fn metrics(engine: &Arc<Engine>) -> Result<SystemMetrics, Error> {
    let found = engine.store.totals().await?;
    let Some(doubt) = found.doubt.filter(|doubt| doubt.concerns(totals::PREFIX)) else {
        return Ok(totals::metrics(&found.sums));
    };
    // The last count may be another engine's.
    let last = doubt.counted.clone().filter(|counted| counted.prefix == totals::PREFIX);
    let now_ms = engine.clock.now_ms();
    if let Some(counted) = last.as_ref().filter(|counted| is_fresh(counted, doubt.quiet, now_ms)) {
        return Ok(totals::metrics(&counted.sums));
    }
    let known = last.map_or(found.sums, |counted| counted.sums);
    let Ok(turn) = Arc::clone(&engine.counting).try_lock_owned() else {
        return Ok(totals::metrics(&known));
    };
    let counting = engine
        .spawner
        .shield(count_and_resolve(Arc::clone(engine), doubt, turn));
    match select(counting, engine.clock.sleep(COUNT_TIMEOUT)).await {
        Either::Left((counted, _)) => Ok(totals::metrics(&counted?.sums)),
        Either::Right(_) => Ok(totals::metrics(&known)),
    }
}

fn is_fresh(counted: &Counted, quiet: bool, now_ms: u64) -> bool {
    let least_ms = if quiet { 0 } else { COUNT_SHOWN_MS };
    let rest_ms = counted.took_ms.saturating_mul(COUNT_SHOWN_TIMES).max(least_ms);
    now_ms < counted.at_ms.saturating_add(rest_ms)
}

async fn count_and_resolve(engine: Arc<Engine>, doubt: Doubt, _turn: OwnedMutexGuard<()>) -> Result<Counted, Error> {
    let at_ms = engine.clock.now_ms();
    let sums = count(&engine).await?;
    let took_ms = engine.clock.now_ms().saturating_sub(at_ms);
    let counted = Counted {
        prefix: totals::PREFIX.into(),
        at_ms,
        took_ms,
        sums,
    };
    match engine.store.resolve_doubt(&doubt, &counted).await {
        Ok(true) => info!(
            took_ms,
            "a process had died before it wrote its totals; all was counted, and they are right"
        ),
        Ok(false) => debug!(
            took_ms,
            "all was counted, while others went on: the totals will be put right later"
        ),
        Err(error) => debug!(%error, "a count of everything could not be written down"),
    }
    Ok(counted)
}

/// Counts what commits count: listed instances by their state, their executions and events.
async fn count(engine: &Engine) -> Result<Vec<(Counter, i64)>, Error> {
    let mut sums: BTreeMap<Counter, i64> = BTreeMap::new();
    let mut after: Option<Cursor> = None;
    loop {
        let page = engine
            .store
            .list_records(&inspect::all(), after.as_ref(), COUNT_PAGE)
            .await?;
        for record in &page.records {
            let head: Head = match decode(record) {
                Ok(head) => head,
                Err(error) => {
                    debug!(%error, "an instance is left out of the count because its head cannot be read");
                    continue;
                }
            };
            let id = instance_of(&record.key.partition);
            let (executions, events) = super::delete::executions_before(engine, id, &head).await?;
            let mut commit = Commit::default();
            let events = events + head.execution.events;
            totals::count_turn(&mut commit, None, &head, executions + 1, events);
            for (counter, sum) in commit.counters {
                *sums.entry(counter).or_default() += sum;
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(sums.into_iter().collect()),
        }
    }
}

//! Removing executions that are no longer needed.

use super::{inspect, totals};
use crate::engine::Engine;
use crate::error::from_store;
use crate::instance;
use crate::mutation::mutant;
use crate::read::Freshness;
use crate::records::execution::Ended;
use crate::records::page::Page;
use crate::records::{instance_of, partition};
use crate::tuning::{BULK_ROOTS, READ_PAGE};
use duroxide::providers::{InstanceFilter, ProviderError, PruneOptions, PruneResult};
use perennial_store::{Commit, Error, Op, Partition, Record, ScanQuery};

/// Removes executions of one instance: never the current one, never one that runs.
pub async fn one(engine: &Engine, id: &str, options: &PruneOptions) -> Result<PruneResult, ProviderError> {
    const OPERATION: &str = "prune_executions";
    let failed = |e: Error| from_store(OPERATION, &e);
    let (_, head) = inspect::existing(engine, OPERATION, id).await?;
    let partition = partition(id);
    let mut ended = instance::executions(&*engine.store, &partition).await.map_err(failed)?;
    // An execution later than the head that was read is the current one by now.
    ended.retain(|ended| {
        let later = mutant!(PruneCurrent, false, ended.execution.id > head.execution.id);
        ended.execution.id != head.execution.id && !later
    });
    // The current execution is the first of those that are kept.
    let kept_before = options.keep_last.map_or(0, |keep| (keep as usize).saturating_sub(1));
    ended.truncate(ended.len().saturating_sub(kept_before));
    let mut result = PruneResult {
        instances_processed: 1,
        ..PruneResult::default()
    };
    for ended in ended.iter().map(|ended| &ended.execution) {
        let early = options
            .completed_before
            .is_none_or(|before| ended.completed_ms.is_some_and(|at| at < before));
        if ended.is_running() || !early {
            continue;
        }
        let key = Ended::key(&partition, ended.id);
        let Some(record) = engine.store.get(&key).await.map_err(failed)? else {
            continue;
        };
        let pages = pages(engine, &partition, ended.id).await.map_err(failed)?;
        match remove(engine, Op::Delete(key, record.version), pages, ended.events).await {
            // Another process has removed it: it counts once.
            Err(Error::Conflict { .. }) => continue,
            outcome => outcome.map_err(failed)?,
        }
        result.executions_deleted += 1;
        result.events_deleted += ended.events;
    }
    Ok(result)
}

/// Removes an execution: its record goes with the last of its pages, so that after a crash the rest is found through it.
async fn remove(engine: &Engine, ended: Op, mut pages: Vec<Record>, events: u64) -> Result<(), Error> {
    let limit = engine.store.limits().ops_per_commit;
    while pages.len() >= limit {
        // Not fenced by the record yet, hence by the versions that were read.
        let seen = pages.drain(..limit).map(|page| Op::Delete(page.key, page.version));
        engine.commit(Commit::new(seen.collect())).await?;
    }
    let mut commit = Commit::new(vec![ended]);
    commit.ops.extend(pages.into_iter().map(|page| Op::Remove(page.key)));
    totals::count_pruning(&mut commit, 1, events);
    engine.commit(commit).await.map(|_| ())
}

/// The pages of an execution, without their bodies.
async fn pages(engine: &Engine, partition: &Partition, execution: u64) -> Result<Vec<Record>, Error> {
    let query = ScanQuery::under(partition.clone(), Page::of_execution(execution), READ_PAGE).keys_only();
    instance::scan(&*engine.store, query).await
}

/// Prunes every instance that passes the filter, running or not.
pub async fn in_bulk(
    engine: &Engine,
    filter: &InstanceFilter,
    options: &PruneOptions,
) -> Result<PruneResult, ProviderError> {
    let mut result = PruneResult::default();
    for id in selected(engine, filter).await? {
        let pruned = one(engine, &id, options).await?;
        result.instances_processed += pruned.instances_processed;
        result.executions_deleted += pruned.executions_deleted;
        result.events_deleted += pruned.events_deleted;
    }
    Ok(result)
}

async fn selected(engine: &Engine, filter: &InstanceFilter) -> Result<Vec<String>, ProviderError> {
    const OPERATION: &str = "prune_executions_bulk";
    let limit = filter.limit.map_or(BULK_ROOTS, |limit| limit as usize);
    let mut ids = Vec::new();
    if let Some(wanted) = &filter.instance_ids {
        for id in wanted {
            let snapshot = engine.view(OPERATION, id, Freshness::Recent).await?;
            let Some(head) = snapshot.head().filter(|head| head.name.is_some()) else {
                continue;
            };
            let early = filter
                .completed_before
                .is_none_or(|before| head.execution.completed_ms.is_some_and(|at| at < before));
            if ids.len() < limit && early {
                ids.push(id.clone());
            }
        }
        return Ok(ids);
    }
    let all = perennial_store::ListFilter {
        completed_before_ms: filter.completed_before,
        ..inspect::all()
    };
    inspect::visit(engine, OPERATION, &all, |entry| {
        if ids.len() < limit {
            ids.push(instance_of(&entry.key.partition).to_string());
        }
        ids.len() < limit
    })
    .await?;
    Ok(ids)
}

//! Deleting many trees of instances.

use super::atomically;
use crate::admin::inspect::{self, Parents};
use crate::engine::Engine;
use crate::read::Freshness;
use crate::records::instance_of;
use crate::tuning::BULK_ROOTS;
use duroxide::providers::{DeleteInstanceResult, InstanceFilter, ProviderError};
use perennial_store::ListFilter;
use std::sync::Arc;

/// Deletes trees whose roots have ended and pass the filter; a tree in which anything still runs is left alone. A child whose
/// parent is gone is a root.
pub async fn in_bulk(engine: &Arc<Engine>, filter: InstanceFilter) -> Result<DeleteInstanceResult, ProviderError> {
    let mut result = DeleteInstanceResult::default();
    let limit = filter.limit.map_or(BULK_ROOTS, |limit| limit as usize);
    for root in ended_roots(engine, &filter, limit).await? {
        let tree = inspect::tree(engine, "delete_instance_bulk", &root).await?;
        match atomically(engine, &tree, false).await {
            Ok(one) => {
                result.instances_deleted += one.instances_deleted;
                result.executions_deleted += one.executions_deleted;
                result.events_deleted += one.events_deleted;
                result.queue_messages_deleted += one.queue_messages_deleted;
            }
            // Something below the root still runs, or has just begun to.
            Err(error) if !error.is_retryable() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(result)
}

async fn ended_roots(engine: &Engine, filter: &InstanceFilter, limit: usize) -> Result<Vec<String>, ProviderError> {
    const OPERATION: &str = "delete_instance_bulk";
    let mut roots = Vec::new();
    let mut parents = Parents::default();
    if let Some(ids) = &filter.instance_ids {
        for id in ids {
            let snapshot = engine.view(OPERATION, id, Freshness::Latest).await?;
            let Some(head) = snapshot.head().filter(|head| head.name.is_some()) else {
                continue;
            };
            let early = filter
                .completed_before
                .is_none_or(|before| head.execution.completed_ms.is_some_and(|at| at < before));
            if roots.len() < limit
                && head.is_terminal()
                && early
                && parents.is_root(engine, OPERATION, head.parent.as_deref()).await?
            {
                roots.push(id.clone());
            }
        }
        return Ok(roots);
    }
    for status in ["Completed", "Failed"] {
        let ended = ListFilter {
            completed_before_ms: filter.completed_before,
            ..inspect::with_status(status)
        };
        let mut after = None;
        while roots.len() < limit {
            let page = inspect::page(engine, OPERATION, &ended, after.as_ref()).await?;
            for entry in page.entries {
                let parent = entry.listing.parent.as_deref();
                if roots.len() < limit && parents.is_root(engine, OPERATION, parent).await? {
                    roots.push(instance_of(&entry.key.partition).to_string());
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(roots)
}

//! Deleting instances.

use super::inspect::{self, Parents};
use super::two_phase_delete::{self, Verdict, evict};
use super::{BULK, totals};
use crate::engine::Engine;
use crate::error::from_store;
use crate::instance::{self, Snapshot};
use crate::mutation::mutant;
use crate::outbox;
use crate::read::Freshness;
use crate::records::execution::Ended;
use crate::records::head::Head;
use crate::records::{instance_of, message, partition, tomb, work};
use crate::send::slot_of;
use duroxide::providers::{DeleteInstanceResult, InstanceFilter, ProviderError};
use perennial_store::{Commit, Error, Key, Limits, ListFilter, Op, Order, Partition, Record, ScanQuery, is_manifest};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tracing::info;

const OPERATION: &str = "delete_instances_atomic";
/// How often a deletion is tried again when turns of the same instances overtake it.
const TRIES: usize = 16;
/// How long a deletion waits for what is under way before it tries again.
const WAIT: Duration = Duration::from_millis(20);

/// Deletes an instance with everything below it. One that has a parent goes with that; if the parent was deleted before it
/// began, it goes by itself.
pub async fn tree(engine: &Arc<Engine>, id: &str, force: bool) -> Result<DeleteInstanceResult, ProviderError> {
    const OPERATION: &str = "delete_instance";
    let (_, head) = inspect::existing(engine, OPERATION, id).await?;
    let parent = head.parent.as_deref();
    if !Parents::default().is_root(engine, OPERATION, parent).await? {
        let message = format!("Cannot delete sub-orchestration {id} directly. Delete root instance instead.");
        return Err(ProviderError::permanent(OPERATION, message));
    }
    let tree = inspect::tree(engine, OPERATION, id).await?;
    atomically(engine, &tree, force).await
}

/// Deletes instances with everything they own, all or none.
pub async fn atomically(
    engine: &Arc<Engine>,
    ids: &[String],
    force: bool,
) -> Result<DeleteInstanceResult, ProviderError> {
    let ids: Arc<BTreeSet<String>> = Arc::new(ids.iter().cloned().collect());
    let engine = Arc::clone(engine);
    engine
        .spawner
        .shield(async move {
            for _ in 1..TRIES {
                match attempt(&engine, &ids, force).await? {
                    Some(result) => return Ok(result),
                    None => engine.clock.sleep(WAIT).await,
                }
            }
            let message = "the instances are too busy to be deleted: cancel them first, or try again";
            Err(ProviderError::retryable(OPERATION, message))
        })
        .await
}

/// One try; `None` if a turn or an activity came in between.
async fn attempt(
    engine: &Arc<Engine>,
    ids: &BTreeSet<String>,
    force: bool,
) -> Result<Option<DeleteInstanceResult>, ProviderError> {
    let mut commit = Commit::default();
    let mut result = DeleteInstanceResult::default();
    let mut deleted = Vec::with_capacity(ids.len());
    let mut targets = Vec::with_capacity(ids.len());
    // What an instance has sent is sent, even if it is gone before that is delivered.
    for id in ids.iter().filter(|_| outbox::is_needed(engine)) {
        let flushed = outbox::flush(engine, &partition(id)).await;
        if !flushed.map_err(|e| from_store(OPERATION, &e))? {
            return Ok(None);
        }
    }
    for id in ids {
        let id_: Arc<str> = Arc::from(id.as_str());
        let snapshot = find(engine, &id_).await.map_err(|e| from_store(OPERATION, &e))?;
        let Some((head, version)) = snapshot.head.as_ref().filter(|(head, _)| !head.is_blank()) else {
            continue;
        };
        // Another deletion is about it.
        if head.deletion.is_some() {
            return Ok(None);
        }
        if !force && !head.is_terminal() {
            let message = format!("Instance {id} is still running. Cancel it first, or delete it with force.");
            return Err(ProviderError::permanent(OPERATION, message));
        }
        check_children(engine, id, ids).await?;
        targets.push((id.clone(), head.clone(), version.clone()));
        commit.ops.push(Op::Delete(Head::key(id), version.clone()));
        let gone = everything_else(engine, &partition(id))
            .await
            .map_err(|e| from_store(OPERATION, &e))?;
        let ended = executions_before(engine, id, head)
            .await
            .map_err(|e| from_store(OPERATION, &e))?;
        let (executions, events) = (ended.0 + 1, ended.1 + head.execution.events);
        totals::count_deletion(&mut commit, head, executions, events);
        result.instances_deleted += 1;
        result.executions_deleted += executions;
        result.events_deleted += events;
        let queued: Vec<Order> = gone.iter().filter_map(|record| queued_order(&record.key)).collect();
        result.queue_messages_deleted += queued.len() as u64;
        deleted.push((id, queued));
        for record in gone {
            let op = removal(engine, id, record).await;
            commit.ops.push(op.map_err(|e| from_store(OPERATION, &e))?);
        }
    }
    if commit.ops.is_empty() {
        return Ok(Some(result));
    }
    // Whoever has committed and not yet told the board would put back there what is deleted here.
    if mutant!(DeleteUnderWay, false, engine.board.lock().0.is_committing(ids)) {
        return Ok(None);
    }
    if !fits(&engine.store.limits(), &commit, targets.len()) {
        let allowed = async {
            for id in ids {
                check_children(engine, id, ids).await?;
            }
            Ok(())
        };
        let failed = |e: Error| from_store(OPERATION, &e);
        return match two_phase_delete::delete(engine, &targets, allowed, failed).await? {
            Verdict::Deleted => Ok(Some(result)),
            Verdict::Overtaken => Ok(None),
        };
    }
    let tombs = commit.ops.iter().any(|op| op.draft().is_some());
    let began_ms = engine.clock.now_ms();
    match engine.commit(commit).await {
        Ok(_) => {
            for (id, gone) in &deleted {
                forget(engine, id, gone, began_ms);
            }
            if tombs {
                engine.housekeeper.call(engine);
            }
            info!(instances = result.instances_deleted, "instances deleted");
            Ok(Some(result))
        }
        Err(Error::Conflict { .. }) => {
            ids.iter().for_each(|id| engine.cache.forget(id, slot_of(id)));
            Ok(None)
        }
        Err(error) => Err(from_store(OPERATION, &error)),
    }
}

/// What is to be deleted. Where many processes share the store, one that is not found may be newer than the answer: a child
/// that stayed would be an orphan.
async fn find(engine: &Engine, id: &Arc<str>) -> Result<Arc<Snapshot>, Error> {
    let snapshot = engine.read(id, Freshness::Latest).await?;
    if snapshot.head.is_some() || engine.mode.is_surely_absent(engine, Head::key(id)).await? {
        return Ok(snapshot);
    }
    engine.read(id, Freshness::Latest).await
}

/// Whether a deletion can be one commit.
fn fits(limits: &Limits, commit: &Commit, instances: usize) -> bool {
    commit.ops.len() <= limits.ops_per_commit && instances <= limits.partitions_per_commit
}

/// A child that is not deleted too would be an orphan.
async fn check_children(engine: &Engine, id: &str, ids: &BTreeSet<String>) -> Result<(), ProviderError> {
    let children = inspect::ids(engine, OPERATION, &inspect::children_of(id)).await?;
    match children.into_iter().find(|child| !ids.contains(child)) {
        None => Ok(()),
        Some(child) => {
            let message = format!("Cannot delete: instance {id} has child {child}. Fetch the tree again and retry.");
            Err(ProviderError::permanent(OPERATION, message))
        }
    }
}

/// How a record goes. An activity that ends before it is deleted would leave its result behind, an execution that is pruned
/// before would be counted twice, and a manifest that gets another chunk would leave that behind: then all is looked at again.
async fn removal(engine: &Engine, id: &str, Record { key, version, .. }: Record) -> Result<Op, Error> {
    if key.id.below(&work::root()).is_some() || key.id.below(&Ended::root()).is_some() || is_manifest(&key.id) {
        return Ok(Op::Delete(key, version));
    }
    match message::order_of(&key.id) {
        Some(order) => outbox::removal_op(engine, id, key, order).await,
        None => Ok(Op::Remove(key)),
    }
}

/// All records of an instance but its head, without their bodies. Tombstones stay: they go by themselves.
pub async fn everything_else(engine: &Engine, partition: &Partition) -> Result<Vec<Record>, Error> {
    let head = Head::key_in(partition.clone());
    let query = ScanQuery::all(partition.clone(), instance::PAGE).keys_only();
    let mut records = instance::scan(&*engine.store, query).await?;
    records.retain(|record| record.key != head && !tomb::is_tomb(record));
    Ok(records)
}

/// The order of arrival of a queued record; `None` for records that do not queue.
pub fn queued_order(key: &Key) -> Option<Order> {
    message::order_of(&key.id).or_else(|| work::order_of(&key.id))
}

/// How many executions came before the current one, and how many events they had.
pub async fn executions_before(engine: &Engine, id: &str, head: &Head) -> Result<(u64, u64), Error> {
    if head.execution.id == 1 {
        return Ok((0, 0));
    }
    let ended = instance::executions(&*engine.store, &partition(id)).await?;
    let before = ended.iter().filter(|ended| ended.execution.id != head.execution.id);
    Ok(before.fold((0, 0), |(count, events), ended| {
        (count + 1, events + ended.execution.events)
    }))
}

/// Makes memory agree: the instance is gone, and so is what was deleted with it.
fn forget(engine: &Engine, id: &str, deleted: &[Order], began_ms: u64) {
    engine
        .cache
        .put(&Arc::from(id), slot_of(id), Arc::new(Snapshot::default()), began_ms);
    evict(engine, id, deleted);
}

/// Deletes trees whose roots have ended and pass the filter; whatever still runs is left alone. A child whose parent is gone
/// is a root.
pub async fn in_bulk(engine: &Arc<Engine>, filter: InstanceFilter) -> Result<DeleteInstanceResult, ProviderError> {
    let mut result = DeleteInstanceResult::default();
    let limit = filter.limit.map_or(BULK, |limit| limit as usize);
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

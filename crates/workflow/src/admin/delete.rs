//! Deleting instances.

mod bulk;
mod plan;

pub use bulk::in_bulk;

use super::inspect::{self, Parents};
use super::two_phase_delete::{self, Verdict};
use crate::engine::Engine;
use crate::error::from_store;
use crate::instance;
use crate::mutation::mutant;
use crate::outbox;
use crate::read::Freshness;
use crate::records::head::Head;
use crate::records::{message, partition, tomb, work};
use crate::tuning::{DELETE_RETRY_AFTER, DELETE_TRIES, READ_PAGE};
use duroxide::providers::{DeleteInstanceResult, ProviderError};
use perennial_store::{Error, Key, Order, Partition, Record, ScanQuery, Version};
use plan::Plan;
use std::collections::BTreeSet;
use std::sync::Arc;

const OPERATION: &str = "delete_instances_atomic";

/// Deletes an instance with everything below it. An instance that has a parent can only be deleted with the parent, unless
/// the parent is gone.
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

/// Deletes instances with everything they own: all of them or none.
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
            for _ in 1..DELETE_TRIES {
                match attempt(&engine, &ids, force).await? {
                    Some(result) => return Ok(result),
                    None => engine.clock.sleep(DELETE_RETRY_AFTER).await,
                }
            }
            let message = "the instances are too busy to be deleted: cancel them first, or try again";
            Err(ProviderError::retryable(OPERATION, message))
        })
        .await
}

/// One attempt; `None` if a turn or an activity came in between.
async fn attempt(
    engine: &Arc<Engine>,
    ids: &BTreeSet<String>,
    force: bool,
) -> Result<Option<DeleteInstanceResult>, ProviderError> {
    let failed = |e: Error| from_store(OPERATION, &e);
    for id in ids {
        engine.mode.catch_up(engine, id).await.map_err(failed)?;
    }
    if !flush_outboxes(engine, ids).await.map_err(failed)? {
        return Ok(None);
    }
    let mut plan = Plan::default();
    for id in ids {
        match validate(engine, id, ids, force).await? {
            Standing::Absent => {}
            Standing::Busy => return Ok(None),
            Standing::Deletable(head, version) => plan.collect(engine, id, *head, version).await.map_err(failed)?,
        }
    }
    if plan.is_empty() {
        return Ok(Some(plan.result));
    }
    let names: Vec<Arc<str>> = ids.iter().map(|id| Arc::from(id.as_str())).collect();
    let _deleting = engine.board.deleting(names);
    // A process that has committed and not yet updated the board would put back there what is deleted here.
    if mutant!(DeleteUnderWay, false, engine.board.lock().0.is_committing(ids)) {
        return Ok(None);
    }
    match plan.fits(&engine.store.limits()) {
        true => plan.commit(engine, ids).await.map_err(failed),
        false => in_two_phases(engine, ids, plan).await,
    }
}

/// Delivers what the instances have sent, even if they are gone before it arrives; `false` if another task is delivering.
async fn flush_outboxes(engine: &Arc<Engine>, ids: &BTreeSet<String>) -> Result<bool, Error> {
    for id in ids.iter().filter(|_| outbox::is_needed(engine)) {
        if !outbox::flush(engine, &partition(id)).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an instance can be deleted now.
enum Standing {
    /// There is no such instance.
    Absent,
    /// Another deletion is working on it.
    Busy,
    /// It can be, if its head is still at this version.
    Deletable(Box<Head>, Version),
}

/// Refuses to delete an instance that runs, unless forced, or that has children which would become orphans.
async fn validate(engine: &Engine, id: &str, ids: &BTreeSet<String>, force: bool) -> Result<Standing, ProviderError> {
    let snapshot = engine
        .read(&Arc::from(id), Freshness::Latest)
        .await
        .map_err(|e| from_store(OPERATION, &e))?;
    let Some((head, version)) = snapshot.head.as_ref().filter(|(head, _)| !head.is_blank()) else {
        return Ok(Standing::Absent);
    };
    if head.deletion.is_some() {
        return Ok(Standing::Busy);
    }
    if !force && !head.is_terminal() {
        let message = format!("Instance {id} is still running. Cancel it first, or delete it with force.");
        return Err(ProviderError::permanent(OPERATION, message));
    }
    check_children(engine, id, ids).await?;
    Ok(Standing::Deletable(Box::new(head.clone()), version.clone()))
}

/// Deletes what is too large for one commit.
async fn in_two_phases(
    engine: &Arc<Engine>,
    ids: &BTreeSet<String>,
    plan: Plan,
) -> Result<Option<DeleteInstanceResult>, ProviderError> {
    let allowed = async {
        for id in ids {
            check_children(engine, id, ids).await?;
        }
        Ok(())
    };
    let failed = |e: Error| from_store(OPERATION, &e);
    match two_phase_delete::delete(engine, &plan.targets, allowed, failed).await? {
        Verdict::Deleted => Ok(Some(plan.result)),
        Verdict::Overtaken => Ok(None),
    }
}

/// Refuses a deletion that would make a child an orphan.
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

/// All records of an instance but its head, without their bodies. Tombstones stay: they expire.
pub async fn everything_else(engine: &Engine, partition: &Partition) -> Result<Vec<Record>, Error> {
    let head = Head::key_in(partition.clone());
    let query = ScanQuery::all(partition.clone(), READ_PAGE).keys_only();
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

//! The commit of a deletion, and what it means for memory.

use super::{everything_else, executions_before, queued_order};
use crate::admin::totals;
use crate::admin::two_phase_delete::evict;
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::outbox;
use crate::records::execution::Ended;
use crate::records::head::Head;
use crate::records::{message, partition, work};
use crate::send::slot_of;
use duroxide::providers::DeleteInstanceResult;
use perennial_store::{Commit, Error, Limits, Op, Order, Record, Result, Version, is_manifest};
use std::collections::BTreeSet;
use std::sync::Arc;
use tracing::info;

/// Everything that a deletion removes.
#[derive(Default)]
pub struct Plan {
    commit: Commit,
    /// The instances, with their heads.
    pub targets: Vec<(String, Head, Version)>,
    /// The queued records of each instance.
    queued: Vec<(String, Vec<Order>)>,
    /// What the deletion reports.
    pub result: DeleteInstanceResult,
}

impl Plan {
    /// Adds an instance with everything it owns.
    pub async fn collect(&mut self, engine: &Engine, id: &str, head: Head, version: Version) -> Result<()> {
        self.commit.ops.push(Op::Delete(Head::key(id), version.clone()));
        let gone = everything_else(engine, &partition(id)).await?;
        let before = executions_before(engine, id, &head).await?;
        let (executions, events) = (before.0 + 1, before.1 + head.execution.events);
        totals::count_deletion(&mut self.commit, &head, executions, events);
        let queued: Vec<Order> = gone.iter().filter_map(|record| queued_order(&record.key)).collect();
        self.result.instances_deleted += 1;
        self.result.executions_deleted += executions;
        self.result.events_deleted += events;
        self.result.queue_messages_deleted += queued.len() as u64;
        self.queued.push((id.to_string(), queued));
        self.targets.push((id.to_string(), head, version));
        for record in gone {
            self.commit.ops.push(removal(engine, id, record).await?);
        }
        Ok(())
    }

    /// Whether there is nothing to delete.
    pub fn is_empty(&self) -> bool {
        self.commit.ops.is_empty()
    }

    /// Whether the deletion can be one commit.
    pub fn fits(&self, limits: &Limits) -> bool {
        self.commit.ops.len() <= limits.ops_per_commit && self.targets.len() <= limits.partitions_per_commit
    }

    /// Deletes everything in one commit; `None` if something came in between.
    pub async fn commit(self, engine: &Arc<Engine>, ids: &BTreeSet<String>) -> Result<Option<DeleteInstanceResult>> {
        let tombs = self.commit.ops.iter().any(|op| op.draft().is_some());
        let began_ms = engine.clock.now_ms();
        match engine.commit(self.commit).await {
            Ok(_) => {
                for (id, gone) in &self.queued {
                    forget(engine, id, gone, began_ms);
                }
                if tombs {
                    engine.housekeeper.call(engine);
                }
                info!(instances = self.result.instances_deleted, "instances deleted");
                Ok(Some(self.result))
            }
            Err(Error::Conflict { .. }) => {
                ids.iter().for_each(|id| engine.cache.forget(id, slot_of(id)));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// The operation that removes a record. An activity that ends before it is deleted would leave its result behind, an execution
/// that is pruned before would be counted twice, and a manifest that gets another chunk would leave that behind: those
/// conflict, and the deletion starts over.
async fn removal(engine: &Engine, id: &str, Record { key, version, .. }: Record) -> Result<Op> {
    if key.id.below(&work::root()).is_some() || key.id.below(&Ended::root()).is_some() || is_manifest(&key.id) {
        return Ok(Op::Delete(key, version));
    }
    match message::order_of(&key.id) {
        Some(order) => outbox::removal_op(engine, id, key, order).await,
        None => Ok(Op::Remove(key)),
    }
}

/// Removes an instance and its queued records from memory.
fn forget(engine: &Engine, id: &str, deleted: &[Order], began_ms: u64) {
    engine
        .cache
        .put(&Arc::from(id), slot_of(id), Arc::new(Snapshot::default()), began_ms);
    evict(engine, id, deleted);
}

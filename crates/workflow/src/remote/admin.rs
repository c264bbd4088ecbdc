//! The runtime's `ProviderAdmin` for a process that owns nothing: what reads works, what changes something is refused.

use super::RemoteWorkflows;
use super::provider::not_the_owner;
use crate::admin::{inspect, totals};
use crate::error::from_store;
use crate::read::Instances;
use crate::records::lanes::{TURN, WORK};
use crate::tuning::REMOTE_COUNT_PAGE;
use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, Provider, ProviderAdmin,
    ProviderError, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};
use perennial_store::{DueQuery, Lane, Result as StoreResult};

impl RemoteWorkflows {
    /// How many records a lane has. Which of them the owner works on, only the owner knows.
    async fn depth(&self, lane: &'static str) -> StoreResult<usize> {
        let mut query = DueQuery::new(&Lane::new(lane), u64::MAX, REMOTE_COUNT_PAGE);
        let mut depth = 0;
        loop {
            let page = self.inner.reader.store.due(&query).await?;
            depth += page.records.len();
            query.after = page.end();
            if !page.more || query.after.is_none() {
                return Ok(depth);
            }
        }
    }
}

#[async_trait]
impl ProviderAdmin for RemoteWorkflows {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        inspect::ids(&self.inner.reader, "list_instances", &inspect::all()).await
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        let filter = inspect::with_status(status);
        inspect::ids(&self.inner.reader, "list_instances_by_status", &filter).await
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        inspect::executions(&self.inner.reader, instance).await
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.read_with_execution(instance, execution_id).await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.read(instance).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        let snapshot = self.inner.reader.snapshot("latest_execution_id", instance).await?;
        Ok(snapshot.execution_id())
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        inspect::instance_info(&self.inner.reader, instance).await
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo, ProviderError> {
        inspect::execution_info(&self.inner.reader, instance, execution_id).await
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        let found = self.inner.reader.store.totals().await;
        let found = found.map_err(|e| from_store("get_system_metrics", &e))?;
        Ok(totals::metrics(&found.sums))
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        let failed = |error| from_store("get_queue_depths", &error);
        Ok(QueueDepths {
            orchestrator_queue: self.depth(TURN).await.map_err(failed)?,
            worker_queue: self.depth(WORK).await.map_err(failed)?,
            timer_queue: 0,
        })
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        let filter = inspect::children_of(instance_id);
        inspect::ids(&self.inner.reader, "list_children", &filter).await
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        let found = inspect::existing(&self.inner.reader, "get_parent_id", instance_id).await?;
        Ok(found.1.parent)
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree, ProviderError> {
        let all_ids = inspect::tree(&self.inner.reader, "get_instance_tree", instance_id).await?;
        Ok(InstanceTree {
            root_id: instance_id.to_string(),
            all_ids,
        })
    }

    async fn delete_instance(&self, _instance_id: &str, _force: bool) -> Result<DeleteInstanceResult, ProviderError> {
        not_the_owner("delete_instance")
    }

    async fn delete_instances_atomic(
        &self,
        _ids: &[String],
        _force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        not_the_owner("delete_instances_atomic")
    }

    async fn delete_instance_bulk(&self, _filter: InstanceFilter) -> Result<DeleteInstanceResult, ProviderError> {
        not_the_owner("delete_instance_bulk")
    }

    async fn prune_executions(&self, _instance_id: &str, _options: PruneOptions) -> Result<PruneResult, ProviderError> {
        not_the_owner("prune_executions")
    }

    async fn prune_executions_bulk(
        &self,
        _filter: InstanceFilter,
        _options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        not_the_owner("prune_executions_bulk")
    }
}

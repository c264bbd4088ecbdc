//! The runtime's `ProviderAdmin`: every call goes straight to the module that does it.

use crate::admin::{delete, inspect, prune, recount};
use crate::error::from_store;
use crate::workflows::Workflows;
use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, Provider, ProviderAdmin,
    ProviderError, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};

#[async_trait]
impl ProviderAdmin for Workflows {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        let engine = self.engine_for("list_instances").await?;
        inspect::ids(&engine, "list_instances", &inspect::all()).await
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        let engine = self.engine_for("list_instances_by_status").await?;
        inspect::ids(&engine, "list_instances_by_status", &inspect::with_status(status)).await
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        let engine = self.engine_for("list_executions").await?;
        inspect::executions(&engine, instance).await
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
        Ok(self.snapshot("latest_execution_id", instance).await?.execution_id())
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        let engine = self.engine_for("get_instance_info").await?;
        inspect::instance_info(&engine, instance).await
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo, ProviderError> {
        let engine = self.engine_for("get_execution_info").await?;
        inspect::execution_info(&engine, instance, execution_id).await
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        let engine = self.engine_for("get_system_metrics").await?;
        engine.outstanding.all().await;
        let metrics = recount::metrics(&engine).await;
        metrics.map_err(|e| from_store("get_system_metrics", &e))
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        let engine = self.engine_for("get_queue_depths").await?;
        engine.outstanding.all().await;
        let (board, now_ms) = engine.board.lock();
        let (orchestrator_queue, worker_queue) = board.depths(now_ms);
        let (oldest_turn, oldest_work) = board.oldest_ready(now_ms);
        engine.meters.oldest_turn.set(oldest_turn);
        engine.meters.oldest_work.set(oldest_work);
        Ok(QueueDepths {
            orchestrator_queue,
            worker_queue,
            timer_queue: 0,
        })
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        let engine = self.engine_for("list_children").await?;
        inspect::ids(&engine, "list_children", &inspect::children_of(instance_id)).await
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        let engine = self.engine_for("get_parent_id").await?;
        Ok(inspect::existing(&engine, "get_parent_id", instance_id).await?.1.parent)
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree, ProviderError> {
        let engine = self.engine_for("get_instance_tree").await?;
        let all_ids = inspect::tree(&engine, "get_instance_tree", instance_id).await?;
        Ok(InstanceTree {
            root_id: instance_id.to_string(),
            all_ids,
        })
    }

    async fn delete_instance(&self, instance_id: &str, force: bool) -> Result<DeleteInstanceResult, ProviderError> {
        let engine = self.engine_for("delete_instance").await?;
        delete::tree(&engine, instance_id, force).await
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let engine = self.engine_for("delete_instances_atomic").await?;
        delete::atomically(&engine, ids, force).await
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Result<DeleteInstanceResult, ProviderError> {
        let engine = self.engine_for("delete_instance_bulk").await?;
        delete::in_bulk(&engine, filter).await
    }

    async fn prune_executions(&self, instance_id: &str, options: PruneOptions) -> Result<PruneResult, ProviderError> {
        let engine = self.engine_for("prune_executions").await?;
        engine.outstanding.of(instance_id).await;
        prune::one(&engine, instance_id, &options).await
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let engine = self.engine_for("prune_executions_bulk").await?;
        prune::in_bulk(&engine, &filter, &options).await
    }
}

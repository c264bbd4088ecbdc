//! The runtime's `Provider`: every call goes straight to the module that does it.

use crate::instance::Snapshot;
use crate::read::Freshness;
use crate::workflows::Workflows;
use crate::{read, send, turn, work};
use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

impl Workflows {
    /// The newest snapshot of an instance.
    pub(crate) async fn snapshot(
        &self,
        operation: &'static str,
        instance: &str,
    ) -> Result<Arc<Snapshot>, ProviderError> {
        let engine = self.engine_for(operation).await?;
        engine.view(operation, instance, Freshness::Recent).await
    }
}

#[async_trait]
impl Provider for Workflows {
    fn name(&self) -> &str {
        "perennial"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        self.poll("fetch_orchestration_item", poll_timeout, |engine, poll| async move {
            turn::fetch(&engine, lock_timeout, poll, filter).await
        })
        .await
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        let turn = turn::Turn::new(
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        );
        turn::ack(&self.engine(), lock_token, turn).await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        turn::abandon(&self.engine(), lock_token, delay, ignore_attempt).await
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        turn::renew(&self.engine(), token, extend_for).await
    }

    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        let engine = self.engine_for("enqueue_for_orchestrator").await?;
        send::message(&engine, item, delay).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        let engine = self.engine_for("enqueue_for_worker").await?;
        send::activity(&engine, item).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        self.poll("fetch_work_item", poll_timeout, |engine, poll| async move {
            work::fetch(&engine, lock_timeout, poll, session, tag_filter).await
        })
        .await
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        work::ack(&self.engine(), token, completion).await
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        work::renew(&self.engine(), token, extend_for).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        work::abandon(&self.engine(), token, delay, ignore_attempt).await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        work::renew_sessions(&self.engine(), owner_ids, extend_for, idle_timeout).await
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        let engine = self.engine_for("cleanup_orphaned_sessions").await?;
        work::clean_up_sessions(&engine).await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.snapshot("read", instance).await?.events("read")
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>, ProviderError> {
        let engine = self.engine_for("read_with_execution").await?;
        read::history(&engine, "read_with_execution", instance, execution_id).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        let engine = self.engine_for("append_with_execution").await?;
        turn::append(&engine, instance, execution_id, new_events).await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let snapshot = self.snapshot("get_custom_status", instance).await?;
        Ok(snapshot.custom_status_after(last_seen_version))
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        let snapshot = self.snapshot("get_kv_value", instance).await?;
        Ok(snapshot.kv.get(key).map(str::to_string))
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        Ok(self.snapshot("get_kv_all_values", instance).await?.values())
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        Ok(self.snapshot("get_instance_stats", instance).await?.stats())
    }
}

//! The runtime's `Provider` for a process that owns nothing: messages go to the owner, reads to the store.

use super::RemoteWorkflows;
use super::message::Message;
use crate::error::{from_store, wrong_item};
use crate::read::{self, Instances};
use crate::records::message;
use crate::workflows::Workflows;
use crate::{instance::Snapshot, names};
use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Refuses what only the owner of a store can do.
pub(super) fn not_the_owner<T>(operation: &'static str) -> Result<T, ProviderError> {
    Err(ProviderError::permanent(
        operation,
        "this handle is a client of a store that another process owns: it starts workflows, sends them events, cancels and reads \
         them. Everything else needs a process that has opened the store as its owner",
    ))
}

impl RemoteWorkflows {
    async fn snapshot(&self, operation: &'static str, instance: &str) -> Result<Arc<Snapshot>, ProviderError> {
        self.inner.reader.snapshot(operation, instance).await
    }
}

#[async_trait]
impl Provider for RemoteWorkflows {
    fn name(&self) -> &str {
        "perennial"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        _lock_timeout: Duration,
        _poll_timeout: Duration,
        _filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        not_the_owner("fetch_orchestration_item")
    }

    async fn ack_orchestration_item(
        &self,
        _lock_token: &str,
        _execution_id: u64,
        _history_delta: Vec<Event>,
        _worker_items: Vec<WorkItem>,
        _orchestrator_items: Vec<WorkItem>,
        _metadata: ExecutionMetadata,
        _cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        not_the_owner("ack_orchestration_item")
    }

    async fn abandon_orchestration_item(
        &self,
        _lock_token: &str,
        _delay: Option<Duration>,
        _ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        not_the_owner("abandon_orchestration_item")
    }

    async fn renew_orchestration_item_lock(&self, _token: &str, _extend_for: Duration) -> Result<(), ProviderError> {
        not_the_owner("renew_orchestration_item_lock")
    }

    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        names::check(OPERATION, &self.inner.reader.store.limits(), &item)?;
        if message::target(&item).is_none() {
            return Err(wrong_item(OPERATION, "a message to an instance"));
        }
        let failed = |error| from_store(OPERATION, &error);
        let payload = Message::new(item, delay).encode().map_err(failed)?;
        self.inner.sender.send(Workflows::ENGINE, payload).await.map_err(failed)
    }

    async fn enqueue_for_worker(&self, _item: WorkItem) -> Result<(), ProviderError> {
        not_the_owner("enqueue_for_worker")
    }

    async fn fetch_work_item(
        &self,
        _lock_timeout: Duration,
        _poll_timeout: Duration,
        _session: Option<&SessionFetchConfig>,
        _tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        not_the_owner("fetch_work_item")
    }

    async fn ack_work_item(&self, _token: &str, _completion: Option<WorkItem>) -> Result<(), ProviderError> {
        not_the_owner("ack_work_item")
    }

    async fn renew_work_item_lock(&self, _token: &str, _extend_for: Duration) -> Result<(), ProviderError> {
        not_the_owner("renew_work_item_lock")
    }

    async fn abandon_work_item(
        &self,
        _token: &str,
        _delay: Option<Duration>,
        _ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        not_the_owner("abandon_work_item")
    }

    async fn renew_session_lock(
        &self,
        _owner_ids: &[&str],
        _extend_for: Duration,
        _idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        not_the_owner("renew_session_lock")
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        not_the_owner("cleanup_orphaned_sessions")
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.snapshot("read", instance).await?.events("read")
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>, ProviderError> {
        read::history(&self.inner.reader, "read_with_execution", instance, execution_id).await
    }

    async fn append_with_execution(
        &self,
        _instance: &str,
        _execution_id: u64,
        _new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        not_the_owner("append_with_execution")
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

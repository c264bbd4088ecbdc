//! A provider that passes every call on and counts what goes by.

use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A workflow whose last commit was acknowledged by the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The workflow instance.
    pub instance: String,
    /// Whether it completed; otherwise it failed.
    pub completed: bool,
    /// What it returned, or the text of its error.
    pub output: String,
}

/// How many calls of each durable kind were acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent to workflows.
    pub enqueued: u64,
    /// Workflow turns.
    pub turns: u64,
    /// Activities.
    pub activities: u64,
}

impl Counts {
    /// All durable commits that callers asked for.
    pub fn commits(self) -> u64 {
        self.enqueued + self.turns + self.activities
    }
}

/// Wraps a provider: counts durable calls and reports each finished workflow at the moment its last commit is
/// acknowledged.
pub struct Observed {
    inner: Arc<dyn Provider>,
    on_finished: Box<dyn Fn(Finished) + Send + Sync>,
    enqueued: AtomicU64,
    turns: AtomicU64,
    activities: AtomicU64,
}

impl Observed {
    /// Wraps `inner`; `on_finished` is called on the runtime's own tasks and must not block.
    pub fn new(inner: Arc<dyn Provider>, on_finished: impl Fn(Finished) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            inner,
            on_finished: Box::new(on_finished),
            enqueued: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            activities: AtomicU64::new(0),
        })
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        Counts {
            enqueued: self.enqueued.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
            activities: self.activities.load(Ordering::Relaxed),
        }
    }
}

/// What this turn ends, if it ends anything. The lock token hides the instance; its events name it.
fn finished(history_delta: &[Event], metadata: &ExecutionMetadata) -> Option<Finished> {
    let completed = match metadata.status.as_deref()? {
        "Completed" => true,
        "Failed" => false,
        _ => return None,
    };
    Some(Finished {
        instance: history_delta.last()?.instance_id.clone(),
        completed,
        output: metadata.output.clone().unwrap_or_default(),
    })
}

#[async_trait]
impl Provider for Observed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn version(&self) -> &str {
        self.inner.version()
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        self.inner
            .fetch_orchestration_item(lock_timeout, poll_timeout, filter)
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
        let finished = finished(&history_delta, &metadata);
        self.inner
            .ack_orchestration_item(
                lock_token,
                execution_id,
                history_delta,
                worker_items,
                orchestrator_items,
                metadata,
                cancelled_activities,
            )
            .await?;
        self.turns.fetch_add(1, Ordering::Relaxed);
        if let Some(finished) = finished {
            (self.on_finished)(finished);
        }
        Ok(())
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.inner
            .abandon_orchestration_item(lock_token, delay, ignore_attempt)
            .await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.inner.read(instance).await
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>, ProviderError> {
        self.inner.read_with_execution(instance, execution_id).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.inner
            .append_with_execution(instance, execution_id, new_events)
            .await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.inner.enqueue_for_worker(item).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        self.inner
            .fetch_work_item(lock_timeout, poll_timeout, session, tag_filter)
            .await
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.inner.ack_work_item(token, completion).await?;
        self.activities.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.inner.renew_work_item_lock(token, extend_for).await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        self.inner.renew_session_lock(owner_ids, extend_for, idle_timeout).await
    }

    async fn cleanup_orphaned_sessions(&self, idle_timeout: Duration) -> Result<usize, ProviderError> {
        self.inner.cleanup_orphaned_sessions(idle_timeout).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.inner.abandon_work_item(token, delay, ignore_attempt).await
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.inner.renew_orchestration_item_lock(token, extend_for).await
    }

    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        self.inner.enqueue_for_orchestrator(item, delay).await?;
        self.enqueued.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        self.inner.as_management_capability()
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        self.inner.get_custom_status(instance, last_seen_version).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        self.inner.get_kv_value(instance, key).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        self.inner.get_kv_all_values(instance).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        self.inner.get_instance_stats(instance).await
    }
}

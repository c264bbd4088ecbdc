//! A provider that forwards and counts every call.

use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, ScheduledActivityIdentifier, WorkItem};
use perennial_interpose::{Interpose, Interposed};
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
    /// Its output, or the text of its error.
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
    /// All durable commits that callers requested.
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
    pub fn new(
        inner: Arc<dyn Provider>,
        on_finished: impl Fn(Finished) + Send + Sync + 'static,
    ) -> Arc<Interposed<Self>> {
        Arc::new(Interposed::new(Self {
            inner,
            on_finished: Box::new(on_finished),
            enqueued: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            activities: AtomicU64::new(0),
        }))
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
impl Interpose for Observed {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
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

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.inner.ack_work_item(token, completion).await?;
        self.activities.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        self.inner.enqueue_for_orchestrator(item, delay).await?;
        self.enqueued.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

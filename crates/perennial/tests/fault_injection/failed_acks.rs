//! A provider that fills the disk under an acknowledgement.

use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, ScheduledActivityIdentifier, WorkItem};
use perennial_interpose::Interpose;
use perennial_kv::MemoryDisk;
use perennial_workflow::Workflows;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Fills the disk under an acknowledgement of a turn, and counts those that fail.
pub struct FailedAcks {
    inner: Workflows,
    disk: MemoryDisk,
    before_full: AtomicUsize,
    count: AtomicUsize,
    changed: Notify,
}

#[async_trait]
impl Interpose for FailedAcks {
    fn inner(&self) -> &dyn Provider {
        &self.inner
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
        if self.before_full.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.disk.fail_writes("No space left on device");
        }
        let outcome = self
            .inner
            .ack_orchestration_item(
                lock_token,
                execution_id,
                history_delta,
                worker_items,
                orchestrator_items,
                metadata,
                cancelled_activities,
            )
            .await;
        if outcome.is_err() {
            self.count.fetch_add(1, Ordering::SeqCst);
            self.changed.notify_waiters();
        }
        outcome
    }
}

impl FailedAcks {
    /// Lets this many acknowledgements pass before the disk is full.
    pub fn after(before_full: usize, inner: Workflows, disk: MemoryDisk) -> Self {
        Self {
            inner,
            disk,
            before_full: AtomicUsize::new(before_full),
            count: AtomicUsize::new(0),
            changed: Notify::new(),
        }
    }

    /// Waits until this many have failed.
    pub async fn reach(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.count.load(Ordering::SeqCst) >= count {
                return;
            }
            changed.await;
        }
    }
}

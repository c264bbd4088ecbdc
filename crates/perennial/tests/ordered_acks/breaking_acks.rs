//! A provider under which the store breaks after an acknowledgement was given.

use crate::gated::GatedDisk;
use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, ScheduledActivityIdentifier, WorkItem};
use perennial_interpose::Interpose;
use perennial_workflow::Workflows;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fills the disk between the return of one ack and the sync of its commit.
pub struct BreakingAcks {
    pub inner: Workflows,
    pub disk: GatedDisk,
    /// How many acks come before that one.
    pub before: AtomicUsize,
    /// How many acks were refused.
    pub refused: AtomicUsize,
}

impl BreakingAcks {
    async fn ack(&self, ack: impl Future<Output = Result<(), ProviderError>>) -> Result<(), ProviderError> {
        let breaks = self.before.fetch_sub(1, Ordering::SeqCst) == 0;
        let held = breaks.then(|| self.disk.hold());
        let outcome = ack.await;
        if breaks {
            assert!(outcome.is_ok(), "it is ordered: {outcome:?}");
            self.disk.memory.fail_writes("No space left on device");
        }
        drop(held);
        self.refused.fetch_add(usize::from(outcome.is_err()), Ordering::SeqCst);
        outcome
    }
}

#[async_trait]
impl Interpose for BreakingAcks {
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
        self.ack(self.inner.ack_orchestration_item(
            lock_token,
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        ))
        .await
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.ack(self.inner.ack_work_item(token, completion)).await
    }
}

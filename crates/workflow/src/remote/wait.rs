//! Waiting for a workflow that another process runs.

use super::RemoteWorkflows;
use crate::engine::later;
use crate::read::Instances;
use crate::records::head::Head;
use crate::tuning::{FAILURE_PAUSE, REMOTE_WAIT_FIRST_PAUSE, REMOTE_WAIT_LONGEST_PAUSE};
use crate::wait::result_of;
use duroxide::{Client, ClientError, OrchestrationStatus};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

impl RemoteWorkflows {
    /// Waits until an instance has completed or failed, and returns its final status; [`ClientError::Timeout`] if it has not
    /// within `timeout`. An instance that does not exist yet is waited for.
    ///
    /// It reads the instance again and again, less often than `Client::wait_for_orchestration` does. Dropping it cancels it.
    pub async fn wait(&self, instance: &str, timeout: Duration) -> Result<OrchestrationStatus, ClientError> {
        let clock = &self.inner.clock;
        let deadline_ms = later(clock.now_ms(), timeout);
        let mut pause = REMOTE_WAIT_FIRST_PAUSE;
        loop {
            let ended = self.ended(instance).await;
            let left = Duration::from_millis(deadline_ms.saturating_sub(clock.now_ms()));
            let next = match ended {
                Ok(Some(status)) => return Ok(status),
                Err(error) if !error.is_retryable() || left.is_zero() => return Err(error),
                Ok(None) if left.is_zero() => return Err(ClientError::Timeout),
                Err(_) => FAILURE_PAUSE,
                Ok(None) => pause,
            };
            clock.sleep(next.min(left)).await;
            pause = (pause * 2).min(REMOTE_WAIT_LONGEST_PAUSE);
        }
    }

    /// Waits until an instance has ended and decodes what it returned; the inner error is that of a workflow that failed.
    pub async fn result<T: DeserializeOwned>(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<Result<T, String>, ClientError> {
        result_of(self.wait(instance, timeout).await?)
    }

    /// The status of an instance that has ended.
    async fn ended(&self, instance: &str) -> Result<Option<OrchestrationStatus>, ClientError> {
        let snapshot = self.inner.reader.snapshot("wait", instance).await;
        let snapshot = snapshot.map_err(ClientError::Provider)?;
        if !snapshot.head().is_some_and(Head::is_terminal) {
            return Ok(None);
        }
        let client = Client::new(Arc::new(self.clone()));
        match client.get_orchestration_status(instance).await? {
            status @ (OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. }) => Ok(Some(status)),
            // It was deleted, and perhaps started again, since it was read.
            OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => Ok(None),
        }
    }
}

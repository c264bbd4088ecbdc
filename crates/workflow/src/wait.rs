//! Waiting for a workflow to end, without polling where this process ends it.

use crate::engine::{Engine, later};
use crate::read::Freshness;
use crate::records::head::Head;
use crate::tuning::{FAILURE_PAUSE, WAIT_FIRST_PAUSE, WAIT_LONGEST_PAUSE};
use crate::workflows::Workflows;
use duroxide::{Client, ClientError, OrchestrationStatus};
use perennial_store::Sharing;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

const OPERATION: &str = "wait";

impl Workflows {
    /// Waits until an instance has completed or failed, and returns its final status; [`ClientError::Timeout`] if it has not
    /// within `timeout`. An instance that does not exist yet is waited for.
    ///
    /// It returns what `Client::wait_for_orchestration` returns, which polls every 5 to 100 ms. This is woken by the commit
    /// that ends the instance, if this process makes it; on a store that many processes share it also reads the instance
    /// again after 25 ms to 1 s. It never returns a status that a power cut could take back. Dropping it cancels it.
    ///
    /// ```no_run
    /// # async fn example(workflows: perennial_workflow::Workflows) -> Result<(), duroxide::ClientError> {
    /// use std::time::Duration;
    /// let status = workflows.wait("order-17", Duration::from_secs(30)).await?;
    /// println!("{status:?}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self, instance: &str, timeout: Duration) -> Result<OrchestrationStatus, ClientError> {
        let name: Arc<str> = Arc::from(instance);
        let deadline_ms = later(self.engine().clock.now_ms(), timeout);
        let mut pause = WAIT_FIRST_PAUSE;
        loop {
            let mut watcher = self.engine().cache.watchers.watch(&name);
            let outcome = match self.engine_for(OPERATION).await {
                // Another engine took the place of the one that is watched.
                Ok(engine) if !watcher.is_of(&engine.cache.watchers) => continue,
                Ok(engine) => self.ended(&engine, instance).await,
                Err(error) => Err(ClientError::Provider(error)),
            };
            let engine = self.engine();
            let left = Duration::from_millis(deadline_ms.saturating_sub(engine.clock.now_ms()));
            let next = match outcome {
                Ok(Some(status)) => return Ok(status),
                Err(error) if !error.is_retryable() || !self.may_recover() => return Err(error),
                Err(error) if left.is_zero() => return Err(error),
                Ok(None) if left.is_zero() => return Err(ClientError::Timeout),
                // The store is away for the moment.
                Err(_) => FAILURE_PAUSE,
                Ok(None) if engine.store.sharing() == Sharing::Shared => pause,
                Ok(None) => Duration::MAX,
            };
            tokio::select! {
                () = watcher.changed() => {}
                () = self.replaced(&engine) => {}
                () = engine.clock.sleep(next.min(left)) => pause = (pause * 2).min(WAIT_LONGEST_PAUSE),
            }
        }
    }

    /// The status of an instance that has ended.
    async fn ended(&self, engine: &Engine, instance: &str) -> Result<Option<OrchestrationStatus>, ClientError> {
        let snapshot = engine.view(OPERATION, instance, Freshness::Recent).await;
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

    /// Waits until an instance has ended and decodes what it returned; the inner error is that of a workflow that failed.
    ///
    /// ```no_run
    /// # async fn example(workflows: perennial_workflow::Workflows) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let total: u64 = workflows.result("order-17", Duration::from_secs(30)).await??;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn result<T: DeserializeOwned>(
        &self,
        instance: &str,
        timeout: Duration,
    ) -> Result<Result<T, String>, ClientError> {
        result_of(self.wait(instance, timeout).await?)
    }
}

/// What a workflow returned, or why it failed, by its final status.
pub fn result_of<T: DeserializeOwned>(status: OrchestrationStatus) -> Result<Result<T, String>, ClientError> {
    match status {
        OrchestrationStatus::Failed { details, .. } => Ok(Err(details.display_message())),
        OrchestrationStatus::Completed { output, .. } => decode(&output).map(Ok),
        _ => Err(ClientError::Timeout),
    }
}

/// What a workflow returned, as the runtime encodes it: text that is not JSON stands for itself.
fn decode<T: DeserializeOwned>(output: &str) -> Result<T, ClientError> {
    serde_json::from_str(output).or_else(|why| {
        let text = serde_json::Value::String(output.to_owned());
        serde_json::from_value(text).map_err(|_| ClientError::InvalidInput {
            message: format!("the workflow's output {output:?} is of another type: {why}"),
        })
    })
}

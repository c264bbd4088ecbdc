//! The evidence on which the verdict is based.

use crate::Failure;
use crate::ledger::Lines;
use duroxide::providers::Provider;
use duroxide::{AppErrorKind, Client, ErrorDetails, Event, OrchestrationStatus};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How an instance ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has not.
    Running,
    /// With an output.
    Completed(String),
    /// By a cancellation, with its reason.
    Cancelled(String),
    /// With an error.
    Failed(String),
}

impl From<OrchestrationStatus> for Outcome {
    fn from(status: OrchestrationStatus) -> Self {
        match status {
            OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => Self::Running,
            OrchestrationStatus::Completed { output, .. } => Self::Completed(output),
            OrchestrationStatus::Failed { details, .. } => match details {
                ErrorDetails::Application {
                    kind: AppErrorKind::Cancelled { reason },
                    ..
                } => Self::Cancelled(reason),
                other => Self::Failed(other.display_message()),
            },
        }
    }
}

/// An instance as the store has it at the end.
#[derive(Debug, Clone)]
pub struct Instance {
    /// How it ended.
    pub outcome: Outcome,
    /// Its custom status.
    pub custom_status: Option<String>,
    /// Its values.
    pub values: BTreeMap<String, String>,
    /// The history of each execution.
    pub executions: BTreeMap<u64, Vec<Event>>,
}

/// The ledger, and what the store has at the end.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The ledger.
    pub ledger: Lines,
    /// The store's instances.
    pub instances: BTreeMap<String, Instance>,
    /// How many items are queued in the store.
    pub queued: usize,
}

impl Evidence {
    /// Reads everything that the store has.
    pub async fn gather(store: Arc<dyn Provider>, ledger: Lines) -> Result<Self, Failure> {
        let client = Client::new(Arc::clone(&store));
        let mut instances = BTreeMap::new();
        for instance in client.list_all_instances().await? {
            let found = Instance::gather(&client, &*store, &instance).await?;
            instances.insert(instance, found);
        }
        let depths = client.get_queue_depths().await?;
        Ok(Self {
            ledger,
            instances,
            queued: depths.orchestrator_queue + depths.worker_queue + depths.timer_queue,
        })
    }

    /// How an instance ended, if it is there.
    pub fn outcome(&self, instance: &str) -> Option<&Outcome> {
        self.instances.get(instance).map(|found| &found.outcome)
    }

    /// The history of an execution; empty if it is not there.
    pub fn history(&self, instance: &str, execution: u64) -> &[Event] {
        let found = self
            .instances
            .get(instance)
            .and_then(|found| found.executions.get(&execution));
        found.map_or(&[], Vec::as_slice)
    }
}

impl Instance {
    /// Reads everything that the store has of one instance.
    pub async fn gather(client: &Client, store: &dyn Provider, instance: &str) -> Result<Self, Failure> {
        let mut executions = BTreeMap::new();
        for execution in client.list_executions(instance).await? {
            executions.insert(execution, client.read_execution_history(instance, execution).await?);
        }
        Ok(Self {
            outcome: client.get_orchestration_status(instance).await?.into(),
            custom_status: store
                .get_custom_status(instance, 0)
                .await?
                .and_then(|(status, _)| status),
            values: store.get_kv_all_values(instance).await?.into_iter().collect(),
            executions,
        })
    }
}

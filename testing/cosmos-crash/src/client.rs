//! The client that starts workflows, sends to them, reads their results, and deletes them.

use crate::Failure;
use crate::case::{APPROVAL, Case, EVENT, Kind, MESSAGES, QUEUE};
use duroxide::providers::Provider;
use duroxide::{Client, EventKind};
use perennial_crash::check::Instance;
use std::sync::Arc;
use std::time::Duration;

/// How long a workflow may take: all workers may be frozen or dead for a while.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How often the store is polled for changes that have no signal.
const GLANCE: Duration = Duration::from_millis(50);

/// A client, in a process that runs no workflows.
pub struct Driver {
    store: Arc<dyn Provider>,
    client: Client,
}

impl Driver {
    /// A client of the store.
    pub fn new(store: Arc<dyn Provider>) -> Self {
        Self {
            client: Client::new(Arc::clone(&store)),
            store,
        }
    }

    /// The client itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs a case to its end and deletes it. Returns what the store had recorded of it and of the instances that it started.
    pub async fn run(&self, case: Case) -> Result<Vec<(String, Instance)>, Failure> {
        let found = self.run_and_gather(case).await;
        found.map_err(|why| format!("{case}: {why}").into())
    }

    async fn run_and_gather(&self, case: Case) -> Result<Vec<(String, Instance)>, Failure> {
        let instance = case.to_string();
        self.client
            .start_orchestration(&instance, case.kind.workflow(), "")
            .await?;
        match case.kind {
            Kind::Approve => {
                self.until_waiting(&instance).await?;
                self.client.raise_event(&instance, EVENT, APPROVAL).await?;
            }
            Kind::Inbox => {
                for message in MESSAGES {
                    self.client.enqueue_event(&instance, QUEUE, message).await?;
                }
            }
            _ => {}
        }
        self.client.wait_for_orchestration(&instance, TIMEOUT).await?;
        let mut found = Vec::new();
        for id in self.client.get_instance_tree(&instance).await?.all_ids {
            let gathered = Instance::gather(&self.client, &*self.store, &id).await?;
            found.push((id, gathered));
        }
        self.client.delete_instance(&instance, false).await?;
        Ok(found)
    }

    /// Waits until an instance waits for its event.
    async fn until_waiting(&self, instance: &str) -> Result<(), Failure> {
        let waits = |kind: &EventKind| matches!(kind, EventKind::ExternalSubscribed { name } if name == EVENT);
        let wait = async {
            while !self.store.read(instance).await?.iter().any(|event| waits(&event.kind)) {
                tokio::time::sleep(GLANCE).await;
            }
            Ok(())
        };
        let waited = tokio::time::timeout(TIMEOUT, wait).await;
        waited.map_err(|_| "it never waited for its event")?
    }
}

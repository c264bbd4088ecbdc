//! A provider that passes every call on and writes down what the store acknowledged.

use crate::ledger::Ledger;
use crate::line::{Activity, Line, Turn};
use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    ExecutionMetadata, Provider, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use perennial::Workflows;
use perennial_interpose::{Interpose, Interposed};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// Wraps a provider. The line of an ack is written when the ack is durable: then it is a promise.
pub struct Witness {
    inner: Arc<Workflows>,
    ledger: Arc<Ledger>,
}

impl Witness {
    /// Wraps `inner`.
    pub fn new(inner: Arc<Workflows>, ledger: Arc<Ledger>) -> Arc<Interposed<Self>> {
        Arc::new(Interposed::new(Self { inner, ledger }))
    }

    /// An ack has returned: writes its line as soon as it is durable.
    fn promise(&self, line: Option<Line>) {
        let Some(line) = line else { return };
        let (inner, ledger) = (Arc::clone(&self.inner), Arc::clone(&self.ledger));
        tokio::spawn(async move {
            inner.flush().await;
            if inner.health().is_working() {
                ledger.append(&line);
            }
        });
    }
}

/// Passes to an activity, in its input, which event scheduled it: its context does not say.
fn tell(item: &mut WorkItem) {
    if let WorkItem::ActivityExecute { id, input, .. } = item {
        *input = format!("{id}|{input}");
    }
}

/// The event that scheduled an activity, and its input as the workflow gave it.
pub fn told(input: &str) -> Result<(u64, &str), String> {
    let (id, input) = input.split_once('|').ok_or("the activity was not told its id")?;
    Ok((id.parse().map_err(|_| "the id of the activity is not a number")?, input))
}

/// A digest of events, the same before they are stored and after.
pub fn digest<'a>(events: impl IntoIterator<Item = &'a Event>) -> u64 {
    let mut digest = DefaultHasher::new();
    for event in events {
        digest.write(&serde_json::to_vec(event).expect("an event is JSON"));
    }
    digest.finish()
}

fn turned(history_delta: &[Event]) -> Option<Line> {
    let (first, last) = (history_delta.first()?, history_delta.last()?);
    Some(Line::Turned(Turn {
        instance: first.instance_id.clone(),
        execution: first.execution_id,
        first: first.event_id,
        last: last.event_id,
        digest: digest(history_delta),
    }))
}

fn done(completion: &WorkItem) -> Option<Line> {
    match completion {
        WorkItem::ActivityCompleted {
            instance,
            execution_id,
            id,
            ..
        }
        | WorkItem::ActivityFailed {
            instance,
            execution_id,
            id,
            ..
        } => Some(Line::Done(Activity {
            instance: instance.clone(),
            execution: *execution_id,
            id: *id,
        })),
        _ => None,
    }
}

#[async_trait]
impl Interpose for Witness {
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
        let line = turned(&history_delta);
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
        self.promise(line);
        Ok(())
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        let mut fetched = self
            .inner
            .fetch_work_item(lock_timeout, poll_timeout, session, tag_filter)
            .await?;
        if let Some((item, ..)) = &mut fetched {
            tell(item);
        }
        Ok(fetched)
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        let line = completion.as_ref().and_then(done);
        self.inner.ack_work_item(token, completion).await?;
        self.promise(line);
        Ok(())
    }
}

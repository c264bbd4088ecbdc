//! Short helpers for calls of the provider, for tests that call it directly.

use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig,
    WorkItem,
};
use duroxide::{Event, EventKind};
use std::time::Duration;

/// A lease that outlasts any test.
pub const LEASE: Duration = Duration::from_secs(60);
/// No waiting.
pub const NOW: Duration = Duration::ZERO;

/// A turn that was handed out: what, its token, its attempt.
pub type Turn = (OrchestrationItem, String, u32);
/// An activity that was handed out: what, its token, its attempt.
pub type Work = (WorkItem, String, u32);

/// The start of an instance.
pub fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Flow".to_owned(),
        input: "in".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

/// An event for an instance.
pub fn raised(instance: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "event".to_owned(),
        data: data.to_owned(),
    }
}

/// A message for a queue of an instance.
pub fn queued(instance: &str, data: &str) -> WorkItem {
    WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "queue".to_owned(),
        data: data.to_owned(),
    }
}

/// The cancellation of an instance.
pub fn cancel(instance: &str) -> WorkItem {
    WorkItem::CancelInstance {
        instance: instance.to_owned(),
        reason: "test".to_owned(),
    }
}

/// The start of the next execution of an instance.
pub fn continued(instance: &str) -> WorkItem {
    WorkItem::ContinueAsNew {
        instance: instance.to_owned(),
        orchestration: "Flow".to_owned(),
        input: "next".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
    }
}

/// An activity.
pub fn activity(instance: &str, id: u64) -> WorkItem {
    routed(instance, id, None, None)
}

/// An activity of a session, or with a tag.
pub fn routed(instance: &str, id: u64, session: Option<&str>, tag: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "Work".to_owned(),
        input: format!("input {id}"),
        session_id: session.map(str::to_owned),
        tag: tag.map(str::to_owned),
    }
}

/// The result of an activity.
pub fn completed(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        result: format!("result {id}"),
    }
}

/// What names an activity.
pub fn identity(instance: &str, id: u64) -> ScheduledActivityIdentifier {
    ScheduledActivityIdentifier {
        instance: instance.to_owned(),
        execution_id: 1,
        activity_id: id,
    }
}

/// An event of a history.
pub fn event(instance: &str, execution: u64, id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, execution, None, kind)
}

/// An event of no consequence.
pub fn noted(instance: &str, id: u64) -> Event {
    let kind = EventKind::ExternalEvent {
        name: "noted".to_owned(),
        data: format!("event {id}"),
    };
    event(instance, 1, id, kind)
}

/// The first event of an execution.
pub fn started(instance: &str, execution: u64) -> Event {
    let kind = EventKind::OrchestrationStarted {
        name: "Flow".to_owned(),
        version: "1.0.0".to_owned(),
        input: "in".to_owned(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    event(instance, execution, 1, kind)
}

/// A value that a turn sets.
pub fn kv_set(instance: &str, id: u64, key: &str, value: &str) -> Event {
    let kind = EventKind::KeyValueSet {
        key: key.to_owned(),
        value: value.to_owned(),
        last_updated_at_ms: 1_700_000_000_000,
    };
    event(instance, 1, id, kind)
}

/// Everything one acknowledgement may carry, empty at first.
#[derive(Default, Clone)]
pub struct Ack {
    /// The execution that it belongs to.
    pub execution: u64,
    /// What happened.
    pub events: Vec<Event>,
    /// Activities to queue.
    pub work: Vec<WorkItem>,
    /// Messages to send.
    pub messages: Vec<WorkItem>,
    /// The metadata of the execution.
    pub metadata: ExecutionMetadata,
    /// Activities to cancel.
    pub cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Ack {
    /// An ack that changes nothing.
    pub fn empty() -> Self {
        Self {
            execution: 1,
            ..Self::default()
        }
    }

    /// The ack of a first turn: name, version, the start event.
    pub fn first(instance: &str) -> Self {
        Self::execution(instance, 1)
    }

    /// The ack of the first turn of an execution.
    pub fn execution(instance: &str, execution: u64) -> Self {
        let metadata = ExecutionMetadata {
            orchestration_name: Some("Flow".to_owned()),
            orchestration_version: Some("1.0.0".to_owned()),
            pinned_duroxide_version: Some(duroxide::current_build_version()),
            ..ExecutionMetadata::default()
        };
        Self {
            execution,
            events: vec![started(instance, execution)],
            metadata,
            ..Self::default()
        }
    }

    /// With these events too.
    pub fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.events.extend(events);
        self
    }

    /// With these activities too.
    pub fn work(mut self, items: impl IntoIterator<Item = WorkItem>) -> Self {
        self.work.extend(items);
        self
    }

    /// With these messages too.
    pub fn messages(mut self, items: impl IntoIterator<Item = WorkItem>) -> Self {
        self.messages.extend(items);
        self
    }

    /// With these activities cancelled.
    pub fn cancelled(mut self, ids: impl IntoIterator<Item = ScheduledActivityIdentifier>) -> Self {
        self.cancelled.extend(ids);
        self
    }

    /// With this status, and an output.
    pub fn status(mut self, status: &str) -> Self {
        self.metadata.status = Some(status.to_owned());
        self.metadata.output = Some(format!("output of {status}"));
        self
    }

    /// Makes it durable.
    pub async fn send(self, store: &dyn Provider, token: &str) -> Result<(), ProviderError> {
        let Self {
            execution,
            events,
            work,
            messages,
            metadata,
            cancelled,
        } = self;
        store
            .ack_orchestration_item(token, execution, events, work, messages, metadata, cancelled)
            .await
    }
}

/// Puts a message into the orchestrator queue.
pub async fn send(store: &dyn Provider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.expect("enqueue");
}

/// Puts an activity into the worker queue.
pub async fn push(store: &dyn Provider, item: WorkItem) {
    store.enqueue_for_worker(item).await.expect("enqueue");
}

/// A session owner whose claims last for [`LEASE`].
pub fn owner(id: &str) -> SessionFetchConfig {
    SessionFetchConfig {
        owner_id: id.to_owned(),
        lock_timeout: LEASE,
    }
}

/// The next turn, if one comes in time.
pub async fn turn_within(store: &dyn Provider, wait: Duration) -> Option<Turn> {
    store.fetch_orchestration_item(LEASE, wait, None).await.expect("fetch")
}

/// The next turn, which must come in time and be of this instance.
pub async fn turn_of_within(store: &dyn Provider, instance: &str, wait: Duration) -> Turn {
    let turn = turn_within(store, wait).await.expect("a turn is ready");
    assert_eq!(turn.0.instance, instance, "the next turn is of another instance");
    turn
}

/// Makes an instance that runs; each of its turns must come in time.
pub async fn running_within(store: &dyn Provider, instance: &str, wait: Duration) {
    send(store, start(instance)).await;
    let (_, token, _) = turn_of_within(store, instance, wait).await;
    Ack::first(instance).send(store, &token).await.expect("ack");
}

/// Ends an execution so that the next one is about to begin.
pub async fn hop_within(store: &dyn Provider, instance: &str, execution: u64, wait: Duration) {
    send(store, raised(instance, "hop")).await;
    let (_, token, _) = turn_of_within(store, instance, wait).await;
    let end = EventKind::OrchestrationContinuedAsNew {
        input: "next".to_owned(),
    };
    let mut ack = Ack::empty()
        .events([event(instance, execution, 100, end)])
        .messages([continued(instance)]);
    ack.execution = execution;
    ack.status("ContinuedAsNew").send(store, &token).await.expect("ack");
}

/// Makes an instance that runs in its `executions`-th execution.
pub async fn continued_to_within(store: &dyn Provider, instance: &str, executions: u64, wait: Duration) {
    running_within(store, instance, wait).await;
    for execution in 1..executions {
        hop_within(store, instance, execution, wait).await;
        let (_, token, _) = turn_of_within(store, instance, wait).await;
        Ack::execution(instance, execution + 1)
            .send(store, &token)
            .await
            .expect("ack");
    }
}

//! The provider's calls, by hand.

use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError, ScheduledActivityIdentifier,
    SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use perennial_workflow::Workflows;
use std::time::Duration;

/// A lease that does not end during a test.
pub const LEASE: Duration = Duration::from_secs(60);
/// How long a fetch waits that must find something.
pub const SOON: Duration = Duration::from_secs(10);

/// A turn that was handed out: what it is, its token, how often it was.
pub type Turn = (OrchestrationItem, String, u32);
/// An activity that was handed out.
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

/// An activity, perhaps of a session.
pub fn activity(instance: &str, id: u64, session: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "Work".to_owned(),
        input: "input".to_owned(),
        session_id: session.map(str::to_owned),
        tag: None,
    }
}

/// The result of an activity.
pub fn completed(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        result: "result".to_owned(),
    }
}

/// An event of a history.
pub fn event(instance: &str, execution: u64, id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, execution, None, kind)
}

/// A value that a turn sets.
pub fn value(instance: &str, id: u64) -> Event {
    let kind = EventKind::KeyValueSet {
        key: format!("key {id}"),
        value: format!("value {id}"),
        last_updated_at_ms: 1_700_000_000_000,
    };
    event(instance, 1, id, kind)
}

/// Who takes activities of sessions.
pub fn owner(id: &str) -> SessionFetchConfig {
    SessionFetchConfig {
        owner_id: id.to_owned(),
        lock_timeout: LEASE,
    }
}

/// What a turn makes durable.
#[derive(Default)]
pub struct Ack {
    /// The execution that it belongs to.
    pub execution: u64,
    /// What happened.
    pub events: Vec<Event>,
    /// Activities to queue.
    pub work: Vec<WorkItem>,
    /// Messages to send.
    pub messages: Vec<WorkItem>,
    /// What becomes of the execution.
    pub metadata: ExecutionMetadata,
    /// Activities to cancel.
    pub cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Ack {
    /// Nothing.
    pub fn empty() -> Self {
        Self {
            execution: 1,
            ..Self::default()
        }
    }

    /// The first turn of an execution.
    pub fn first(instance: &str, execution: u64) -> Self {
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
        Self {
            execution,
            events: vec![event(instance, execution, 1, kind)],
            metadata: ExecutionMetadata {
                orchestration_name: Some("Flow".to_owned()),
                orchestration_version: Some("1.0.0".to_owned()),
                pinned_duroxide_version: Some(duroxide::current_build_version()),
                ..ExecutionMetadata::default()
            },
            ..Self::default()
        }
    }

    /// With this status, and an output.
    pub fn status(mut self, status: &str) -> Self {
        self.metadata.status = Some(status.to_owned());
        self.metadata.output = Some(format!("output of {}", self.execution));
        self
    }

    /// Makes it durable.
    pub async fn send(self, store: &Workflows, token: &str) -> Result<(), ProviderError> {
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

/// Sends a message.
pub async fn send(store: &Workflows, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.expect("a message");
}

/// The next turn, if one comes in time.
pub async fn turn_within(store: &Workflows, lock: Duration, wait: Duration) -> Option<Turn> {
    store.fetch_orchestration_item(lock, wait, None).await.expect("a fetch")
}

/// The next turn, which must come soon.
pub async fn turn(store: &Workflows) -> Turn {
    turn_within(store, LEASE, SOON).await.expect("a turn comes")
}

/// The next activity, if one comes in time.
pub async fn work_within(store: &Workflows, session: Option<&str>, lock: Duration, wait: Duration) -> Option<Work> {
    let session = session.map(owner);
    let fetched = store.fetch_work_item(lock, wait, session.as_ref(), &TagFilter::DefaultOnly);
    fetched.await.expect("a fetch")
}

/// Makes an instance that runs.
pub async fn running(store: &Workflows, instance: &str) {
    send(store, start(instance)).await;
    let (item, token, _) = turn(store).await;
    assert_eq!(item.instance, instance);
    Ack::first(instance, 1).send(store, &token).await.expect("an ack");
}

/// Makes an instance that runs in its `executions`-th execution.
pub async fn continued_to(store: &Workflows, instance: &str, executions: u64) {
    running(store, instance).await;
    for execution in 1..executions {
        send(store, raised(instance, "hop")).await;
        let (_, token, _) = turn(store).await;
        let end = EventKind::OrchestrationContinuedAsNew {
            input: "next".to_owned(),
        };
        let next = WorkItem::ContinueAsNew {
            instance: instance.to_owned(),
            orchestration: "Flow".to_owned(),
            input: "next".to_owned(),
            version: Some("1.0.0".to_owned()),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: Vec::new(),
            initial_custom_status: None,
        };
        let ack = Ack {
            execution,
            events: vec![event(instance, execution, 100, end)],
            messages: vec![next],
            ..Ack::default()
        };
        ack.status("ContinuedAsNew").send(store, &token).await.expect("an ack");
        let (_, token, _) = turn(store).await;
        Ack::first(instance, execution + 1)
            .send(store, &token)
            .await
            .expect("an ack");
    }
}

/// The administration side.
pub fn admin(store: &Workflows) -> &dyn ProviderAdmin {
    store.as_management_capability().expect("it can be administered")
}

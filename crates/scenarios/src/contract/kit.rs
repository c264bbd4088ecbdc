//! Short words for long provider calls.

use std::time::Duration;

use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig,
    TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};

use crate::Harness;

/// A lease that outlasts any test.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// No waiting at all.
pub(super) const NOW: Duration = Duration::ZERO;
/// A wait that a test hopes never to sit through.
pub(super) const LONG: Duration = Duration::from_secs(20);
/// Far more than a wake-up needs, far less than [`LONG`].
pub(super) const SOON: Duration = Duration::from_secs(3);

/// A fetched turn: what, its token, its attempt.
pub(super) type Turn = (OrchestrationItem, String, u32);
/// A fetched work item: what, its token, its attempt.
pub(super) type Work = (WorkItem, String, u32);

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn start(instance: &str) -> WorkItem {
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

pub(super) fn raised(instance: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "event".to_owned(),
        data: data.to_owned(),
    }
}

pub(super) fn queued(instance: &str, data: &str) -> WorkItem {
    WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "queue".to_owned(),
        data: data.to_owned(),
    }
}

pub(super) fn cancel(instance: &str) -> WorkItem {
    WorkItem::CancelInstance {
        instance: instance.to_owned(),
        reason: "test".to_owned(),
    }
}

pub(super) fn continued(instance: &str) -> WorkItem {
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

pub(super) fn activity(instance: &str, id: u64) -> WorkItem {
    routed(instance, id, None, None)
}

pub(super) fn routed(instance: &str, id: u64, session: Option<&str>, tag: Option<&str>) -> WorkItem {
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

pub(super) fn completed(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        result: format!("result {id}"),
    }
}

pub(super) fn identity(instance: &str, id: u64) -> ScheduledActivityIdentifier {
    ScheduledActivityIdentifier {
        instance: instance.to_owned(),
        execution_id: 1,
        activity_id: id,
    }
}

pub(super) fn event(instance: &str, execution: u64, id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, execution, None, kind)
}

/// An event of no consequence.
pub(super) fn noted(instance: &str, id: u64) -> Event {
    let kind = EventKind::ExternalEvent {
        name: "noted".to_owned(),
        data: format!("event {id}"),
    };
    event(instance, 1, id, kind)
}

pub(super) fn started(instance: &str, execution: u64) -> Event {
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

pub(super) fn kv_set(instance: &str, id: u64, key: &str, value: &str) -> Event {
    let kind = EventKind::KeyValueSet {
        key: key.to_owned(),
        value: value.to_owned(),
        last_updated_at_ms: 1_700_000_000_000,
    };
    event(instance, 1, id, kind)
}

/// Everything one acknowledgement may carry, empty at first.
#[derive(Default, Clone)]
pub(super) struct Ack {
    pub(super) execution: u64,
    pub(super) events: Vec<Event>,
    pub(super) work: Vec<WorkItem>,
    pub(super) messages: Vec<WorkItem>,
    pub(super) metadata: ExecutionMetadata,
    pub(super) cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Ack {
    /// An ack that changes nothing.
    pub(super) fn empty() -> Self {
        Self {
            execution: 1,
            ..Self::default()
        }
    }

    /// The ack of a first turn: name, version, the start event.
    pub(super) fn first(instance: &str) -> Self {
        Self::execution(instance, 1)
    }

    /// The ack of the first turn of an execution.
    pub(super) fn execution(instance: &str, execution: u64) -> Self {
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

    pub(super) fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.events.extend(events);
        self
    }

    pub(super) fn work(mut self, items: impl IntoIterator<Item = WorkItem>) -> Self {
        self.work.extend(items);
        self
    }

    pub(super) fn messages(mut self, items: impl IntoIterator<Item = WorkItem>) -> Self {
        self.messages.extend(items);
        self
    }

    pub(super) fn cancelled(mut self, ids: impl IntoIterator<Item = ScheduledActivityIdentifier>) -> Self {
        self.cancelled.extend(ids);
        self
    }

    pub(super) fn status(mut self, status: &str) -> Self {
        self.metadata.status = Some(status.to_owned());
        self.metadata.output = Some(format!("output of {status}"));
        self
    }

    pub(super) async fn send(self, store: &dyn Provider, token: &str) -> Result<(), ProviderError> {
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
pub(super) async fn send(store: &dyn Provider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.expect("enqueue");
}

/// Puts an activity into the worker queue.
pub(super) async fn push(store: &dyn Provider, item: WorkItem) {
    store.enqueue_for_worker(item).await.expect("enqueue");
}

/// The next turn, if there is one right now.
pub(super) async fn try_turn(store: &dyn Provider) -> Option<Turn> {
    store.fetch_orchestration_item(LEASE, NOW, None).await.expect("fetch")
}

/// The next turn, which must be there right now.
pub(super) async fn turn(store: &dyn Provider) -> Turn {
    try_turn(store).await.expect("a turn is ready")
}

/// The next turn, which must be there right now and be of this instance.
pub(super) async fn turn_of(store: &dyn Provider, instance: &str) -> Turn {
    let turn = turn(store).await;
    assert_eq!(turn.0.instance, instance, "the next turn is of another instance");
    turn
}

/// The messages that wait for an instance right now, so many, in as few turns as the store needs for them: one, as a rule.
/// Turns before the last are acknowledged with nothing to tell, or the first one with `first`. Returns the last turn.
pub(super) async fn all_of(
    h: &Harness,
    instance: &str,
    expected: usize,
    mut first: Option<Ack>,
) -> (Vec<WorkItem>, Turn) {
    let store = h.store();
    let mut messages = Vec::new();
    loop {
        let last = turn_of(&*store, instance).await;
        messages.extend(last.0.messages.iter().cloned());
        let wanted = h
            .backend()
            .messages_per_turn()
            .min(expected + last.0.messages.len() - messages.len());
        assert_eq!(
            last.0.messages.len(),
            wanted,
            "a turn brings all that waits, or as much as the store can take"
        );
        if messages.len() == expected {
            return (messages, last);
        }
        let ack = first.take().unwrap_or_else(Ack::empty);
        ack.send(&*store, &last.1).await.expect("ack");
    }
}

/// The next free, untagged work item, if there is one right now.
pub(super) async fn try_work(store: &dyn Provider) -> Option<Work> {
    store
        .fetch_work_item(LEASE, NOW, None, &TagFilter::DefaultOnly)
        .await
        .expect("fetch")
}

/// The next free, untagged work item, which must be there right now.
pub(super) async fn work(store: &dyn Provider) -> Work {
    try_work(store).await.expect("a work item is ready")
}

/// The id of an activity.
pub(super) fn id_of(item: &WorkItem) -> u64 {
    match item {
        WorkItem::ActivityExecute { id, .. } => *id,
        other => panic!("not an activity: {other:?}"),
    }
}

/// The data of an event or a queue message.
pub(super) fn data_of(item: &WorkItem) -> &str {
    match item {
        WorkItem::ExternalRaised { data, .. } | WorkItem::QueueMessage { data, .. } => data,
        other => panic!("no data in {other:?}"),
    }
}

/// A session owner whose claims last for [`LEASE`].
pub(super) fn owner(id: &str) -> SessionFetchConfig {
    SessionFetchConfig {
        owner_id: id.to_owned(),
        lock_timeout: LEASE,
    }
}

/// Makes an instance that runs.
pub(super) async fn running(store: &dyn Provider, instance: &str) {
    send(store, start(instance)).await;
    let (_, token, _) = turn_of(store, instance).await;
    Ack::first(instance).send(store, &token).await.expect("ack");
}

/// Makes an instance that has ended.
pub(super) async fn ended(store: &dyn Provider, instance: &str) {
    send(store, start(instance)).await;
    let (_, token, _) = turn_of(store, instance).await;
    Ack::first(instance)
        .status("Completed")
        .send(store, &token)
        .await
        .expect("ack");
}

/// Makes an instance that runs in its `executions`-th execution.
pub(super) async fn continued_to(store: &dyn Provider, instance: &str, executions: u64) {
    running(store, instance).await;
    for execution in 1..executions {
        hop(store, instance, execution).await;
        let (_, token, _) = turn_of(store, instance).await;
        Ack::execution(instance, execution + 1)
            .send(store, &token)
            .await
            .expect("ack");
    }
}

/// Ends an execution so that the next one is about to begin.
pub(super) async fn hop(store: &dyn Provider, instance: &str, execution: u64) {
    send(store, raised(instance, "hop")).await;
    let (_, token, _) = turn_of(store, instance).await;
    let end = EventKind::OrchestrationContinuedAsNew {
        input: "next".to_owned(),
    };
    let mut ack = Ack::empty()
        .events([event(instance, execution, 100, end)])
        .messages([continued(instance)]);
    ack.execution = execution;
    ack.status("ContinuedAsNew").send(store, &token).await.expect("ack");
}

/// Milliseconds since the epoch, as instances are stamped.
pub(super) fn clock_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_millis() as u64
}

/// The instances that exist, sorted.
pub(super) async fn instances(store: &dyn Provider) -> Vec<String> {
    let admin = store.as_management_capability().expect("the store can be administered");
    let mut all = admin.list_instances().await.expect("list");
    all.sort_unstable();
    all
}

//! Helpers for the turns of scripted workflows.

use duroxide::providers::{ExecutionMetadata, OrchestrationItem, WorkItem};
use duroxide::{Event, EventKind};
use perennial_scenarios::calls;
pub use perennial_scenarios::calls::{activity, raised, start};

/// The result of a turn.
#[derive(Clone, Default)]
pub struct Reply {
    /// What happened, besides the messages that it consumes.
    pub kinds: Vec<EventKind>,
    /// Activities to queue.
    pub work: Vec<WorkItem>,
    /// Messages to send.
    pub messages: Vec<WorkItem>,
    /// How the workflow ends, if it does.
    pub status: Option<&'static str>,
}

/// What a workflow does in a turn.
pub type Story = fn(&OrchestrationItem) -> Reply;

pub fn completed(work: &WorkItem) -> WorkItem {
    let WorkItem::ActivityExecute { instance, id, .. } = work else {
        panic!("{work:?} is no activity");
    };
    calls::completed(instance, *id)
}

/// The name of a message in a history.
pub fn told(message: &WorkItem) -> String {
    match message {
        WorkItem::StartOrchestration { instance, .. } => format!("start {instance}"),
        WorkItem::ExternalRaised { data, .. } => data.clone(),
        WorkItem::ActivityCompleted { id, .. } => format!("done {id}"),
        other => format!("{other:?}"),
    }
}

/// The event that sets a key.
pub fn set(key: u64) -> EventKind {
    EventKind::KeyValueSet {
        key: format!("key {key}"),
        value: format!("value {key}"),
        last_updated_at_ms: 1,
    }
}

/// The messages consumed in a history.
pub fn consumed(history: &[Event]) -> Vec<String> {
    let data = |event: &Event| match &event.kind {
        EventKind::QueueEventDelivered { data, .. } => Some(data.clone()),
        _ => None,
    };
    history.iter().filter_map(data).collect()
}

/// The events of a turn: every message that it consumes, then what else happened.
pub fn events(item: &OrchestrationItem, kinds: Vec<EventKind>) -> Vec<Event> {
    let messages = item.messages.iter().map(|message| EventKind::QueueEventDelivered {
        name: "message".to_owned(),
        data: told(message),
    });
    let next = item.history.len() as u64 + 1;
    let event = |(kind, id)| Event::with_event_id(id, &item.instance, 1, None, kind);
    messages.chain(kinds).zip(next..).map(event).collect()
}

/// The metadata of a turn.
pub fn metadata(status: Option<&str>, parent: Option<&str>) -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Flow".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        status: status.map(str::to_owned),
        parent_instance_id: parent.map(str::to_owned),
        ..ExecutionMetadata::default()
    }
}

//! Short words for long provider calls.

use crate::gate::Gate;
use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderError, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use perennial_kv::MemoryDisk;
use perennial_workflow::{Settings, Workflows};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub const LEASE: Duration = Duration::from_secs(60);
pub const NOW: Duration = Duration::ZERO;

pub type Turn = (OrchestrationItem, String, u32);
pub type Work = (WorkItem, String, u32);

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Nothing is kept in memory.
pub fn forgetful() -> Settings {
    Settings {
        cache_bytes: 1,
        held_body_bytes: 0,
        ..Settings::default()
    }
}

/// An engine on an empty store.
pub async fn fresh(settings: Settings) -> (Workflows, Arc<Gate>) {
    on(&MemoryDisk::default(), settings).await
}

/// An engine on what is on a disk.
pub async fn on(disk: &MemoryDisk, settings: Settings) -> (Workflows, Arc<Gate>) {
    let gate = Gate::open(disk);
    let store: Arc<dyn perennial_store::Store> = gate.clone();
    (Workflows::open(store, settings).await.unwrap(), gate)
}

/// What must happen soon.
#[allow(clippy::disallowed_methods)]
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), what)
        .await
        .expect("it should have happened by now")
}

#[allow(clippy::disallowed_methods)]
pub async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

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

pub fn raised(instance: &str) -> WorkItem {
    WorkItem::ExternalRaised {
        instance: instance.to_owned(),
        name: "event".to_owned(),
        data: "data".to_owned(),
    }
}

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

pub fn completed(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        result: "result".to_owned(),
    }
}

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
    Event::with_event_id(1, instance, execution, None, kind)
}

/// What the first turn of an execution tells.
pub fn named(status: Option<&str>) -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Flow".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        status: status.map(str::to_owned),
        ..ExecutionMetadata::default()
    }
}

pub async fn send(store: &dyn Provider, item: WorkItem) {
    store.enqueue_for_orchestrator(item, None).await.unwrap();
}

pub async fn try_turn(store: &dyn Provider) -> Option<Turn> {
    store.fetch_orchestration_item(LEASE, NOW, None).await.unwrap()
}

pub async fn turn(store: &dyn Provider) -> Turn {
    try_turn(store).await.expect("a turn is ready")
}

pub async fn work_as(store: &dyn Provider, owner: &str) -> Option<Work> {
    let session = owner_of(owner, LEASE);
    store
        .fetch_work_item(LEASE, NOW, Some(&session), &TagFilter::DefaultOnly)
        .await
        .unwrap()
}

pub fn owner_of(owner: &str, lock_timeout: Duration) -> SessionFetchConfig {
    SessionFetchConfig {
        owner_id: owner.to_owned(),
        lock_timeout,
    }
}

pub async fn ack(
    store: &dyn Provider,
    token: &str,
    execution: u64,
    events: Vec<Event>,
    work: Vec<WorkItem>,
    status: Option<&str>,
) -> Result<(), ProviderError> {
    let metadata = named(status);
    store
        .ack_orchestration_item(token, execution, events, work, Vec::new(), metadata, Vec::new())
        .await
}

/// Runs one turn of an instance that begins an execution.
pub async fn execute(store: &dyn Provider, instance: &str, execution: u64, status: Option<&str>) {
    send(store, start(instance)).await;
    let (item, token, _) = turn(store).await;
    assert_eq!(item.instance, instance);
    let events = vec![started(instance, execution)];
    ack(store, &token, execution, events, Vec::new(), status).await.unwrap();
}

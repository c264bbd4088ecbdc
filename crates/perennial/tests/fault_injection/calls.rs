//! Helpers for provider calls.

use crate::gate::Gate;
use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use perennial_kv::MemoryDisk;
pub use perennial_scenarios::calls::{
    LEASE, NOW, Turn, Work, activity, completed, continued, identity, queued, raised, routed, send, start, started,
    turn_within,
};
use perennial_workflow::{Settings, Workflows};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Settings that cache nothing.
pub fn no_cache() -> Settings {
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

/// An engine on an existing disk.
pub async fn on(disk: &MemoryDisk, settings: Settings) -> (Workflows, Arc<Gate>) {
    let gate = Gate::open(disk);
    let store: Arc<dyn perennial_store::Store> = gate.clone();
    (Workflows::open(store, settings).await.unwrap(), gate)
}

/// Waits for something that must happen soon.
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

/// The metadata of the first turn of an execution.
pub fn named(status: Option<&str>) -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Flow".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        status: status.map(str::to_owned),
        ..ExecutionMetadata::default()
    }
}

pub async fn try_turn(store: &dyn Provider) -> Option<Turn> {
    turn_within(store, NOW).await
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

//! Direct calls of the provider, on a store behind a network.

use duroxide::providers::{Provider, ProviderAdmin, TagFilter};
use perennial_scenarios::calls;
pub use perennial_scenarios::calls::{
    Ack, LEASE, Turn, Work, activity, completed, event, identity, kv_set, owner, raised, routed, send, start, started,
};
use perennial_workflow::Workflows;
use std::time::Duration;

/// How long a fetch waits that must find something.
pub const SOON: Duration = Duration::from_secs(10);

/// A value that a turn sets.
pub fn value(instance: &str, id: u64) -> duroxide::Event {
    kv_set(instance, id, &format!("key {id}"), &format!("value {id}"))
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
    calls::running_within(store, instance, SOON).await;
}

/// Makes an instance that runs in its `executions`-th execution.
pub async fn continued_to(store: &Workflows, instance: &str, executions: u64) {
    calls::continued_to_within(store, instance, executions, SOON).await;
}

/// The administration side.
pub fn admin(store: &Workflows) -> &dyn ProviderAdmin {
    store.as_management_capability().expect("it can be administered")
}

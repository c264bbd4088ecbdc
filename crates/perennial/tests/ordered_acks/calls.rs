//! Helpers for provider calls.

use duroxide::providers::{OrchestrationItem, Provider, ProviderError, TagFilter, WorkItem};
use perennial_scenarios::calls::{Ack, LEASE, NOW, activity, send, start, turn_of_within};
use std::future::Future;
use std::time::Duration;

/// What a call returns within its first poll, if it does.
pub fn at_once<T>(call: impl Future<Output = T>) -> Option<T> {
    futures::FutureExt::now_or_never(tokio::task::unconstrained(call))
}

/// Waits for something that must happen soon.
#[allow(clippy::disallowed_methods)]
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what)
        .await
        .expect("it should have happened by now")
}

/// An activity that was handed out: its id, its token, its attempt.
pub type Running = (u64, String, u32);

/// The activities that are ready, all handed out now.
pub async fn all_work(store: &dyn Provider) -> Vec<Running> {
    let mut running = Vec::new();
    loop {
        let fetched = store.fetch_work_item(LEASE, NOW, None, &TagFilter::DefaultOnly).await;
        match fetched.unwrap() {
            Some((WorkItem::ActivityExecute { id, .. }, token, attempt)) => running.push((id, token, attempt)),
            Some((other, ..)) => panic!("{other:?} is no activity"),
            None => return running,
        }
    }
}

/// Runs the first turn of an instance, which schedules activities from 1 to `count`; hands them out.
pub async fn at_work(store: &dyn Provider, instance: &str, count: u64) -> Vec<Running> {
    send(store, start(instance)).await;
    let (_, token, _) = turn_of_within(store, instance, LEASE).await;
    let work = (1..=count).map(|id| activity(instance, id));
    Ack::first(instance).work(work).send(store, &token).await.unwrap();
    let running = all_work(store).await;
    assert_eq!(running.len() as u64, count);
    running
}

/// The ids of the activities whose results a turn brings.
pub fn results(item: &OrchestrationItem) -> Vec<u64> {
    let id = |message: &WorkItem| match message {
        WorkItem::ActivityCompleted { id, .. } => Some(*id),
        _ => None,
    };
    item.messages.iter().filter_map(id).collect()
}

/// Whether a token was refused for good.
pub fn is_dead(outcome: Result<(), ProviderError>) -> bool {
    outcome.is_err_and(|error| !error.is_retryable() && error.message.contains("Invalid lock token"))
}

//! Short words for what the contract is about.

use std::time::Duration;

use duroxide::providers::{Provider, TagFilter, WorkItem};

use crate::Harness;
pub(super) use crate::calls::*;

/// A wait that a test hopes never to sit through.
pub(super) const LONG: Duration = Duration::from_secs(20);
/// Far more than a wake-up needs, far less than [`LONG`].
pub(super) const SOON: Duration = Duration::from_secs(3);

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The next turn, if there is one right now.
pub(super) async fn try_turn(store: &dyn Provider) -> Option<Turn> {
    turn_within(store, NOW).await
}

/// The next turn, which must be there right now.
pub(super) async fn turn(store: &dyn Provider) -> Turn {
    try_turn(store).await.expect("a turn is ready")
}

/// The next turn, which must be there right now and be of this instance.
pub(super) async fn turn_of(store: &dyn Provider, instance: &str) -> Turn {
    turn_of_within(store, instance, NOW).await
}

/// The given number of messages that wait for an instance now, in as few turns as the store needs for them: usually
/// one. Turns before the last are acknowledged without changes, or the first one with `first`. Returns the last turn.
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

/// Makes an instance that runs.
pub(super) async fn running(store: &dyn Provider, instance: &str) {
    running_within(store, instance, NOW).await;
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
    continued_to_within(store, instance, executions, NOW).await;
}

/// Ends an execution so that the next one is about to begin.
pub(super) async fn hop(store: &dyn Provider, instance: &str, execution: u64) {
    hop_within(store, instance, execution, NOW).await;
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

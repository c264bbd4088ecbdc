//! Activities that were claimed ahead, for workers that do not come.

use crate::calls::*;
use crate::shared::{database, next_turn, process};
use duroxide::providers::{Provider, TagFilter};
use perennial_kv::SharedMemory;
use perennial_workflow::{Settings, Workflows};
use std::sync::Arc;
use std::time::Duration;

/// An activity that was claimed for a worker by the turn that scheduled it; the worker has gone meanwhile.
async fn claimed_for_a_worker_that_left(database: &SharedMemory) -> Arc<Workflows> {
    let (here, _) = process(database, Settings::default()).await;
    send(&*here, start("i")).await;
    let (_, token, _) = next_turn(&here).await;
    let mut waiting = Box::pin(here.fetch_work_item(LEASE, LEASE, None, &TagFilter::DefaultOnly));
    let early = within(ms(100), &mut waiting).await;
    assert!(early.is_none(), "there is nothing to do yet");
    let events = vec![started("i", 1)];
    ack(&*here, &token, 1, events, vec![activity("i", 1)], None)
        .await
        .unwrap();
    drop(waiting);
    here
}

#[allow(clippy::disallowed_methods)]
async fn within<T>(limit: Duration, what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, what).await.ok()
}

/// Another process gets the activity, long before its lease ends, and as a first attempt.
async fn another_process_gets_it(database: &SharedMemory) {
    let (there, _) = process(database, Settings::default()).await;
    let fetched = soon(there.fetch_work_item(LEASE, LEASE, Some(&owner_of("w", LEASE)), &TagFilter::DefaultOnly)).await;
    let (_, token, attempt) = fetched.unwrap().expect("an activity is ready");
    assert_eq!(attempt, 1);
    there.ack_work_item(&token, Some(completed("i", 1))).await.unwrap();
}

#[tokio::test]
async fn an_activity_whose_worker_does_not_come_is_given_back() {
    let database = database();
    let here = claimed_for_a_worker_that_left(&database).await;
    another_process_gets_it(&database).await;
    here.close().await.unwrap();
}

#[tokio::test]
async fn a_process_that_leaves_gives_activities_back() {
    let database = database();
    claimed_for_a_worker_that_left(&database).await.close().await.unwrap();
    another_process_gets_it(&database).await;
}

#[tokio::test]
async fn an_activity_that_is_given_back_can_be_fetched_here_too() {
    let database = database();
    let here = claimed_for_a_worker_that_left(&database).await;
    pause(ms(1_000)).await;
    let (_, _, attempt) = work_as(&*here, "w").await.expect("an activity is ready");
    assert_eq!(attempt, 1);
}

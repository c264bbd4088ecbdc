//! Waiting for a workflow to end: woken by the commit, never early, and across a store that breaks.

use crate::calls::{NOW, ack, fresh, ms, pause, send, soon, start, started, turn};
use crate::gate::{Door, Gate};
use crate::reopening::Fixture;
use async_trait::async_trait;
use duroxide::providers::Provider;
use duroxide::runtime::OrchestrationStatus;
use duroxide::{ClientError, Event, EventKind};
use perennial_kv::{MemoryDisk, SharedMemory};
use perennial_store::{Clock, SystemClock};
use perennial_workflow::{Settings, Workflows, testing};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(60);

fn waiting(workflows: &Workflows, instance: &'static str) -> JoinHandle<Result<OrchestrationStatus, ClientError>> {
    let workflows = workflows.clone();
    tokio::spawn(async move { workflows.wait(instance, LONG).await })
}

/// Ends an instance that was started, in its first turn.
async fn end(store: &dyn Provider, instance: &str) {
    let (item, token, _) = turn(store).await;
    assert_eq!(item.instance, instance);
    end_by(store, instance, &token).await;
}

async fn end_by(store: &dyn Provider, instance: &str, token: &str) {
    let output = "\"done\"".to_owned();
    let ended = Event::with_event_id(2, instance, 1, None, EventKind::OrchestrationCompleted { output });
    let events = vec![started(instance, 1), ended];
    ack(store, token, 1, events, Vec::new(), Some("Completed"))
        .await
        .unwrap();
}

fn is_done(status: &OrchestrationStatus) -> bool {
    matches!(status, OrchestrationStatus::Completed { output, .. } if output == "\"done\"")
}

/// A clock on which no sleep ever ends.
struct Sleepless;

#[async_trait]
impl Clock for Sleepless {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms()
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }
}

#[tokio::test]
async fn the_commit_wakes_it_and_no_timer_is_needed() {
    let store = Gate::open(&MemoryDisk::default());
    let workflows = Workflows::open_with_clock(store, Settings::default(), Arc::new(Sleepless)).await;
    let workflows = workflows.unwrap();
    let (first, second) = (waiting(&workflows, "a"), waiting(&workflows, "a"));
    let other = waiting(&workflows, "b");
    send(&workflows, start("a")).await;
    end(&workflows, "a").await;
    assert!(is_done(&soon(first).await.unwrap().unwrap()));
    assert!(is_done(&soon(second).await.unwrap().unwrap()));
    assert!(!other.is_finished());
}

#[tokio::test]
async fn it_does_not_end_before_the_commit_does() {
    for door in [Door::Commit, Door::Reply] {
        let (workflows, gate) = fresh(Settings::default()).await;
        send(&workflows, start("a")).await;
        let wait = waiting(&workflows, "a");
        let (_, token, _) = turn(&workflows).await;
        let mut stopped = gate.stop_next(door);
        let acking = {
            let workflows = workflows.clone();
            tokio::spawn(async move { end_by(&workflows, "a", &token).await })
        };
        stopped.came().await;
        pause(ms(50)).await;
        assert!(!wait.is_finished());
        stopped.go();
        soon(acking).await.unwrap();
        assert!(is_done(&soon(wait).await.unwrap().unwrap()));
    }
}

#[tokio::test]
async fn a_wait_that_is_dropped_or_over_leaves_nothing_behind() {
    let (workflows, _gate) = fresh(Settings::default()).await;
    let wait = waiting(&workflows, "a");
    while testing::waiting(&workflows) == 0 {
        tokio::task::yield_now().await;
    }
    wait.abort();
    assert!(wait.await.is_err());
    assert_eq!(testing::waiting(&workflows), 0);
    for timeout in [NOW, ms(20)] {
        let over = soon(workflows.wait("a", timeout)).await;
        assert!(matches!(over, Err(ClientError::Timeout)), "{over:?}");
    }
    assert_eq!(testing::waiting(&workflows), 0);
}

#[tokio::test]
async fn an_instance_that_has_ended_is_not_waited_for() {
    let (workflows, _gate) = fresh(Settings::default()).await;
    send(&workflows, start("a")).await;
    end(&workflows, "a").await;
    assert!(is_done(&workflows.wait("a", NOW).await.unwrap()));
    assert_eq!(workflows.result::<String>("a", NOW).await.unwrap().unwrap(), "done");
    let wrong = workflows.result::<u32>("a", NOW).await;
    assert!(matches!(wrong, Err(ClientError::InvalidInput { .. })), "{wrong:?}");
}

#[tokio::test]
async fn another_process_that_ends_it_is_noticed_on_a_shared_store() {
    let database = SharedMemory::new(perennial_kv::Settings::CLOUD_LIMITS).unwrap();
    let here = Workflows::open(database.open(), Settings::default()).await.unwrap();
    let there = Workflows::open(database.open(), Settings::default()).await.unwrap();
    let wait = waiting(&here, "a");
    send(&there, start("a")).await;
    end(&there, "a").await;
    assert!(is_done(&soon(wait).await.unwrap().unwrap()));
}

#[tokio::test]
async fn it_goes_on_when_the_store_broke_and_was_opened_again() {
    let fixture = Fixture::new().await;
    send(&fixture.workflows, start("a")).await;
    let wait = waiting(&fixture.workflows, "a");
    fixture.fill();
    assert!(
        fixture
            .workflows
            .enqueue_for_orchestrator(start("b"), None)
            .await
            .is_err()
    );
    pause(ms(50)).await;
    fixture.free();
    soon(fixture.workflows.reopen()).await.unwrap();
    end(&fixture.workflows, "a").await;
    assert!(is_done(&soon(wait).await.unwrap().unwrap()));
}

#[tokio::test]
async fn it_fails_when_the_store_is_closed() {
    let (workflows, _gate) = fresh(Settings::default()).await;
    let wait = waiting(&workflows, "a");
    while testing::waiting(&workflows) == 0 {
        tokio::task::yield_now().await;
    }
    workflows.close().await.unwrap();
    let failed = soon(wait).await.unwrap();
    assert!(
        matches!(&failed, Err(ClientError::Provider(error)) if error.message.contains("open the store again")),
        "{failed:?}"
    );
}

//! Which process gets which work, and what blocks it.

use duroxide::providers::Provider;
use perennial_cosmos_server::{Counts, Kind};
use perennial_cosmos_tests::kit::*;
use perennial_cosmos_tests::{Process, Program, Room};
use perennial_workflow::testing;
use std::time::Duration;

const BRIEFLY: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_a_session_has_one_owner_across_instances() {
    let room = Room::new().await;
    let (here, there) = (room.workflows().await, room.workflows().await);
    for instance in ["i", "j"] {
        here.enqueue_for_worker(routed(instance, 2, Some("S"), None))
            .await
            .unwrap();
    }
    assert!(work_within(&here, Some("w1"), LEASE, SOON).await.is_some());
    assert!(work_within(&there, Some("w2"), LEASE, BRIEFLY).await.is_none());
    assert!(work_within(&here, Some("w1"), LEASE, SOON).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a12_all_instances_run_whoever_comes_and_goes() {
    let room = Room::new().await;
    let program = Program::new(2).brief();
    let (first, second) = (
        Process::start(&room, &Program::new(4).brief()).await,
        Process::start(&room, &program).await,
    );
    let names: Vec<String> = (0..24).map(|n| format!("hello-{n}")).collect();
    futures::future::join_all(names.iter().map(|name| second.begin(name, "Hello", "you"))).await;
    first.kill();
    for name in &names {
        assert_eq!(second.output(name).await, "Hello, you!");
    }
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a13_what_others_hold_hides_nothing() {
    let room = Room::new().await;
    let (here, there) = (room.workflows().await, room.workflows().await);
    for n in 0..22 {
        send(&here, start(&format!("held-{n}"))).await;
        turn(&here).await;
        send(&there, raised(&format!("held-{n}"), "more")).await;
    }
    send(&there, start("free")).await;
    assert_eq!(turn(&there).await.0.instance, "free");
    here.enqueue_for_worker(routed("a", 1, Some("theirs"), None))
        .await
        .unwrap();
    assert!(work_within(&here, Some("w1"), LEASE, SOON).await.is_some());
    for n in 0..12 {
        there
            .enqueue_for_worker(routed("a", n + 10, Some("theirs"), None))
            .await
            .unwrap();
    }
    there.enqueue_for_worker(activity("plain", 1)).await.unwrap();
    let (item, ..) = work_within(&there, Some("w2"), LEASE, SOON).await.unwrap();
    assert_eq!(item, activity("plain", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a14_an_event_for_a_missing_instance_creates_none() {
    let room = Room::new().await;
    let store = room.workflows().await;
    send(&store, raised("ghost", "boo")).await;
    assert!(turn_within(&store, LEASE, BRIEFLY).await.is_none());
    assert!(admin(&store).list_instances().await.unwrap().is_empty());
    assert!(admin(&store).get_instance_info("ghost").await.is_err());
    assert_eq!(admin(&store).get_system_metrics().await.unwrap().total_instances, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a23_an_unreadable_record_blocks_no_other() {
    let room = Room::new().await;
    let store = room.workflows().await;
    running(&store, "i").await;
    let body = br#"{"item":{"FromTheFuture":{}},"attempts":0}"#;
    testing::plant_message(&store, "i", body).await.unwrap();
    testing::plant_activity(&store, "i", b"no envelope at all")
        .await
        .unwrap();
    send(&store, raised("i", "next")).await;
    store.enqueue_for_worker(activity("j", 2)).await.unwrap();
    let (item, ..) = turn(&store).await;
    assert_eq!((item.messages, item.history_error), (vec![raised("i", "next")], None));
    assert!(work_within(&store, None, LEASE, SOON).await.is_some());
}

/// There, every process polls for undelivered messages, every two seconds, runtime or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b04_a_process_that_runs_nothing_asks_nothing() {
    let room = Room::new().await;
    let client = Process::client(&room).await;
    client.begin("i", "Hello", "you").await;
    let before = room.counts();
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(room.counts().since(&before), Counts::default());
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_a_turn_does_not_wait_until_its_messages_are_delivered() {
    let room = Room::new().await;
    let store = room.workflows().await;
    send(&store, start("i")).await;
    let (_, token, _) = turn(&store).await;
    let before = room.counts();
    let mut ack = Ack::first("i");
    ack.messages = (0..60).map(|n| start(&format!("child-{n}"))).collect();
    // Each delivery would take one of these.
    room.server.set_latency(perennial_cosmos_server::Latency {
        base_ms: 20,
        jitter_ms: 0,
    });
    ack.send(&store, &token).await.unwrap();
    let batches = room.counts().since(&before).of(Kind::Batch);
    room.server.set_latency(Default::default());
    assert!(batches < 40, "{batches} batches before the ack returned");
    for _ in 0..60 {
        turn(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b08_cleaning_up_takes_no_session_that_is_held() {
    let room = Room::new().await;
    let (here, there) = (room.workflows().await, room.workflows().await);
    here.enqueue_for_worker(routed("i", 1, Some("S"), None)).await.unwrap();
    let (_, token, _) = work_within(&here, Some("w1"), LEASE, SOON).await.unwrap();
    here.ack_work_item(&token, Some(completed("i", 1))).await.unwrap();
    there.cleanup_orphaned_sessions(Duration::ZERO).await.unwrap();
    there.enqueue_for_worker(routed("i", 2, Some("S"), None)).await.unwrap();
    assert!(work_within(&there, Some("w2"), LEASE, BRIEFLY).await.is_none());
    assert!(work_within(&here, Some("w1"), LEASE, SOON).await.is_some());
}

//! Leases, and their loss.

use duroxide::providers::{Provider, ScheduledActivityIdentifier};
use perennial_cosmos_server::{Kind, Latency};
use perennial_cosmos_tests::kit::*;
use perennial_cosmos_tests::{Process, Program, Room, Skewed};
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, RecordId, Store};
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn draft(id: &str) -> Draft {
    Draft::new(Key::new(Partition::new("p"), RecordId::from_raw(id)), "1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a04_who_was_overtaken_commits_nothing() {
    let room = Room::new().await;
    let (slow, fast) = (room.workflows().await, room.workflows().await);
    running(&slow, "i").await;
    send(&slow, raised("i", "once")).await;
    let (_, old, _) = turn_within(&slow, ms(300), SOON).await.unwrap();
    let (item, new, _) = turn(&fast).await;
    assert_eq!(item.messages, [raised("i", "once")]);
    assert!(Ack::empty().send(&slow, &old).await.is_err());
    Ack::empty().send(&fast, &new).await.unwrap();
    assert!(turn_within(&slow, LEASE, ms(200)).await.is_none());
    assert!(turn_within(&fast, LEASE, ms(200)).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a08_a_batch_that_fails_names_the_operation() {
    let room = Room::new().await;
    let store = room.store().await;
    store.commit(Commit::new(vec![Op::Create(draft("c"))])).await.unwrap();
    let ops = vec![Op::Put(draft("a")), Op::Put(draft("b")), Op::Create(draft("c"))];
    let failed = store.commit(Commit::new(ops)).await.unwrap_err();
    assert!(matches!(failed, Error::Conflict { op: 2, .. }), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a18_a_fetch_that_was_dropped_holds_nothing() {
    let room = Room::new().await;
    let (here, there) = (room.workflows().await, room.workflows().await);
    let mut dropped = 0;
    for n in 0..8 {
        let name = format!("i{n}");
        send(&there, start(&name)).await;
        room.server.set_latency(Latency {
            base_ms: 25,
            jitter_ms: 0,
        });
        let fetch = here.fetch_orchestration_item(LEASE, SOON, None);
        // Somewhere between the query and the claim.
        let fetched = tokio::time::timeout(ms(20 + 12 * n), fetch).await;
        room.server.set_latency(Latency::default());
        let (item, token, _) = match fetched {
            Ok(fetched) => fetched.unwrap().expect("a turn comes"),
            Err(_) => {
                dropped += 1;
                turn(&here).await
            }
        };
        assert_eq!(item.instance, name);
        Ack::first(&name).status("Completed").send(&here, &token).await.unwrap();
    }
    assert!(dropped > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a22_a_deleted_instance_is_not_brought_back() {
    let room = Room::new().await;
    let (here, there) = (room.workflows().await, room.workflows().await);
    running(&here, "i").await;
    send(&here, raised("i", "x")).await;
    let (_, token, _) = turn(&here).await;
    assert_eq!(
        admin(&there)
            .delete_instance("i", true)
            .await
            .unwrap()
            .instances_deleted,
        1
    );
    let mut ack = Ack::empty();
    ack.work = vec![activity("i", 2)];
    assert!(ack.send(&here, &token).await.is_err());
    let documents = room.documents().await;
    let left = documents.iter().filter(|document| document["partition"] == "wf:i");
    assert_eq!(left.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_cancelling_is_part_of_the_commit() {
    let room = Room::new().await;
    let (here, there) = (room.workflows().await, room.workflows().await);
    send(&here, start("i")).await;
    let (_, token, _) = turn(&here).await;
    let mut ack = Ack::first("i");
    ack.work = vec![activity("i", 2), activity("i", 3)];
    ack.send(&here, &token).await.unwrap();
    let (item, work, _) = work_within(&there, None, LEASE, SOON).await.unwrap();
    assert_eq!(item, activity("i", 2));
    send(&here, raised("i", "stop")).await;
    let (_, token, _) = turn(&here).await;
    let mut ack = Ack::empty();
    ack.cancelled = [2, 3]
        .map(|activity_id| ScheduledActivityIdentifier {
            instance: "i".to_owned(),
            execution_id: 1,
            activity_id,
        })
        .into();
    ack.send(&here, &token).await.unwrap();
    assert!(there.renew_work_item_lock(&work, LEASE).await.is_err());
    assert!(there.ack_work_item(&work, Some(completed("i", 2))).await.is_err());
    assert!(work_within(&there, None, LEASE, ms(200)).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b02_clocks_that_differ_by_twenty_seconds() {
    let room = Room::new().await;
    let program = Program::default();
    let early = Process::start_with_clock(&room, &program, Skewed::by_ms(-10_000)).await;
    let late = Process::start_with_clock(&room, &program, Skewed::by_ms(10_000)).await;
    for n in 0..6 {
        let name = format!("three-{n}");
        let (first, second) = if n % 2 == 0 { (&early, &late) } else { (&late, &early) };
        first.begin(&name, "Collect", "10").await;
        for message in 0..10 {
            second.enqueue(&name, &message.to_string()).await;
        }
    }
    for n in 0..6 {
        assert_eq!(early.output(&format!("three-{n}")).await, "0,1,2,3,4,5,6,7,8,9");
    }
    early.stop().await;
    late.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b06_a_completion_and_its_activity_are_one_batch() {
    let room = Room::new().await;
    let store = room.workflows().await;
    running(&store, "i").await;
    store.enqueue_for_worker(activity("i", 2)).await.unwrap();
    let (_, token, _) = work_within(&store, None, LEASE, SOON).await.unwrap();
    let before = room.counts();
    store.ack_work_item(&token, Some(completed("i", 2))).await.unwrap();
    assert_eq!(room.counts().since(&before).of(Kind::Batch), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_tokens_that_mean_nothing_are_refused() {
    let room = Room::new().await;
    let store = room.workflows().await;
    for token in ["", "nonsense", "0000000000000000-1", "1"] {
        assert!(store.abandon_work_item(token, None, false).await.is_err());
        assert!(store.ack_work_item(token, None).await.is_err());
        assert!(store.renew_work_item_lock(token, LEASE).await.is_err());
        assert!(store.abandon_orchestration_item(token, None, false).await.is_err());
        assert!(store.renew_orchestration_item_lock(token, LEASE).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b19_a_batch_that_fails_leaves_nothing() {
    let room = Room::new().await;
    let store = room.store().await;
    store.commit(Commit::new(vec![Op::Create(draft("c"))])).await.unwrap();
    let ops = vec![Op::Create(draft("a")), Op::Create(draft("b")), Op::Create(draft("c"))];
    store.commit(Commit::new(ops)).await.unwrap_err();
    assert!(store.get(&draft("a").key).await.unwrap().is_none());
    assert!(store.get(&draft("b").key).await.unwrap().is_none());
}

//! Large payloads, wide fan-outs and odd names.

use duroxide::providers::{Provider, WorkItem};
use perennial_cosmos_server::{Fault, Kind, Rule, When};
use perennial_cosmos_tests::kit::*;
use perennial_cosmos_tests::{Process, Program, Room};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_a_turn_of_many_large_inputs() {
    let room = Room::new().await;
    let store = room.workflows().await;
    send(&store, start("i")).await;
    let (_, token, _) = turn(&store).await;
    let large = |id: u64| WorkItem::ActivityExecute {
        instance: "i".to_owned(),
        execution_id: 1,
        id,
        name: "Work".to_owned(),
        input: format!("{id:04}").repeat(15_000),
        session_id: None,
        tag: None,
    };
    let mut ack = Ack::first("i");
    ack.work = (2..42).map(large).collect();
    ack.send(&store, &token).await.unwrap();
    for id in 2..42 {
        let (item, ..) = work_within(&store, None, LEASE, SOON).await.unwrap();
        assert!(item == large(id), "input {id} came back changed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a24_ids_that_would_break_headers_and_queries() {
    let room = Room::new().await;
    let process = Process::start(&room, &Program::default()).await;
    for id in [
        "a\"b",
        "a\\b",
        "new\nline",
        "it's",
        "é日本😀",
        "a%2fb",
        "\u{1}",
        " ",
        "[]",
    ] {
        process.begin(id, "Hello", id).await;
        assert_eq!(process.output(id).await, format!("Hello, {id}!"));
        let name = id.to_owned();
        let deleted = process.call(|store| async move { admin(&store).delete_instance(&name, false).await });
        assert_eq!(deleted.await.unwrap().instances_deleted, 1, "{id:?}");
    }
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a25_slashes_and_their_kind_everywhere() {
    let room = Room::new().await;
    let process = Process::start(&room, &Program::default()).await;
    for id in ["a/b", "a?b", "a#b", "../up", "/"] {
        process.begin(id, "Values", id).await;
        assert_eq!(process.output(id).await, "greeting-1,greeting-2,name");
    }
    process.begin("plain", "Hello", "you").await;
    assert_eq!(process.output("plain").await, "Hello, you!");
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b09_many_values_at_the_end_under_throttling() {
    let room = Room::new().await;
    let store = room.workflows().await;
    send(&store, start("i")).await;
    let (_, token, _) = turn(&store).await;
    let mut ack = Ack::first("i").status("Completed");
    ack.events.extend((2..152).map(|id| value("i", id)));
    let half = When::Chance {
        per_million: 500_000,
        seed: 3,
    };
    room.fault(Rule::new(Fault::throttled(5), half).on([Kind::Batch]));
    ack.send(&store, &token).await.unwrap();
    let other = room.workflows().await;
    let values = other.get_kv_all_values("i").await.unwrap();
    assert_eq!(values.len(), 150);
    assert_eq!(values["key 151"], "value 151");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_a_result_larger_than_a_document() {
    let room = Room::new().await;
    let process = Process::start(&room, &Program::default()).await;
    process.begin("large", "Large", "2500000").await;
    assert_eq!(process.output("large").await.len(), 2_500_000);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b15_ids_of_more_than_a_thousand_bytes() {
    let room = Room::new().await;
    let process = Process::start(&room, &Program::default()).await;
    for id in ["x".repeat(1_100), "/".repeat(1_100)] {
        process.begin(&id, "Hello", "you").await;
        assert_eq!(process.output(&id).await, "Hello, you!");
    }
    process.stop().await;
}

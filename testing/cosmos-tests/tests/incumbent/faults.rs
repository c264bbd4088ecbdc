//! Faults of the service: throttling, lost replies, lag.

use perennial_cosmos_server::{Fault, Kind, Latency, Options, Rule, When};
use perennial_cosmos_tests::kit::*;
use perennial_cosmos_tests::{Process, Program, Room};
use std::time::Duration;

const MOST: When = When::Chance {
    per_million: 400_000,
    seed: 7,
};

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

fn batches(fault: Fault, when: When) -> Rule {
    Rule::new(fault, when).on([Kind::Batch])
}

/// Runs a workflow while this goes wrong; its activities run once each.
async fn survives(rule: Rule, workflow: &str, input: &str, output: &str, activities: usize) {
    let room = Room::new().await;
    let program = Program::default();
    let process = Process::start(&room, &program).await;
    room.fault(rule);
    process.begin("flow", workflow, input).await;
    assert_eq!(process.output("flow").await, output);
    assert!(room.hits() > 0, "nothing went wrong");
    room.mend();
    let effects = program.effects.of("flow");
    assert_eq!(effects.len(), activities);
    assert!(effects.values().all(|times| *times == 1), "{effects:?}");
    room.assert_clean().await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a01_throttling_between_the_batches_of_a_wide_turn() {
    survives(batches(Fault::throttled(5), MOST), "Fan", "100", "100", 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a02_throttling_while_a_long_activity_is_renewed() {
    let room = Room::new().await;
    let program = Program::default().brief();
    let process = Process::start(&room, &program).await;
    process.begin("nap", "Nap", "1300").await;
    pause(400).await;
    room.fault(batches(Fault::throttled(20), When::Always).times(3));
    assert_eq!(process.output("nap").await, "1300");
    assert_eq!(room.hits(), 3, "nothing went wrong");
    assert_eq!(program.effects.of("nap").values().sum::<usize>(), 1);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a03_throttling_delivers_no_message_twice() {
    let room = Room::new().await;
    let process = Process::start(&room, &Program::default()).await;
    room.fault(batches(Fault::throttled(5), MOST));
    process.begin("two", "Collect", "2").await;
    process.enqueue("two", "A").await;
    pause(300).await;
    process.enqueue("two", "B").await;
    assert_eq!(process.output("two").await, "A,B");
    assert!(room.hits() > 0);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a05_hundreds_of_messages_on_a_slow_service() {
    let room = Room::new().await;
    let process = Process::start(&room, &Program::default().brief()).await;
    room.server.set_latency(Latency {
        base_ms: 20,
        jitter_ms: 5,
    });
    process.begin("many", "Collect", "300").await;
    let names: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    let sent = names.iter().map(|name| process.enqueue("many", name));
    futures::future::join_all(sent).await;
    let mut got: Vec<String> = process.output("many").await.split(',').map(str::to_owned).collect();
    let mut names = names;
    got.sort_unstable();
    names.sort_unstable();
    assert_eq!(got, names);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a06_a_second_of_throttling_fails_no_workflow() {
    let room = Room::new().await;
    let process = Process::start(&room, &Program::default()).await;
    process.begin("nap", "Nap", "100").await;
    room.fault(batches(Fault::throttled(100), When::Always));
    pause(1_200).await;
    room.mend();
    assert_eq!(process.output("nap").await, "100");
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a07_an_intent_that_stays_blocks_no_later_turn() {
    survives(
        batches(Fault::unavailable(), MOST),
        "Parents",
        "3",
        "Hello, 0! Hello, 1! Hello, 2!",
        3,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_a_request_that_hangs_is_given_up() {
    let room = Room::new().await.impatient();
    let (here, there) = (room.workflows().await, room.workflows().await);
    send(&there, start("i")).await;
    let hang = Fault::Hang {
        executed: false,
        for_ms: 60_000,
    };
    room.fault(Rule::new(hang, When::Always).times(1));
    assert_eq!(turn(&here).await.0.instance, "i");
    assert_eq!(room.hits(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a19_a_lost_reply_to_a_claim_costs_no_lease() {
    let room = Room::new().await;
    let (here, there) = (room.workflows().await, room.workflows().await);
    send(&there, start("i")).await;
    room.fault(batches(Fault::LostReply, When::Always).times(1));
    assert_eq!(turn(&here).await.0.instance, "i");
    assert_eq!(room.hits(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a20_a_lost_reply_to_an_ack_is_recognised() {
    let room = Room::new().await;
    let store = room.workflows().await;
    send(&store, start("i")).await;
    let (_, token, _) = turn(&store).await;
    room.fault(batches(Fault::LostReply, When::Always).times(1));
    let mut ack = Ack::first("i");
    ack.work = vec![activity("i", 2)];
    ack.send(&store, &token).await.unwrap();
    assert_eq!(room.hits(), 1);
    let got = work_within(&store, None, LEASE, SOON).await.unwrap();
    assert_eq!(got.0, activity("i", 2));
    assert!(
        work_within(&store, None, LEASE, Duration::from_millis(200))
            .await
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_replicas_that_lag() {
    let room = Room::with(Options {
        replica: true,
        ..Options::default()
    })
    .await;
    let program = Program::default();
    let (process, other) = (
        Process::start(&room, &program).await,
        Process::start(&room, &program).await,
    );
    room.server.replica().unwrap().lag(150).await;
    for n in 0..12 {
        let name = format!("two-{n}");
        process.begin(&name, "Collect", "2").await;
        other.enqueue(&name, "A").await;
        process.enqueue(&name, "B").await;
    }
    for n in 0..12 {
        let got = process.output(&format!("two-{n}")).await;
        assert!(got == "A,B" || got == "B,A", "{got}");
    }
    assert!(
        room.server.replica().unwrap().answered() > 0,
        "the replica was never asked"
    );
    other.stop().await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a26_a_child_starts_once_whatever_becomes_of_replies() {
    survives(
        batches(
            Fault::LostReply,
            When::Chance {
                per_million: 150_000,
                seed: 5,
            },
        ),
        "Parents",
        "4",
        "Hello, 0! Hello, 1! Hello, 2! Hello, 3!",
        4,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b03_passing_refusals_are_waited_out() {
    for fault in [
        Fault::retry_with(),
        Fault::range_gone(),
        Fault::splitting(),
        Fault::timeout(false),
        Fault::timeout(true),
        Fault::internal(),
    ] {
        survives(batches(fault, When::Always).times(2), "Hello", "you", "Hello, you!", 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b16_a_wide_fan_out_on_a_container_that_has_too_little() {
    survives(batches(Fault::throttled(10), MOST), "Fan", "120", "120", 120).await;
}

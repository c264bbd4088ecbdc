//! The numbers that the runtime's management interface tells, after processes were killed.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use duroxide::Client;
use duroxide::providers::SystemMetrics;
use perennial_cosmos_tests::{Process, Program, Room};
use perennial_store::{Store, Totals};
use std::time::{Duration, Instant};

/// Longer than it takes to notice a death and to count, by far.
const TIMEOUT: Duration = Duration::from_secs(90);

async fn hurried() -> Room {
    let mut room = Room::new().await;
    room.settings.counters_interval = Duration::from_millis(200);
    room.settings.counters_idle = Duration::from_millis(400);
    room
}

/// instances, running, completed, failed, executions, events
type Numbers = [u64; 6];

fn numbers(metrics: &SystemMetrics) -> Numbers {
    [
        metrics.total_instances,
        metrics.running_instances,
        metrics.completed_instances,
        metrics.failed_instances,
        metrics.total_executions,
        metrics.total_events,
    ]
}

async fn told(process: &Process) -> Numbers {
    let metrics = |client: Client| async move { client.get_system_metrics().await };
    numbers(&process.ask(metrics).await.unwrap())
}

/// The totals according to the histories.
async fn truth(process: &Process) -> Numbers {
    let count = |client: Client| async move {
        let mut found = SystemMetrics::default();
        for instance in client.list_all_instances().await.unwrap() {
            found.total_instances += 1;
            match client.get_instance_info(&instance).await.unwrap().status.as_str() {
                "Completed" => found.completed_instances += 1,
                "Failed" => found.failed_instances += 1,
                _ => found.running_instances += 1,
            }
            for execution in client.list_executions(&instance).await.unwrap() {
                found.total_executions += 1;
                let history = client.read_execution_history(&instance, execution).await.unwrap();
                found.total_events += history.len() as u64;
            }
        }
        found
    };
    numbers(&process.ask(count).await)
}

/// Whether totals of workflows may be wrong.
fn is_in_doubt(totals: &Totals) -> bool {
    totals.doubt.as_ref().is_some_and(|doubt| doubt.concerns("wf."))
}

/// Queries the totals until they are right, and fails if they never are.
async fn comes_right(room: &Room, process: &Process, expected: Numbers) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let found = told(process).await;
        let certain = !is_in_doubt(&room.store().await.totals().await.unwrap());
        if found == expected && certain {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{found:?} instead of {expected:?}, certain: {certain}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Some workflows that ended, one that failed, one of three executions, two that wait.
async fn work(process: &Process, round: u32) {
    for n in 0..5 {
        process.begin(&format!("hello-{round}-{n}"), "Hello", "world").await;
    }
    process.begin(&format!("failed-{round}"), "Nap", "not a number").await;
    process.begin(&format!("loop-{round}"), "Loop", "").await;
    for message in ["a", "b", "c"] {
        process.enqueue(&format!("loop-{round}"), message).await;
    }
    for n in 0..2 {
        process.begin(&format!("waits-{round}-{n}"), "Wait", "never").await;
    }
    for n in 0..5 {
        process.output(&format!("hello-{round}-{n}")).await;
    }
    assert_eq!(process.output(&format!("loop-{round}")).await, "abc");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_come_right_after_a_process_was_killed_at_work() {
    let room = hurried().await;
    let victim = Process::start(&room, &Program::default().brief()).await;
    work(&victim, 1).await;
    victim.kill();
    let successor = Process::start(&room, &Program::default().brief()).await;
    let failed = |client: Client| async move {
        client
            .wait_for_orchestration("failed-1", Duration::from_secs(30))
            .await
            .unwrap()
    };
    successor.ask(failed).await;
    successor.begin("last", "Hello", "world").await;
    successor.output("last").await;
    let expected = truth(&successor).await;
    assert_eq!(expected[..5], [10, 2, 7, 1, 12], "what the workflows are");
    comes_right(&room, &successor, expected).await;
    // From here on it costs what it always did: one request, and no count.
    let before = room.counts();
    assert_eq!(told(&successor).await, expected);
    let asked = room.requests_since(before.total);
    let counters = asked
        .iter()
        .filter(|entry| entry.partition.as_deref() == Some("[\"%tally\"]"));
    assert!(counters.count() <= 2, "{}", room.log_since(before.total));
    successor.stop().await;
    let later = Process::client(&room).await;
    assert_eq!(told(&later).await, expected);
    later.stop().await;
}

/// Deletions are counted, too, and leave nothing behind that could be counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_come_right_after_a_process_was_killed_that_deleted() {
    let room = hurried().await;
    let victim = Process::start(&room, &Program::default().brief()).await;
    work(&victim, 1).await;
    let delete = |client: Client| async move {
        for n in 0..4 {
            client.delete_instance(&format!("hello-1-{n}"), false).await.unwrap();
        }
    };
    victim.ask(delete).await;
    victim.kill();
    let successor = Process::start(&room, &Program::default().brief()).await;
    let failed = |client: Client| async move {
        client
            .wait_for_orchestration("failed-1", Duration::from_secs(30))
            .await
            .unwrap()
    };
    successor.ask(failed).await;
    let expected = truth(&successor).await;
    assert_eq!(expected[..5], [5, 2, 2, 1, 7], "what the workflows are");
    comes_right(&room, &successor, expected).await;
    successor.stop().await;
}

/// A count is reported while another process goes on: as of a moment, but never an impossible one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_others_work_they_are_those_of_a_moment() {
    let room = hurried().await;
    let victim = Process::start(&room, &Program::default().brief()).await;
    work(&victim, 1).await;
    victim.kill();
    let busy = Process::start(&room, &Program::default().brief()).await;
    let client = Process::client(&room).await;
    let mut number = 0;
    // The death is noticed while the other works without a pause.
    let deadline = Instant::now() + TIMEOUT;
    while !is_in_doubt(&room.store().await.totals().await.unwrap()) {
        assert!(Instant::now() < deadline, "the doubt was not noticed");
        number += 1;
        busy.begin(&format!("more-{number}"), "Hello", "world").await;
        busy.output(&format!("more-{number}")).await;
    }
    for _ in 0..5 {
        number += 1;
        busy.begin(&format!("more-{number}"), "Hello", "world").await;
        busy.output(&format!("more-{number}")).await;
        let [instances, running, completed, failed, executions, _] = told(&client).await;
        assert_eq!(instances, running + completed + failed);
        assert!(instances >= 9 && executions >= instances, "{instances} {executions}");
    }
    let expected = truth(&client).await;
    // The last count may be reported for a minute: the store itself knows sooner.
    busy.stop().await;
    comes_right(&room, &client, expected).await;
    client.stop().await;
}

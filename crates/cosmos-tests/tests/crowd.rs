//! Several processes that share the work of a container: what they spend on getting into each other's way.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use perennial_cosmos_server::{Entry, Kind, Latency};
use perennial_cosmos_tests::{Process, Program, Room};
use std::time::{Duration, Instant};

/// What a crowd spent on workflows that a client brought.
#[derive(Debug)]
struct Spent {
    per_workflow: f64,
    polls: usize,
    lost: usize,
    seconds: f64,
}

async fn crowd(processes: usize, at_once: usize, workflows: usize) -> Spent {
    let room = Room::new().await;
    room.server.set_latency(Latency { base_ms: 5, jitter_ms: 3 });
    let mut workers = Vec::new();
    for _ in 0..processes {
        workers.push(Process::start(&room, &Program::new(2)).await);
    }
    let client = Process::client(&room).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = room.counts();
    let began = Instant::now();
    let names: Vec<String> = (0..workflows).map(|n| format!("w{n}")).collect();
    for some in names.chunks(at_once) {
        futures::future::join_all(some.iter().map(|name| client.begin(name, "Hello", "world"))).await;
        if at_once < workflows {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    for name in &names {
        assert_eq!(workers[0].output(name).await, "Hello, world!");
    }
    let seconds = began.elapsed().as_secs_f64();
    let all = room.requests_since(before.total);
    let is_poll = |entry: &&Entry| entry.partition.is_none() && entry.kind == Kind::Query;
    let polls = all.iter().filter(is_poll).count();
    let is_lost = |entry: &&Entry| matches!(entry.status, 207 | 409 | 412);
    let lost = all.iter().filter(is_lost).count();
    if std::env::var("SHOW").is_ok() { println!("{}", room.log_since(before.total)); }
    for worker in workers {
        worker.stop().await;
    }
    Spent {
        per_workflow: (all.len() - polls) as f64 / workflows as f64,
        polls,
        lost,
        seconds,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_do_not_get_into_each_others_way() {
    for (at_once, workflows) in [(120, 120), (1, 30), (8, 80)] {
        for processes in [1, 4] {
            println!("{at_once} at once, {processes} processes: {:?}", crowd(processes, at_once, workflows).await);
        }
    }
}

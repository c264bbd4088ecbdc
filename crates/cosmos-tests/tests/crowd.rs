//! Several processes that share the work of a container: what they spend on getting into each other's way.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use perennial_cosmos_server::{Entry, Kind, Latency};
use perennial_cosmos_tests::{Process, Program, Room};
use std::time::{Duration, Instant};

/// How many processes there are.
const PROCESSES: usize = 4;
/// When they know each other.
const ACQUAINTED: Duration = Duration::from_secs(11);

/// Processes that know each other, and a client.
struct Crowd {
    room: Room,
    workers: Vec<Process>,
    client: Process,
}

impl Crowd {
    async fn gather() -> Self {
        let room = Room::new().await;
        room.server.set_latency(Latency {
            base_ms: 5,
            jitter_ms: 3,
        });
        let mut workers = Vec::new();
        for _ in 0..PROCESSES {
            workers.push(Process::start(&room, &Program::new(2)).await);
        }
        let client = Process::client(&room).await;
        tokio::time::sleep(ACQUAINTED).await;
        Self { room, workers, client }
    }

    /// What something cost.
    async fn spend(&self, work: impl Future<Output = ()>) -> Spent {
        let before = self.room.counts();
        let began = Instant::now();
        work.await;
        let took = began.elapsed();
        let all = self.room.requests_since(before.total);
        let count = |is: &dyn Fn(&Entry) -> bool| all.iter().filter(|entry| is(entry)).count();
        let is_poll = |entry: &Entry| entry.partition.is_none() && entry.kind == Kind::Query;
        let is_tally = |entry: &Entry| entry.partition.as_ref().is_some_and(|name| name.contains("%tally"));
        // Nobody but who waits for its end reads a head that is there, or is about to read that somebody else has it.
        let is_head = |entry: &Entry| entry.kind == Kind::Read && entry.id == "head";
        Spent {
            writes: count(&|entry| entry.kind == Kind::Batch && !is_tally(entry)),
            heads: count(&is_head),
            queries: count(&|entry| entry.kind == Kind::Query && !is_poll(entry)),
            polls: count(&is_poll),
            lost: count(&|entry| matches!(entry.status, 207 | 409 | 412)),
            ru: all.iter().map(|entry| entry.ru).sum(),
            took,
        }
    }

    async fn leave(self) {
        for worker in self.workers {
            worker.stop().await;
        }
        self.room.assert_clean().await;
        let documents = self.room.documents().await;
        let is_member = |document: &&serde_json::Value| document["id"] == "member";
        assert_eq!(documents.iter().find(is_member), None, "who left is gone");
    }
}

/// What a crowd spent.
#[derive(Debug)]
#[allow(dead_code, reason = "printed")]
struct Spent {
    writes: usize,
    heads: usize,
    queries: usize,
    polls: usize,
    /// Writes that met another's.
    lost: usize,
    ru: f64,
    took: Duration,
}

/// What workflows cost that a client starts, some at a time.
async fn hellos(at_once: usize, workflows: usize) {
    let crowd = Crowd::gather().await;
    let names: Vec<String> = (0..workflows).map(|n| format!("w{n}")).collect();
    let work = async {
        for some in names.chunks(at_once) {
            let begin = some.iter().map(|name| crowd.client.begin(name, "Hello", "world"));
            futures::future::join_all(begin).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        for name in &names {
            assert_eq!(crowd.client.output(name).await, "Hello, world!");
        }
    };
    let spent = crowd.spend(work).await;
    println!("{workflows} workflows, {at_once} at once: {spent:?}");
    // One process alone: 6 writes and 1 query each. Four that get into each other's way: 12 and 6.
    assert!(spent.writes <= workflows * 9, "{spent:?}");
    assert!(spent.queries <= workflows * 9 / 2, "{spent:?}");
    assert!(spent.lost <= workflows, "{spent:?}");
    crowd.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_workflows_is_shared_out() {
    hellos(60, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_workflows_is_shared_out() {
    hellos(6, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_out_is_shared_out() {
    let crowd = Crowd::gather().await;
    let work = async {
        crowd.client.begin("fan", "Fan", "100").await;
        assert_eq!(crowd.client.output("fan").await, "100");
    };
    let spent = crowd.spend(work).await;
    println!("fan-out 100: {spent:?}");
    // One process alone: 131 writes.
    assert!(spent.writes <= 330, "{spent:?}");
    crowd.leave().await;
}

//! Several processes that share the work of a container: the requests that they spend on collisions.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use perennial_cosmos_server::{Entry, Kind, Latency};
use perennial_cosmos_tests::{Process, Program, Room};
use std::time::{Duration, Instant};

/// How many processes a crowd has.
const PROCESSES: usize = 4;
/// When they know each other.
const ACQUAINTED: Duration = Duration::from_secs(13);

/// Processes that know each other, and a client.
struct Crowd {
    room: Room,
    workers: Vec<Process>,
    client: Process,
}

impl Crowd {
    async fn gather(processes: usize) -> Self {
        let room = Room::new().await;
        room.server.set_latency(Latency {
            base_ms: 5,
            jitter_ms: 3,
        });
        let program = Program::new(2);
        // Processes that start together find each other at once; a later one is found some 15 s later.
        let workers = futures::future::join_all((0..processes).map(|_| Process::start(&room, &program))).await;
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
        let is_counters = |entry: &Entry| entry.partition.as_ref().is_some_and(|name| name.contains("%tally"));
        Spent {
            besides: count(&|entry| !is_poll(entry) && !is_counters(entry)),
            writes: count(&|entry| entry.kind == Kind::Batch && !is_counters(entry)),
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
        assert_eq!(documents.iter().find(is_member), None, "a process that left is gone");
    }
}

/// The requests of a crowd.
#[derive(Debug)]
#[allow(dead_code, reason = "printed")]
struct Spent {
    /// All requests besides queries for work and writes of totals.
    besides: usize,
    writes: usize,
    polls: usize,
    /// Writes that failed because of another process's write.
    lost: usize,
    ru: f64,
    took: Duration,
}

/// What workflows cost that a client starts, some at a time.
async fn hellos(processes: usize, at_once: usize, workflows: usize) -> Spent {
    let crowd = Crowd::gather(processes).await;
    let names: Vec<String> = (0..workflows).map(|n| format!("w{n}")).collect();
    let work = async {
        for some in names.chunks(at_once) {
            let begin = some.iter().map(|name| crowd.client.begin(name, "Hello", "world"));
            futures::future::join_all(begin).await;
            if at_once > 1 {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
            for name in some {
                assert_eq!(crowd.client.output(name).await, "Hello, world!");
            }
        }
        for name in names.iter().filter(|_| at_once > 1) {
            assert_eq!(crowd.client.output(name).await, "Hello, world!");
        }
    };
    let spent = crowd.spend(work).await;
    crowd.leave().await;
    spent
}

/// A crowd spends little more than one process alone.
async fn compare(at_once: usize, workflows: usize) {
    let (alone, crowd) = tokio::join!(hellos(1, at_once, workflows), hellos(PROCESSES, at_once, workflows));
    let each = |spent: &Spent| spent.besides as f64 / workflows as f64;
    println!(
        "{workflows} workflows, {at_once} at once: {:.1} alone, {:.1} in a crowd\n  {alone:?}\n  {crowd:?}",
        each(&alone),
        each(&crowd)
    );
    // Before processes knew each other, a crowd took 3.5 to 4 times as much.
    assert!(each(&crowd) <= 1.8 * each(&alone), "{alone:?} {crowd:?}");
    assert!(crowd.lost <= workflows, "{crowd:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_workflows_is_shared_out() {
    compare(60, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_workflows_is_shared_out() {
    compare(8, 48).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_workflow_at_a_time_is_one_processs() {
    compare(1, 10).await;
}

async fn fan_out(processes: usize) -> Spent {
    let crowd = Crowd::gather(processes).await;
    let work = async {
        crowd.client.begin("fan", "Fan", "100").await;
        assert_eq!(crowd.client.output("fan").await, "100");
    };
    let spent = crowd.spend(work).await;
    crowd.leave().await;
    spent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_out_is_shared_out() {
    let (alone, crowd) = tokio::join!(fan_out(1), fan_out(PROCESSES));
    println!("fan-out 100\n  {alone:?}\n  {crowd:?}");
    assert!(crowd.besides <= 2 * alone.besides, "{alone:?} {crowd:?}");
    assert!(crowd.ru <= 1.4 * alone.ru, "{alone:?} {crowd:?}");
}

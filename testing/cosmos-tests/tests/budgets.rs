//! What workflows cost, in requests, counted by the server.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use perennial_cosmos_server::{Counts, Entry, Kind};
use perennial_cosmos_tests::{Hurried, Process, Program, Room};
use std::time::Duration;

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// A process whose dispatchers wait: a first workflow has proved that all is set up, and polls have become rare.
async fn warm(room: &Room, dispatchers: usize) -> Process {
    let process = Process::start(room, &Program::new(dispatchers)).await;
    process.begin("warm-up", "Hello", "you").await;
    process.output("warm-up").await;
    pause(3_500).await;
    process
}

/// The requests to the container while something was done.
struct Bill {
    counts: Counts,
    /// Queries of all partitions for work.
    looks: u64,
    /// Writes of a process about itself every few seconds: its totals, and its announcement.
    notes: u64,
    /// The estimated price of the rest.
    ru: f64,
    log: String,
}

/// The purpose of a request.
#[derive(PartialEq)]
enum Purpose {
    Look,
    Note,
    Work,
}

fn purpose(entry: &Entry) -> Purpose {
    let is_note = |partition: &str| partition.contains("%tally") || partition.starts_with("[\"mem:");
    match &entry.partition {
        None if entry.kind == Kind::Query => Purpose::Look,
        Some(partition) if is_note(partition) => Purpose::Note,
        _ => Purpose::Work,
    }
}

impl Bill {
    async fn of(room: &Room, work: impl Future<Output = ()>) -> Self {
        let before = room.counts();
        work.await;
        // The work that a process still has to do when its workflow has ended.
        pause(150).await;
        let counts = room.counts().since(&before);
        let entries = room.requests_since(before.total);
        let of = |wanted: Purpose| entries.iter().filter(move |entry| purpose(entry) == wanted);
        Self {
            counts,
            looks: of(Purpose::Look).count() as u64,
            notes: of(Purpose::Note).count() as u64,
            ru: of(Purpose::Work).map(|entry| entry.ru).sum(),
            log: room.log_since(before.total),
        }
    }

    fn besides_upkeep(&self) -> u64 {
        self.counts.total - self.looks - self.notes
    }

    fn print(&self, what: &str) {
        println!(
            "{what}: {} besides {} of upkeep; {}",
            self.besides_upkeep(),
            self.looks + self.notes,
            self.counts
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_world_takes_four_requests() {
    let room = Room::new().await;
    let process = warm(&room, 2).await;
    let bill = Bill::of(&room, async {
        process.begin("hello", "Hello", "world").await;
        assert_eq!(process.output("hello").await, "Hello, world!");
    })
    .await;
    bill.print("hello world");
    assert_eq!(bill.besides_upkeep(), 4, "\n{}", bill.log);
    assert!(bill.ru < 70.0, "{} RU\n{}", bill.ru, bill.log);
    // Before a process writes about itself it may look once more.
    assert!(bill.looks <= 2 + bill.notes, "\n{}", bill.log);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_world_from_another_process_takes_six_requests() {
    let room = Room::new().await;
    let (process, client) = (warm(&room, 2).await, Process::client(&room).await);
    let bill = Bill::of(&room, async {
        client.begin("hello", "Hello", "world").await;
        // No client waits for the result.
        pause(2_000).await;
    })
    .await;
    bill.print("hello world from another process");
    assert!(bill.besides_upkeep() <= 6, "\n{}", bill.log);
    assert_eq!(process.output("hello").await, "Hello, world!");
    client.stop().await;
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sub_workflow_takes_ten_requests() {
    let room = Room::new().await;
    let process = warm(&room, 2).await;
    let bill = Bill::of(&room, async {
        process.begin("parent", "Parent", "world").await;
        assert_eq!(process.output("parent").await, "Hello, world!");
    })
    .await;
    bill.print("sub-workflow");
    assert!(bill.besides_upkeep() <= 10, "\n{}", bill.log);
    process.stop().await;
}

async fn fan_out(dispatchers: usize) -> Bill {
    let room = Room::new().await;
    let process = warm(&room, dispatchers).await;
    let bill = Bill::of(&room, async {
        process.begin("fan", "Fan", "100").await;
        assert_eq!(process.output("fan").await, "100");
    })
    .await;
    bill.print(&format!("fan-out 100 at {dispatchers}+{dispatchers}"));
    process.stop().await;
    bill
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_out_100_takes_155_requests_with_two_dispatchers() {
    let bill = fan_out(2).await;
    assert!(bill.besides_upkeep() <= 155, "\n{}", bill.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_out_100_takes_45_requests_with_sixteen_dispatchers() {
    let bill = fan_out(16).await;
    assert!(bill.besides_upkeep() <= 45, "\n{}", bill.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_hello_worlds_at_once_take_120_requests() {
    let room = Room::new().await;
    let process = warm(&room, 2).await;
    let bill = Bill::of(&room, async {
        let names: Vec<String> = (0..20).map(|n| format!("hello-{n}")).collect();
        futures::future::join_all(names.iter().map(|name| process.begin(name, "Hello", "world"))).await;
        for name in &names {
            assert_eq!(process.output(name).await, "Hello, world!");
        }
    })
    .await;
    bill.print("twenty hello worlds");
    assert!(bill.besides_upkeep() <= 120, "\n{}", bill.log);
    process.stop().await;
}

/// A process trusts its own writes for a second; then it queries the service, less and less often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_waits_where_the_workflow_runs_asks_little() {
    let room = Room::new().await;
    let process = warm(&room, 2).await;
    for (instance, ms, most) in [("short", "700", 4), ("long", "2000", 6)] {
        let bill = Bill::of(&room, async {
            process.begin(instance, "Nap", ms).await;
            process.output(instance).await;
        })
        .await;
        bill.print(&format!("an activity of {ms} ms with a client that waits"));
        assert!((4..=most).contains(&bill.besides_upkeep()), "\n{}", bill.log);
    }
    process.stop().await;
}

/// On a clock that runs ten times as fast.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_process_asks_less_and_less() {
    let room = Room::new().await;
    let process = Process::start_with_clock(&room, &Program::default(), Hurried::by(10)).await;
    pause(500).await;
    let first = Bill::of(&room, pause(2_850)).await;
    first.print("idle for 30 s, after 5 s");
    pause(3_000).await;
    let later = Bill::of(&room, pause(2_850)).await;
    later.print("idle for 30 s, after a minute");
    assert!(first.counts.total <= 32, "\n{}", first.log);
    assert!(later.counts.total <= 11, "\n{}", later.log);
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_starts_with_few_requests() {
    let room = Room::new().await;
    let before = room.server.counts();
    let mut process = Process::client(&room).await;
    let opened = room.server.counts().since(&before);
    process.serve(&Program::default()).await;
    let started = room.server.counts().since(&before);
    println!("opening: {opened}\nand starting a runtime: {started}");
    assert!(opened.total <= 6, "\n{}", room.server.log_text());
    assert!(started.total - opened.total <= 6, "\n{}", room.log_since(0));
    process.stop().await;
}

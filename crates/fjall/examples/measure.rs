//! Measures the key-value stores on this machine: commits per second, and how long an open takes after churn.
//!
//! `cargo run --release -p perennial-fjall --example measure -- commits`
//! `cargo run --release -p perennial-fjall --example measure -- churn 3000000`
//! `cargo run --release -p perennial-fjall --example measure -- finished 1000000`

// A measurement reads the machine's clock, and stops at the first surprise.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use perennial_fjall::{Settings, open};
use perennial_kv::{KvStore, MemoryStore, OrderedKv};
use perennial_store::{Commit, Draft, Key, Lane, Listing, Op, Order, Partition, Place, RecordId, Store};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BODY: &str = r#"{"kind":"work","input":"012345678901234567890123456789012345678901234567890123456789"}"#;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    match arguments.get(1).map(String::as_str) {
        Some("churn") => churn(count).await,
        Some("finished") => finished(count).await,
        _ => commits().await,
    }
}

fn queued(partition: &str, id: &str, order: u64) -> Draft {
    let key = Key::new(Partition::new(partition), RecordId::of(id));
    Draft::new(key, BODY).placed(Place {
        lane: Lane::new("work"),
        order: Order(order),
        due_ms: 0,
    })
}

/// One small commit after another from each of `committers` tasks, for two seconds.
async fn rate<E: OrderedKv>(name: &str, store: KvStore<E>, committers: usize) {
    let store = Arc::new(store);
    let start = Instant::now();
    let tasks: Vec<_> = (0..committers)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut count = 0_u64;
                while start.elapsed() < Duration::from_secs(2) {
                    let partition = format!("{task}-{}", count / 2);
                    let op = match count % 2 {
                        0 => Op::Create(queued(&partition, "job", count)),
                        _ => Op::Remove(Key::new(Partition::new(partition), RecordId::of("job"))),
                    };
                    store.commit(Commit::new(vec![op])).await.unwrap();
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await.unwrap();
    }
    let seconds = start.elapsed().as_secs_f64();
    let stats = store.stats();
    println!(
        "{name}, {committers} committers: {:.0} commits/s, {} syncs for {} commits",
        total as f64 / seconds,
        stats.syncs,
        stats.commits_durable
    );
}

async fn commits() {
    let directory = tempfile::tempdir().unwrap();
    for committers in [1, 64] {
        let store = MemoryStore::open(perennial_kv::Settings::default()).unwrap();
        rate("memory", store, committers).await;
        let path = directory.path().join(committers.to_string());
        rate("fjall", open(path, Settings::default()).unwrap(), committers).await;
    }
}

fn report(path: &std::path::Path, what: &str) {
    let start = Instant::now();
    let store = open(path, Settings::default()).unwrap();
    println!("{what}: opened in {:?}, resident {}", start.elapsed(), resident());
    drop(store);
}

fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.unwrap_or("unknown")
        .split_whitespace()
        .skip(1)
        .collect::<Vec<_>>()
        .join(" ")
}

/// How many records stay in the queue while others come and go.
const STANDING: u64 = 200;

/// Records that are queued and deleted again.
async fn churn(count: u64) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Settings::default()).unwrap();
    let start = Instant::now();
    let mut ops = Vec::new();
    for n in 0..count {
        // Partitions come in no order, as user-given names do.
        let name = |n: u64| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        ops.push(Op::Put(queued(&name(n), "job", n)));
        if n >= STANDING {
            ops.push(Op::Remove(Key::new(
                Partition::new(name(n - STANDING)),
                RecordId::of("job"),
            )));
        }
        if ops.len() >= 100 {
            store.commit(Commit::new(std::mem::take(&mut ops))).await.unwrap();
        }
    }
    println!("{count} queued and deleted in {:?}", start.elapsed());
    drop(store);
    for what in ["first open after churn", "second open"] {
        report(directory.path(), what);
    }
}

/// Finished instances: a listed head, and two pages of history each.
async fn finished(count: u64) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), Settings::default()).unwrap();
    let start = Instant::now();
    let mut ops = Vec::new();
    for n in 0..count {
        let key = |id: &str| Key::new(Partition::new(format!("instance-{n}")), RecordId::of(id));
        ops.push(Op::Put(Draft::new(key("head"), BODY).listed(Listing {
            kind: "instance".into(),
            status: "Completed".into(),
            name: "order".into(),
            parent: None,
            created_ms: n,
            completed_ms: Some(n),
        })));
        ops.extend(["page/0", "page/1"].map(|id| Op::Put(Draft::new(key(id), BODY))));
        if ops.len() >= 300 {
            store.commit(Commit::new(std::mem::take(&mut ops))).await.unwrap();
        }
    }
    println!(
        "{count} finished instances written in {:?}, resident {}",
        start.elapsed(),
        resident()
    );
    drop(store);
    println!("closed, resident {}", resident());
    for what in ["first open", "second open"] {
        report(directory.path(), what);
    }
}

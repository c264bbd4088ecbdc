//! Three real processes share one container. They are killed and frozen, one has its clock ahead, and still every
//! workflow ends with the right result.
//!
//! To go further than the default, set in the environment:
//!
//! | variable | what it sets |
//! |---|---|
//! | `PERENNIAL_PROCESSES_SEED` | when which worker is killed or frozen; what happens then is up to the machine |
//! | `PERENNIAL_PROCESSES_WORKFLOWS` | how many workflows |

// A panic is how a test fails, and workers live in real time.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use perennial_cosmos_crash::case::Case;
use perennial_cosmos_crash::check::check;
use perennial_cosmos_crash::client::Driver;
use perennial_cosmos_crash::worker;
use perennial_crash::check::{Evidence, Figures, Instance};
use perennial_crash::ledger::Lines;
use perennial_crash::line::Line;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::arena::{Arena, Documents};
use support::torment::{Done, torment};
use tokio::task::JoinSet;

/// How far the clock of each worker is ahead, in milliseconds: of one of them further than any lease lasts.
const AHEAD_MS: [u64; 3] = [0, 0, 10_000];

/// How many workflows are under way at a time.
const OPEN: usize = 50;

/// How long the remaining records of deleted workflows may take to disappear.
const SETTLING: Duration = Duration::from_secs(30);

/// How long totals may take to become right after the last kill.
const COUNTING: Duration = Duration::from_secs(120);

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// Runs all cases, some at a time.
async fn run_all(driver: &Arc<Driver>, cases: &[Case]) -> Result<BTreeMap<String, Instance>, String> {
    let mut found = BTreeMap::new();
    let mut open = JoinSet::new();
    let mut cases = cases.iter().copied();
    loop {
        while open.len() < OPEN
            && let Some(case) = cases.next()
        {
            let driver = Arc::clone(driver);
            open.spawn(async move { driver.run(case).await });
        }
        match open.join_next().await {
            Some(ended) => found.extend(ended.unwrap().map_err(|why| why.to_string())?),
            None => return Ok(found),
        }
    }
}

/// Waits until only bookkeeping and records that are kept for a while on purpose are stored; returns all others.
async fn left_over(arena: &Arena) -> Documents {
    let stays = |kind: &str| {
        let kept = [
            "%",
            "chores members",
            "chores sessions",
            "chores strays",
            "chores tombs",
        ];
        kept.iter().any(|start| kind.starts_with(start))
    };
    let began = Instant::now();
    loop {
        let mut documents = arena.documents().await;
        let counts: Vec<_> = documents.iter().map(|(kind, all)| (kind, all.len())).collect();
        println!("stored: {counts:?}");
        documents.retain(|kind, _| !stays(kind));
        if documents.is_empty() || began.elapsed() > SETTLING {
            return documents;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// Waits until the totals are right: nothing is left, whatever the workers had counted and not written when they were killed.
async fn totals(driver: &Driver) -> [u64; 6] {
    let began = Instant::now();
    loop {
        let found = driver.client().get_system_metrics().await.unwrap();
        let numbers = [
            found.total_instances,
            found.running_instances,
            found.completed_instances,
            found.failed_instances,
            found.total_executions,
            found.total_events,
        ];
        if numbers == [0; 6] || began.elapsed() > COUNTING {
            return numbers;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn count(lines: &Lines, what: impl Fn(&Line) -> bool) -> usize {
    lines.all.iter().filter(|line| what(line)).count()
}

/// How much each worker has done.
fn tell(ledgers: &[Lines]) {
    for (worker, lines) in ledgers.iter().enumerate() {
        println!(
            "worker {worker}, {} ms ahead: openings {}, turns {}, activities {}",
            AHEAD_MS[worker],
            count(lines, |line| matches!(line, Line::Opened)),
            count(lines, |line| matches!(line, Line::Turned(_))),
            count(lines, |line| matches!(line, Line::Done(_))),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_workflow_ends_right_though_workers_are_killed_and_frozen_and_disagree_about_the_time() {
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let seed = number("PERENNIAL_PROCESSES_SEED").unwrap_or_else(now_ms);
    let workflows = number("PERENNIAL_PROCESSES_WORKFLOWS").unwrap_or(150) as usize;
    println!("seed {seed}");

    let began = Instant::now();
    let arena = Arc::new(Arena::new().await);
    let driver = Arc::new(Driver::new(worker::open(arena.account.clone(), 0).await.unwrap()));
    let cases: Vec<Case> = Case::first(workflows).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let tormentors: Vec<_> = (0..AHEAD_MS.len())
        .map(|worker| {
            let (arena, stop) = (Arc::clone(&arena), Arc::clone(&stop));
            std::thread::spawn(move || torment(&arena, worker, AHEAD_MS[worker], seed + worker as u64, &stop))
        })
        .collect();
    let ran = run_all(&driver, &cases).await;
    stop.store(true, Ordering::Relaxed);
    let mut done = Done::default();
    let mut workers = Vec::new();
    for tormentor in tormentors {
        let (worker, what) = tormentor.join().unwrap();
        workers.push(worker);
        done += what;
    }
    println!("{done:?}, {workflows} workflows in {:.1?}", began.elapsed());
    let instances = match ran {
        Ok(instances) => instances,
        Err(why) => {
            let stored = serde_json::to_string_pretty(&arena.documents().await).unwrap();
            panic!("{why}, seed {seed}, at {}; stored:\n{stored}", now_ms());
        }
    };
    let left = left_over(&arena).await;
    drop(workers);
    let totals = totals(&driver).await;

    let ledgers: Vec<Lines> = (0..AHEAD_MS.len()).map(|worker| arena.lines(worker)).collect();
    tell(&ledgers);
    let evidence = Evidence {
        ledger: Lines {
            torn: ledgers.iter().map(|lines| lines.torn).sum(),
            all: ledgers.iter().flat_map(|lines| lines.all.clone()).collect(),
        },
        instances,
        queued: 0,
    };
    println!("{}\nrequests {}", Figures::of(&evidence), arena.server.counts());
    println!("{:.1?} in all", began.elapsed());

    let violations = check(&cases, &evidence);
    for violation in &violations {
        println!("{violation}");
    }
    assert!(violations.is_empty(), "{} violations, seed {seed}", violations.len());
    assert!(left.is_empty(), "left in the container: {left:#?}, seed {seed}");
    assert_eq!(driver.client().list_all_instances().await.unwrap(), [""; 0]);
    assert_eq!(totals, [0; 6], "all was deleted, seed {seed}");
    assert!(
        done.kills > 0 && done.freezes > 0,
        "nothing was done to the workers: {done:?}"
    );
    for (worker, lines) in ledgers.iter().enumerate() {
        let turns = count(lines, |line| matches!(line, Line::Turned(_)));
        assert!(turns > 0, "worker {worker} has done nothing");
    }
}

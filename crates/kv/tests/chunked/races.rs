//! Concurrent sweeps, writers and readers.

use crate::faulty::{Event, Fault, FaultyStore};
use crate::fixture::*;
use async_trait::async_trait;
use futures::FutureExt;
use perennial_kv::{MemoryStore, Settings};
use perennial_store::{ChunkedStore, Clock, Commit, Draft, Error, Op, ScanQuery, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A sweep by a process whose clock is a day ahead.
fn early_sweep(fixture: &Fixture) -> Event {
    let (memory, now_ms) = (fixture.memory.clone(), fixture.clock.now_ms());
    let ahead = ManualClock::new();
    ahead.advance(now_ms + DAY);
    let other = ChunkedStore::new(memory, ahead.clone(), chunk_lane(), 99);
    Box::new(move || {
        async move {
            sweep(&other, ahead.now_ms()).await.unwrap();
        }
        .boxed()
    })
}

/// Overwrites or deletes records behind the reader's back, and sweeps their old chunks.
fn overtake(fixture: &Fixture, ops: Vec<Op>) -> Event {
    let sweeping = early_sweep(fixture);
    let chunked = ChunkedStore::new(fixture.memory.clone(), fixture.clock.clone(), chunk_lane(), 98);
    Box::new(move || {
        async move {
            chunked.commit(Commit::new(ops)).await.unwrap();
            sweeping().await;
        }
        .boxed()
    })
}

#[tokio::test]
async fn chunks_that_are_swept_before_their_commit_are_staged_again() {
    let fixture = Fixture::new(SMALL);
    for sweeps in 1..=3 {
        for _ in 0..sweeps {
            fixture.faulty.before_final.lock().push_back(early_sweep(&fixture));
        }
        fixture.put("a", &text(300 * KB, sweeps)).await;
        assert!(fixture.faulty.before_final.lock().is_empty());
        assert!(fixture.body("a").await.unwrap() == text(300 * KB, sweeps));
    }
    // A commit does not stage forever.
    for _ in 0..100 {
        fixture.faulty.before_final.lock().push_back(early_sweep(&fixture));
    }
    let op = Op::Put(Draft::new(key("a"), text(300 * KB, 9)));
    let outcome = fixture.chunked.commit(Commit::new(vec![op])).await;
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
    assert!(fixture.body("a").await.unwrap() == text(300 * KB, 3));
}

/// A sweep that stops half-way has deleted chunks; the commit that needs them must not succeed.
#[tokio::test]
async fn chunks_that_are_swept_in_part_are_staged_again() {
    for step in 0..6 {
        let fixture = Fixture::new(TINY);
        let ahead = ManualClock::new();
        ahead.advance(DAY);
        let dying = FaultyStore::with(fixture.memory.clone());
        dying.fail(step, Fault::Before);
        let sweeper = ChunkedStore::new(dying, ahead.clone(), chunk_lane(), 99);
        let event: Event = Box::new(move || {
            async move {
                sweep(&sweeper, ahead.now_ms()).await.unwrap_err();
            }
            .boxed()
        });
        fixture.faulty.before_final.lock().push_back(event);
        fixture.put("a", &"x".repeat(20 * KB)).await;
        assert!(fixture.body("a").await.unwrap() == "x".repeat(20 * KB), "step {step}");
        fixture.remove("a").await;
        fixture.sweep().await;
        assert_eq!(fixture.count(), 0, "step {step}");
    }
}

#[tokio::test]
async fn a_slow_writer_stages_again() {
    for (minutes, commits) in [(4, 1), (5, 1), (6, 2)] {
        let fixture = Fixture::new(SMALL);
        let clock = fixture.clock.clone();
        let slow: Event = Box::new(move || async move { clock.advance(minutes * MINUTE) }.boxed());
        fixture.faulty.before_staging.lock().push_back(slow);
        fixture.put("a", &"x".repeat(100 * KB)).await;
        // 100 KB and a manifest are staged in one commit.
        assert_eq!(*fixture.faulty.commits.lock(), commits + 1, "{minutes} minutes");
        assert_eq!(fixture.body("a").await.unwrap().len(), 100 * KB);
        fixture.sweep().await;
        assert_eq!(fixture.body("a").await.unwrap().len(), 100 * KB);
    }
}

#[tokio::test]
async fn a_reader_overtaken_between_pointer_and_chunks_reads_the_new_record() {
    let large = |id: &str, seed| Op::Put(queued(id, &text(300 * KB, seed), 1));
    for (ops, expected) in [
        (vec![large("a", 2)], Some(text(300 * KB, 2))),
        (vec![Op::Put(queued("a", "small", 1))], Some("small".to_owned())),
        (vec![Op::Remove(key("a"))], None),
    ] {
        let new = || {
            let fixture = Fixture::new(SMALL);
            let faulty = fixture.faulty.clone();
            let event = overtake(&fixture, ops.clone());
            async move {
                fixture.chunked.commit(Commit::new(vec![large("a", 1)])).await.unwrap();
                faulty.before_chunks.lock().push_back(event);
                fixture
            }
        };
        assert!(new().await.body("a").await == expected);
        let records: Vec<_> = expected.into_iter().map(|body| ("a".to_owned(), body)).collect();
        assert!(scan(&*new().await.chunked).await.unwrap() == records);
        assert!(work(&*new().await.chunked, 10).await == records);
    }
}

#[tokio::test]
async fn a_scan_that_is_overtaken_still_shows_all_of_a_commit_or_nothing() {
    let fixture = Fixture::new(SMALL);
    let both = |seed: u64| -> Vec<Op> {
        let ops = ["a", "b", "c"].map(|id| Op::Put(Draft::new(key(id), text(70 * KB, seed))));
        ops.into()
    };
    fixture.chunked.commit(Commit::new(both(1))).await.unwrap();
    for seed in 2..5 {
        let event = overtake(&fixture, both(seed));
        fixture.faulty.before_chunks.lock().push_back(event);
    }
    let records = scan(&*fixture.chunked).await.unwrap();
    assert!(records.iter().all(|(_, body)| *body == records[0].1));
}

/// Time that passes by a millisecond with every reading.
struct Running(AtomicU64);

#[async_trait]
impl Clock for Running {
    fn now_ms(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    async fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as u64, Ordering::SeqCst);
    }
}

/// A sweeper for which everything is always due, on another thread, beside writers and readers: nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sweep_at_any_moment_loses_nothing() {
    let memory = Arc::new(MemoryStore::open(Settings::with_limits(TINY)).unwrap());
    let writing = Arc::new(ChunkedStore::new(memory.clone(), ManualClock::new(), chunk_lane(), 1));
    let ahead = Arc::new(Running(AtomicU64::new(2_000_000_000_000)));
    let sweeping = Arc::new(ChunkedStore::new(memory, ahead.clone(), chunk_lane(), 2));
    let is_over = Arc::new(AtomicBool::new(false));
    let sweeper = tokio::spawn({
        let is_over = is_over.clone();
        async move {
            let mut removed = 0;
            while !is_over.load(Ordering::SeqCst) {
                ahead.sleep(Duration::from_secs(100_000)).await;
                removed += sweep(&sweeping, ahead.now_ms()).await.unwrap().1;
                tokio::task::yield_now().await;
            }
            removed
        }
    });
    let writers = (0..3_u64).map(|writer| {
        let chunked = writing.clone();
        tokio::spawn(async move {
            let id = format!("w{writer}");
            let (mut written, mut given_up) = (None, 0);
            for round in 0..200 {
                let body = text(3 * KB, writer * 1_000 + round);
                let op = Op::Put(Draft::new(key(&id), body.clone()));
                match chunked.commit(Commit::new(vec![op])).await {
                    Ok(_) => written = Some(body),
                    Err(Error::Unavailable(_)) => given_up += 1,
                    Err(error) => panic!("{error}"),
                }
                match super::fixture::body(&*chunked, &id).await {
                    Ok(found) => assert!(found == written, "round {round}"),
                    Err(error) => panic!("round {round}: {error}"),
                }
                tokio::task::yield_now().await;
            }
            given_up
        })
    });
    let mut given_up = 0;
    for writer in writers.collect::<Vec<_>>() {
        given_up += writer.await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    let removed = sweeper.await.unwrap();
    assert!(removed > 20, "the sweeper met only {removed} sets of chunks");
    assert!(given_up < 600, "every writer gave up");
}

/// Deletes every record of the partition, as a process does that deletes an instance.
fn delete_all(fixture: &Fixture) -> Event {
    let memory = fixture.memory.clone();
    Box::new(move || {
        async move {
            let query = ScanQuery::all(key("a").partition, usize::MAX).keys_only();
            let all = memory.scan(&query).await.unwrap().records;
            let ops: Vec<Op> = all.into_iter().map(|record| Op::Remove(record.key)).collect();
            for ops in ops.chunks(TINY.ops_per_commit) {
                memory.commit(Commit::new(ops.to_vec())).await.unwrap();
            }
        }
        .boxed()
    })
}

/// A chunk that is written after its manifest was deleted would never be found again.
#[tokio::test]
async fn no_chunk_is_left_of_a_partition_that_is_deleted_while_they_are_staged() {
    for step in 0..12 {
        let fixture = Fixture::new(TINY);
        for _ in 0..step {
            let nothing: Event = Box::new(|| async {}.boxed());
            fixture.faulty.before_staging.lock().push_back(nothing);
        }
        fixture.faulty.before_staging.lock().push_back(delete_all(&fixture));
        fixture.put("a", &"x".repeat(20 * KB)).await;
        assert!(fixture.body("a").await.unwrap() == "x".repeat(20 * KB), "step {step}");
        fixture.remove("a").await;
        fixture.clock.advance(2 * DAY);
        fixture.sweep().await;
        fixture.clock.advance(2 * DAY);
        fixture.sweep().await;
        assert_eq!(fixture.count(), 0, "step {step}");
    }
}

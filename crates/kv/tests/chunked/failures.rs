//! Writers that fail or are dropped at any moment, and lost replies.

use crate::faulty::Fault;
use crate::fixture::*;
use futures::FutureExt;
use perennial_store::{ChunkedStore, Clock, Commit, Counter, Draft, Error, Op, RetryStore, Store};
use std::sync::Arc;
use std::time::Duration;

fn large(seed: u64) -> Commit {
    let ops = ["a", "b"].map(|id| Op::Create(Draft::new(key(id), text(9 * KB, seed))));
    Commit::new(ops.into())
}

/// A failure before or after any of the writes leaves either the whole commit or nothing.
#[tokio::test]
async fn whichever_write_fails_nothing_is_torn_or_left_behind() {
    let steps = {
        let fixture = Fixture::new(TINY);
        fixture.chunked.commit(large(1)).await.unwrap();
        *fixture.faulty.commits.lock()
    };
    assert!(steps > 10, "only {steps} steps");
    for step in 0..steps {
        for fault in [Fault::Before, Fault::After] {
            let fixture = Fixture::new(TINY);
            fixture.faulty.fail(step, fault);
            let outcome = fixture.chunked.commit(large(1)).await;
            let is_last = step + 1 == steps;
            match (fault, is_last) {
                (Fault::After, true) => assert!(matches!(outcome, Err(Error::UnknownOutcome(_)))),
                _ => assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}"),
            }
            let records = scan(&*fixture.chunked).await.unwrap();
            assert_eq!(
                records.len(),
                if is_last && matches!(fault, Fault::After) { 2 } else { 0 }
            );
            assert!(records.iter().all(|(_, body)| *body == text(9 * KB, 1)));
            fixture.sweep().await;
            assert!(
                scan(&*fixture.chunked).await.unwrap() == records,
                "a sweep deletes nothing in use"
            );
            for id in ["a", "b"] {
                fixture.remove(id).await;
            }
            fixture.sweep().await;
            assert_eq!(fixture.count(), 0, "step {step}, {fault:?}");
        }
    }
}

/// A store with two large records of which one was deleted, all of it due.
async fn half_deleted() -> Fixture {
    let fixture = Fixture::new(TINY);
    fixture.chunked.commit(large(1)).await.unwrap();
    fixture.remove("a").await;
    fixture.clock.advance(DAY);
    *fixture.faulty.commits.lock() = 0;
    fixture
}

/// The same for a sweep: it may be interrupted anywhere and continues later.
#[tokio::test]
async fn an_interrupted_sweep_continues_later() {
    let fixture = half_deleted().await;
    assert_eq!(sweep(&fixture.chunked, fixture.clock.now_ms()).await, Ok((1, 1)));
    let steps = *fixture.faulty.commits.lock();
    assert!(steps > 4, "only {steps} steps");
    for step in 0..steps {
        for fault in [Fault::Before, Fault::After] {
            let fixture = half_deleted().await;
            fixture.faulty.fail(step, fault);
            assert!(
                sweep(&fixture.chunked, fixture.clock.now_ms()).await.is_err(),
                "step {step}"
            );
            assert!(fixture.body("b").await.unwrap() == text(9 * KB, 1));
            fixture.sweep().await;
            assert!(fixture.body("b").await.unwrap() == text(9 * KB, 1));
            fixture.remove("b").await;
            fixture.sweep().await;
            assert_eq!(fixture.count(), 0, "step {step}, {fault:?}");
        }
    }
}

/// The runtime drops futures, here at every write: the writer is gone, its chunks are not.
#[tokio::test]
async fn whatever_a_dropped_writer_leaves_is_swept() {
    for step in 0..12 {
        let fixture = Fixture::new(TINY);
        for _ in 0..step {
            fixture
                .faulty
                .before_staging
                .lock()
                .push_back(Box::new(|| async {}.boxed()));
        }
        let never = || futures::future::pending().boxed();
        fixture.faulty.before_staging.lock().push_back(Box::new(never));
        fixture.faulty.before_final.lock().push_back(Box::new(never));
        assert!(fixture.chunked.commit(large(1)).now_or_never().is_none());
        fixture.faulty.before_staging.lock().clear();
        fixture.faulty.before_final.lock().clear();
        assert_eq!(scan(&*fixture.chunked).await.unwrap(), []);
        assert_eq!(fixture.count() > 0, step > 0);
        fixture.sweep().await;
        assert_eq!(fixture.count(), 0, "step {step}");
    }
}

/// Above a retrying store, every reply may be lost.
#[tokio::test]
async fn lost_replies_are_resolved_below() {
    let fixture = Fixture::new(TINY);
    let retrying = RetryStore::new(fixture.faulty.clone(), fixture.clock.clone(), Duration::from_secs(5));
    let chunked = ChunkedStore::new(Arc::new(retrying), fixture.clock.clone(), chunk_lane(), 7);
    for start in 0..2 {
        *fixture.faulty.loses_replies.lock() = true;
        *fixture.faulty.commits.lock() = start;
        let commit = large(1).count(Counter::new("commits"), 1);
        let committed = chunked.commit(commit).await.unwrap();
        for (op, id) in ["a", "b"].into_iter().enumerate() {
            let record = chunked.get(&key(id)).await.unwrap().unwrap();
            assert_eq!(Some(&record.version), committed.version(op));
            assert!(record.body == text(9 * KB, 1));
        }
        let removals = ["a", "b"].map(|id| Op::Remove(key(id)));
        chunked.commit(Commit::new(removals.into())).await.unwrap();
        for _ in 0..2 {
            fixture.clock.advance(DAY);
            sweep(&chunked, fixture.clock.now_ms()).await.unwrap();
        }
        *fixture.faulty.loses_replies.lock() = false;
        assert_eq!(fixture.count(), 0);
    }
    assert_eq!(chunked.counters().await.unwrap(), [(Counter::new("commits"), 2)]);
}

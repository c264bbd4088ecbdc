//! Writers that fail or vanish at any moment, replies that are lost.

use crate::bed::*;
use crate::meddling::Fault;
use futures::FutureExt;
use perennial_store::{ChunkedStore, Clock, Commit, Counter, Draft, Error, Op, RetryStore, Store};
use std::sync::Arc;
use std::time::Duration;

fn large(seed: u64) -> Commit {
    let ops = ["a", "b"].map(|id| Op::Create(Draft::new(key(id), text(9 * KB, seed))));
    Commit::new(ops.into())
}

/// Neither a failure before nor one after any of the writes leaves anything but the whole commit or nothing.
#[tokio::test]
async fn whichever_write_fails_nothing_is_torn_or_left_behind() {
    let steps = {
        let bed = Bed::new(TINY);
        bed.chunked.commit(large(1)).await.unwrap();
        *bed.meddling.commits.lock()
    };
    assert!(steps > 10, "only {steps} steps");
    for step in 0..steps {
        for fault in [Fault::Before, Fault::After] {
            let bed = Bed::new(TINY);
            bed.meddling.fail(step, fault);
            let outcome = bed.chunked.commit(large(1)).await;
            let is_last = step + 1 == steps;
            match (fault, is_last) {
                (Fault::After, true) => assert!(matches!(outcome, Err(Error::UnknownOutcome(_)))),
                _ => assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}"),
            }
            let records = scan(&*bed.chunked).await.unwrap();
            assert_eq!(
                records.len(),
                if is_last && matches!(fault, Fault::After) { 2 } else { 0 }
            );
            assert!(records.iter().all(|(_, body)| *body == text(9 * KB, 1)));
            bed.sweep().await;
            assert!(
                scan(&*bed.chunked).await.unwrap() == records,
                "a sweep takes nothing that is needed"
            );
            for id in ["a", "b"] {
                bed.remove(id).await;
            }
            bed.sweep().await;
            assert_eq!(bed.count(), 0, "step {step}, {fault:?}");
        }
    }
}

/// A store with two large records of which one was deleted, all of it due.
async fn half_deleted() -> Bed {
    let bed = Bed::new(TINY);
    bed.chunked.commit(large(1)).await.unwrap();
    bed.remove("a").await;
    bed.clock.advance(DAY);
    *bed.meddling.commits.lock() = 0;
    bed
}

/// The same for a sweep: it may be interrupted anywhere and goes on later.
#[tokio::test]
async fn a_sweep_that_is_interrupted_goes_on_later() {
    let bed = half_deleted().await;
    assert_eq!(sweep(&bed.chunked, bed.clock.now_ms()).await, Ok((1, 1)));
    let steps = *bed.meddling.commits.lock();
    assert!(steps > 4, "only {steps} steps");
    for step in 0..steps {
        for fault in [Fault::Before, Fault::After] {
            let bed = half_deleted().await;
            bed.meddling.fail(step, fault);
            assert!(sweep(&bed.chunked, bed.clock.now_ms()).await.is_err(), "step {step}");
            assert!(bed.body("b").await.unwrap() == text(9 * KB, 1));
            bed.sweep().await;
            assert!(bed.body("b").await.unwrap() == text(9 * KB, 1));
            bed.remove("b").await;
            bed.sweep().await;
            assert_eq!(bed.count(), 0, "step {step}, {fault:?}");
        }
    }
}

/// The runtime drops futures. Here at every write: the writer is gone, its parts are not.
#[tokio::test]
async fn a_writer_that_vanishes_leaves_nothing_that_is_not_swept() {
    for step in 0..12 {
        let bed = Bed::new(TINY);
        for _ in 0..step {
            bed.meddling
                .before_staging
                .lock()
                .push_back(Box::new(|| async {}.boxed()));
        }
        let never = || futures::future::pending().boxed();
        bed.meddling.before_staging.lock().push_back(Box::new(never));
        bed.meddling.before_final.lock().push_back(Box::new(never));
        assert!(bed.chunked.commit(large(1)).now_or_never().is_none());
        bed.meddling.before_staging.lock().clear();
        bed.meddling.before_final.lock().clear();
        assert_eq!(scan(&*bed.chunked).await.unwrap(), []);
        assert_eq!(bed.count() > 0, step > 0);
        bed.sweep().await;
        assert_eq!(bed.count(), 0, "step {step}");
    }
}

/// Above a patient store, every reply may be lost.
#[tokio::test]
async fn lost_replies_are_resolved_below() {
    let bed = Bed::new(TINY);
    let patient = RetryStore::new(bed.meddling.clone(), bed.clock.clone(), Duration::from_secs(5));
    let chunked = ChunkedStore::new(Arc::new(patient), bed.clock.clone(), 7);
    for start in 0..2 {
        *bed.meddling.loses_replies.lock() = true;
        *bed.meddling.commits.lock() = start;
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
            bed.clock.advance(DAY);
            sweep(&chunked, bed.clock.now_ms()).await.unwrap();
        }
        *bed.meddling.loses_replies.lock() = false;
        assert_eq!(bed.count(), 0);
    }
    assert_eq!(chunked.counters().await.unwrap(), [(Counter::new("commits"), 2)]);
}

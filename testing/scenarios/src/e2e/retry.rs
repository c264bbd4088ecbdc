//! Activities that fail and are tried again.

use std::time::{Duration, Instant};

use duroxide::{BackoffStrategy, RetryPolicy};

use crate::probe::Notes;
use crate::{Harness, Program};

/// An activity `Flaky` that fails until its `good`-th try.
fn flaky(tries: &Notes, good: usize) -> Program {
    let tries = tries.clone();
    Program::new().activity("Flaky", move |_, input| {
        let attempt = tries.add(input.clone());
        async move {
            if attempt < good {
                Err(format!("try {attempt}"))
            } else {
                Ok(format!("{input} {attempt}"))
            }
        }
    })
}

/// A third try that works is a success, with two timers between.
pub async fn a_retry_succeeds_on_the_third_try(h: &Harness) {
    let tries = Notes::default();
    h.runtime(flaky(&tries, 3).workflow("Retry", |ctx, input| async move {
        let backoff = BackoffStrategy::Fixed {
            delay: Duration::from_millis(10),
        };
        ctx.schedule_activity_with_retry("Flaky", input, RetryPolicy::new(5).with_backoff(backoff))
            .await
    }))
    .await;
    h.start("retry", "Retry", "in").await;
    assert_eq!(h.output("retry").await, "in 3");
    assert_eq!(tries.all(), ["in", "in", "in"]);
    let kinds = h.kinds("retry").await;
    assert_eq!(kinds.iter().filter(|k| *k == "ActivityFailed").count(), 2);
    assert_eq!(kinds.iter().filter(|k| *k == "TimerFired").count(), 2);
}

/// When the tries are used up, the last error stands.
pub async fn a_retry_gives_up_with_the_last_error(h: &Harness) {
    let tries = Notes::default();
    h.runtime(flaky(&tries, usize::MAX).workflow("Retry", |ctx, input| async move {
        let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::None);
        ctx.schedule_activity_with_retry("Flaky", input, policy).await
    }))
    .await;
    h.start("retry", "Retry", "in").await;
    assert_eq!(h.failure("retry").await.display_message(), "try 3");
    assert_eq!(tries.count(), 3);
    assert!(
        !h.kinds("retry").await.contains(&"TimerCreated".to_owned()),
        "no back-off means no timer"
    );
}

/// A growing back-off waits at least as long as it says.
pub async fn a_growing_back_off_waits(h: &Harness) {
    let tries = Notes::default();
    h.runtime(flaky(&tries, 4).workflow("Retry", |ctx, input| async move {
        let backoff = BackoffStrategy::Exponential {
            base: Duration::from_millis(40),
            multiplier: 2.0,
            max: Duration::from_millis(100),
        };
        ctx.schedule_activity_with_retry("Flaky", input, RetryPolicy::new(4).with_backoff(backoff))
            .await
    }))
    .await;
    let begun = Instant::now();
    h.start("retry", "Retry", "in").await;
    assert_eq!(h.output("retry").await, "in 4");
    assert!(
        begun.elapsed() >= Duration::from_millis(40 + 80 + 100),
        "waited only {:?}",
        begun.elapsed()
    );
}

/// A try that takes too long ends the retries.
pub async fn a_try_that_takes_too_long_is_not_repeated(h: &Harness) {
    let tries = Notes::default();
    let notes = tries.clone();
    h.runtime(
        Program::new()
            .options(|o| o.worker_lock_timeout = Duration::from_secs(2))
            .activity("Slow", move |ctx, _| {
                notes.add("try");
                async move {
                    ctx.cancelled().await;
                    Err("cancelled".to_owned())
                }
            })
            .workflow("Retry", |ctx, _| async move {
                let policy = RetryPolicy::new(5).with_timeout(Duration::from_millis(50));
                ctx.schedule_activity_with_retry("Slow", "", policy).await
            }),
    )
    .await;
    h.start("retry", "Retry", "").await;
    assert_eq!(
        h.failure("retry").await.display_message(),
        "timeout: activity timed out"
    );
    assert_eq!(tries.count(), 1);
}

/// Several retried activities side by side keep their own counts.
pub async fn retries_side_by_side_keep_their_own_counts(h: &Harness) {
    let tries = Notes::default();
    let notes = tries.clone();
    h.runtime(
        Program::new()
            .activity("Flaky", move |_, input| {
                notes.add(input.clone());
                let seen = notes.all().iter().filter(|n| **n == input).count();
                async move {
                    if seen < 2 {
                        Err("again".to_owned())
                    } else {
                        Ok(format!("{input}{seen}"))
                    }
                }
            })
            .workflow("Both", |ctx, _| async move {
                let policy = || RetryPolicy::new(3).with_backoff(BackoffStrategy::None);
                let a = ctx.schedule_activity_with_retry("Flaky", "a", policy());
                let b = ctx.schedule_activity_with_retry("Flaky", "b", policy());
                let (a, b) = ctx.join2(a, b).await;
                Ok(format!("{} {}", a?, b?))
            }),
    )
    .await;
    h.start("both", "Both", "").await;
    assert_eq!(h.output("both").await, "a2 b2");
    assert_eq!(tries.sorted(), ["a", "a", "b", "b"]);
}

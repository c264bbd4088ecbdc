//! Timers, and races against them.

use std::time::{Duration, Instant};

use duroxide::{Either2, Either3, EventKind};

use crate::{Harness, Program};

/// A timer never fires early.
pub async fn a_timer_never_fires_early(h: &Harness) {
    h.runtime(Program::new().workflow("Sleep", |ctx, _| async move {
        ctx.schedule_timer(Duration::from_millis(300)).await;
        Ok("awake".to_owned())
    }))
    .await;
    let begun = Instant::now();
    h.start("sleep", "Sleep", "").await;
    assert_eq!(h.output("sleep").await, "awake");
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "woke after {:?}",
        begun.elapsed()
    );
}

/// A timer of no length fires.
pub async fn a_timer_of_no_length_fires(h: &Harness) {
    h.runtime(Program::new().workflow("Blink", |ctx, _| async move {
        ctx.schedule_timer(Duration::ZERO).await;
        Ok("blinked".to_owned())
    }))
    .await;
    h.start("blink", "Blink", "").await;
    assert_eq!(h.output("blink").await, "blinked");
}

/// Timers fire by their due time, not by the order of their making.
pub async fn timers_fire_by_due_time(h: &Harness) {
    h.runtime(Program::new().workflow("Order", |ctx, _| async move {
        let late = ctx.schedule_timer(Duration::from_millis(500));
        let soon = ctx.schedule_timer(Duration::from_millis(50));
        let first = match ctx.select2(late, soon).await {
            Either2::First(()) => "late",
            Either2::Second(()) => "soon",
        };
        Ok(first.to_owned())
    }))
    .await;
    h.start("order", "Order", "").await;
    assert_eq!(h.output("order").await, "soon");
}

/// Fifty timers of fifty instances all fire.
pub async fn many_timers_all_fire(h: &Harness) {
    h.runtime(Program::new().workflow("Nap", |ctx, input| async move {
        let millis: u64 = input.parse().map_err(|_| "not a number".to_owned())?;
        ctx.schedule_timer(Duration::from_millis(millis)).await;
        Ok(input)
    }))
    .await;
    for i in 0..50 {
        h.start(&format!("nap-{i}"), "Nap", &(i * 4).to_string()).await;
    }
    for i in 0..50 {
        assert_eq!(h.output(&format!("nap-{i}")).await, (i * 4).to_string());
    }
}

/// A quick activity beats a long timer, which then never matters.
pub async fn an_activity_beats_a_timer(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Race", |ctx, _| async move {
        let work = ctx.schedule_activity("Echo", "work");
        let limit = ctx.schedule_timer(Duration::from_secs(60));
        match ctx.select2(work, limit).await {
            Either2::First(result) => result,
            Either2::Second(()) => Err("too late".to_owned()),
        }
    }))
    .await;
    h.start("race", "Race", "").await;
    assert_eq!(h.output("race").await, "work");
}

/// A timer beats a stuck activity; the workflow goes on without it.
pub async fn a_timer_beats_an_activity(h: &Harness) {
    h.runtime(
        Program::new()
            .with_echo()
            .options(|o| {
                o.worker_concurrency = 2;
                o.worker_lock_timeout = Duration::from_secs(2);
            })
            .activity("Stuck", |ctx, _| async move {
                ctx.cancelled().await;
                Ok("too late".to_owned())
            })
            .workflow("Race", |ctx, _| async move {
                let work = ctx.schedule_activity("Stuck", "");
                let limit = ctx.schedule_timer(Duration::from_millis(50));
                match ctx.select2(work, limit).await {
                    Either2::First(result) => result,
                    Either2::Second(()) => ctx.schedule_activity("Echo", "plan b").await,
                }
            }),
    )
    .await;
    h.start("race", "Race", "").await;
    assert_eq!(h.output("race").await, "plan b");
    let history = h.history("race").await;
    let cancelled = history
        .iter()
        .filter(|e| matches!(e.kind, EventKind::ActivityCancelRequested { .. }));
    assert_eq!(cancelled.count(), 1, "the loser's cancellation is recorded once");
}

/// Of three, the first to finish wins.
pub async fn the_first_of_three_wins(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Three", |ctx, _| async move {
        let event = ctx.schedule_wait("never");
        let timer = ctx.schedule_timer(Duration::from_secs(60));
        let work = ctx.schedule_activity("Echo", "third");
        match ctx.select3(event, timer, work).await {
            Either3::First(_) => Err("the event came".to_owned()),
            Either3::Second(()) => Err("the timer fired".to_owned()),
            Either3::Third(result) => result,
        }
    }))
    .await;
    h.start("three", "Three", "").await;
    assert_eq!(h.output("three").await, "third");
}

/// A timer does not hold up the steps beside it.
pub async fn a_long_timer_holds_nothing_up(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Beside", |ctx, _| async move {
        let _limit = ctx.schedule_timer(Duration::from_secs(3600));
        let mut word = String::new();
        for step in ["a", "b", "c"] {
            word.push_str(&ctx.schedule_activity("Echo", step).await?);
        }
        Ok(word)
    }))
    .await;
    h.start("beside", "Beside", "").await;
    assert_eq!(h.output("beside").await, "abc");
}

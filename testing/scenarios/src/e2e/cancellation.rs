//! Workflows and activities that are cancelled.

use std::time::Duration;

use duroxide::runtime::OrchestrationStatus;
use duroxide::{AppErrorKind, Either2, ErrorDetails, TagFilter};

use crate::probe::Notes;
use crate::{Harness, Program};

fn waiter() -> Program {
    Program::new().workflow("Wait", |ctx, _| async move { Ok(ctx.schedule_wait("go").await) })
}

fn reason(details: ErrorDetails) -> String {
    match details {
        ErrorDetails::Application {
            kind: AppErrorKind::Cancelled { reason },
            ..
        } => reason,
        other => panic!("not cancelled, but {other:?}"),
    }
}

/// An activity `Patient` that runs until it is cancelled, and notes both.
fn patient(notes: &Notes) -> Program {
    let notes = notes.clone();
    // The shortest lease whose renewal (after one second) notices a cancellation.
    Program::new()
        .options(|o| o.worker_lock_timeout = Duration::from_secs(2))
        .activity("Patient", move |ctx, _| {
            let notes = notes.clone();
            async move {
                notes.add("running");
                ctx.cancelled().await;
                notes.add("told to stop");
                Ok("ignored".to_owned())
            }
        })
}

/// A waiting workflow stops, with the reason, and later events change nothing.
pub async fn a_waiting_workflow_stops(h: &Harness) {
    h.runtime(waiter()).await;
    h.start("wait", "Wait", "").await;
    h.until_waiting("wait", "go", 1).await;
    h.cancel("wait", "closing time").await;
    assert_eq!(reason(h.failure("wait").await), "closing time");
    h.raise("wait", "go", "too late").await;
    h.cancel("wait", "again").await;
    h.start("other", "Wait", "").await;
    h.until_waiting("other", "go", 1).await;
    assert_eq!(reason(h.failure("wait").await), "closing time");
}

/// Cancelling what has completed changes nothing.
pub async fn a_completed_workflow_stays_completed(h: &Harness) {
    h.runtime(Program::new().workflow("Quick", |_, input| async move { Ok(input) }))
        .await;
    h.start("quick", "Quick", "done").await;
    assert_eq!(h.output("quick").await, "done");
    h.cancel("quick", "late").await;
    h.start("next", "Quick", "next").await;
    assert_eq!(h.output("next").await, "next");
    assert_eq!(h.output("quick").await, "done");
}

/// A cancellation that is there before the first turn stops the workflow in its first turn.
pub async fn a_workflow_can_be_cancelled_before_it_runs(h: &Harness) {
    h.start("early", "Wait", "").await;
    h.cancel("early", "changed my mind").await;
    h.runtime(waiter()).await;
    assert_eq!(reason(h.failure("early").await), "changed my mind");
}

/// The first of several cancellations gives the reason.
pub async fn the_first_cancellation_gives_the_reason(h: &Harness) {
    h.start("many", "Wait", "").await;
    for why in ["first", "second", "third"] {
        h.cancel("many", why).await;
    }
    h.runtime(waiter()).await;
    assert_eq!(reason(h.failure("many").await), "first");
    let kinds = h.kinds("many").await;
    assert_eq!(kinds.iter().filter(|k| *k == "OrchestrationCancelRequested").count(), 1);
}

/// A running activity of a cancelled workflow is cancelled, and its result is dropped.
pub async fn a_running_activity_is_told_to_stop(h: &Harness) {
    let notes = Notes::default();
    h.runtime(patient(&notes).workflow(
        "Call",
        |ctx, _| async move { ctx.schedule_activity("Patient", "").await },
    ))
    .await;
    h.start("call", "Call", "").await;
    h.until("the activity runs", || async { notes.count() == 1 }).await;
    h.cancel("call", "stop it").await;
    assert_eq!(reason(h.failure("call").await), "stop it");
    h.until("the activity was told", || async { notes.count() == 2 }).await;
    h.until("its work item is gone", || async {
        let depths = h.client().get_queue_depths().await.unwrap();
        depths.worker_queue == 0 && depths.orchestrator_queue == 0
    })
    .await;
    assert!(!h.kinds("call").await.contains(&"ActivityCompleted".to_owned()));
}

/// An activity that loses a race is cancelled, and the workflow goes on.
pub async fn an_activity_that_loses_a_race_is_told_to_stop(h: &Harness) {
    let notes = Notes::default();
    h.runtime(patient(&notes).workflow("Race", |ctx, _| async move {
        let work = ctx.schedule_activity("Patient", "");
        let stop = ctx.schedule_wait("stop");
        match ctx.select2(work, stop).await {
            Either2::First(result) => result,
            Either2::Second(_) => Ok(ctx.schedule_wait("go").await),
        }
    }))
    .await;
    h.start("race", "Race", "").await;
    h.until_waiting("race", "stop", 1).await;
    h.until("the activity runs", || async { notes.count() == 1 }).await;
    h.raise("race", "stop", "").await;
    h.until("the activity was told", || async { notes.count() == 2 }).await;
    assert!(matches!(h.status("race").await, OrchestrationStatus::Running { .. }));
    h.until_waiting("race", "go", 1).await;
    h.raise("race", "go", "on").await;
    assert_eq!(h.output("race").await, "on");
}

/// An activity that does not listen is cut off after the grace period, and its slot is free again.
pub async fn a_deaf_activity_is_cut_off(h: &Harness) {
    let notes = Notes::default();
    let deaf = notes.clone();
    h.runtime(
        Program::new()
            .with_echo()
            .options(|o| {
                o.worker_concurrency = 1;
                o.worker_lock_timeout = Duration::from_secs(2);
                o.activity_cancellation_grace_period = Duration::from_millis(50);
            })
            .activity("Deaf", move |_, _| {
                deaf.add("running");
                async {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                    Ok(String::new())
                }
            })
            .workflow("Call", |ctx, input| async move {
                ctx.schedule_activity(input, "free").await
            }),
    )
    .await;
    h.start("deaf", "Call", "Deaf").await;
    h.until("the activity runs", || async { notes.count() == 1 }).await;
    h.cancel("deaf", "stop").await;
    h.start("next", "Call", "Echo").await;
    assert_eq!(h.output("next").await, "free");
    assert_eq!(notes.count(), 1, "the deaf activity ran again");
}

/// Work that no worker has taken yet disappears with its workflow.
pub async fn waiting_work_of_a_cancelled_workflow_never_runs(h: &Harness) {
    let notes = Notes::default();
    let ran = notes.clone();
    let program = || {
        let ran = ran.clone();
        Program::new()
            .activity("Work", move |_, input| {
                ran.add(input.clone());
                async move { Ok(input) }
            })
            .workflow("Call", |ctx, input| async move {
                ctx.schedule_activity("Work", input).await
            })
    };
    h.runtime(program().options(|o| o.worker_tag_filter = TagFilter::None))
        .await;
    h.start("doomed", "Call", "doomed").await;
    h.start("alive", "Call", "alive").await;
    for instance in ["doomed", "alive"] {
        h.until("the work waits", || async { h.kinds(instance).await.len() == 2 })
            .await;
    }
    h.cancel("doomed", "no").await;
    assert_eq!(reason(h.failure("doomed").await), "no");
    h.runtime(program()).await;
    assert_eq!(h.output("alive").await, "alive");
    assert_eq!(notes.all(), ["alive"]);
    assert_eq!(h.client().get_queue_depths().await.unwrap().worker_queue, 0);
}

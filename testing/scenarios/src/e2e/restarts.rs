//! Runtimes and stores that stop in the middle.

use std::time::Duration;

use duroxide::{Client, EventKind};

use crate::probe::Notes;
use crate::{Harness, Program};

/// Three steps with a wait before each, every run of a step noted.
fn steps(ran: &Notes) -> Program {
    let ran = ran.clone();
    Program::new()
        .activity("Step", move |_, input| {
            ran.add(input.clone());
            async move { Ok(input) }
        })
        .workflow("Steps", |ctx, _| async move {
            let mut done = String::new();
            for step in ["a", "b", "c"] {
                ctx.schedule_wait("next").await;
                done.push_str(&ctx.schedule_activity("Step", step).await?);
                ctx.set_kv_value("done", &done);
                ctx.set_custom_status(&done);
            }
            Ok(done)
        })
}

async fn step(h: &Harness, number: usize) {
    h.until_waiting("steps", "next", number).await;
    h.raise("steps", "next", "").await;
}

/// A new runtime goes on where the last one was, and no finished step runs twice.
pub async fn a_new_runtime_goes_on(h: &Harness) {
    let ran = Notes::default();
    h.start("steps", "Steps", "").await;
    for number in 1..=3 {
        let node = h.runtime(steps(&ran)).await;
        step(h, number).await;
        h.until("the step ran", || async { ran.count() == number }).await;
        if number < 3 {
            h.until_waiting("steps", "next", number + 1).await;
            h.kill(node).await;
        }
    }
    assert_eq!(h.output("steps").await, "abc");
    assert_eq!(ran.all(), ["a", "b", "c"]);
}

/// A store that is closed and opened again goes on.
pub async fn a_reopened_store_goes_on(h: &Harness) {
    goes_on(h, async || h.restart().await).await;
}

/// A store that died without a close goes on: what was acknowledged is there, and is not done again.
pub async fn a_crashed_store_goes_on(h: &Harness) {
    goes_on(h, async || h.crash_and_reopen().await).await;
}

/// The store is interrupted before each step, and after the last.
async fn goes_on(h: &Harness, interrupt: impl AsyncFn()) {
    let ran = Notes::default();
    h.start("steps", "Steps", "").await;
    for number in 1..=3 {
        interrupt().await;
        h.runtime(steps(&ran)).await;
        step(h, number).await;
        h.until("the step ran", || async { ran.count() == number }).await;
        if number < 3 {
            h.until_waiting("steps", "next", number + 1).await;
        }
    }
    assert_eq!(h.output("steps").await, "abc");
    interrupt().await;
    assert_eq!(h.output("steps").await, "abc");
    assert_eq!(ran.all(), ["a", "b", "c"]);
}

/// All that can be read about an instance reads the same after a restart.
pub async fn everything_reads_the_same_after_a_restart(h: &Harness) {
    let ran = Notes::default();
    h.runtime(steps(&ran)).await;
    h.start("steps", "Steps", "").await;
    step(h, 1).await;
    h.until_waiting("steps", "next", 2).await;
    h.stop_all().await;
    let before = snapshot(h).await;
    assert!(before.contains("\"a\""), "{before}");
    h.restart().await;
    assert_eq!(snapshot(h).await, before);
    h.crash_and_reopen().await;
    assert_eq!(snapshot(h).await, before);
}

async fn snapshot(h: &Harness) -> String {
    let client = h.client();
    let info = client.get_instance_info("steps").await.unwrap();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        h.status("steps").await,
        h.history("steps").await,
        client.get_kv_all_values("steps").await.unwrap(),
        client.get_orchestration_stats("steps").await.unwrap(),
        (
            info.status,
            info.orchestration_name,
            info.orchestration_version,
            info.current_execution_id,
            info.output
        ),
        client.list_all_instances().await.unwrap(),
        client.list_instances_by_status("Running").await.unwrap(),
    )
}

/// A timer that came due while nothing ran fires when something runs again.
pub async fn a_timer_fires_after_a_restart(h: &Harness) {
    let program = || {
        Program::new().workflow("Nap", |ctx, _| async move {
            ctx.schedule_timer(Duration::from_millis(400)).await;
            Ok("awake".to_owned())
        })
    };
    for (instance, pause) in [("overdue", 500), ("due later", 0)] {
        h.runtime(program()).await;
        h.start(instance, "Nap", "").await;
        h.until_event(instance, |kind| matches!(kind, EventKind::TimerCreated { .. }))
            .await;
        h.restart().await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        h.runtime(program()).await;
        assert_eq!(h.output(instance).await, "awake");
        h.stop_all().await;
    }
}

/// Starts, events and messages sent while nothing runs are all there afterwards.
pub async fn what_is_sent_while_nothing_runs_arrives(h: &Harness) {
    for i in 0..20 {
        h.start(&format!("mail-{i}"), "Mail", &i.to_string()).await;
        h.enqueue(&format!("mail-{i}"), "inbox", &format!("letter {i}")).await;
    }
    h.restart().await;
    for i in 0..20 {
        h.enqueue(&format!("mail-{i}"), "inbox", "postscript").await;
    }
    h.crash_and_reopen().await;
    h.runtime(Program::new().workflow("Mail", |ctx, input| async move {
        let letter = ctx.dequeue_event("inbox").await;
        let more = ctx.dequeue_event("inbox").await;
        Ok(format!("{input}: {letter}, {more}"))
    }))
    .await;
    for i in 0..20 {
        assert_eq!(
            h.output(&format!("mail-{i}")).await,
            format!("{i}: letter {i}, postscript")
        );
    }
}

/// An activity that was cut short runs again once its lease has ended.
pub async fn an_activity_cut_short_runs_again(h: &Harness) {
    let ran = Notes::default();
    let program = || {
        let ran = ran.clone();
        Program::new()
            .options(|o| o.worker_lock_timeout = Duration::from_secs(1))
            .activity("Work", move |_, _| {
                let first = ran.add("run") == 1;
                async move {
                    if first {
                        tokio::time::sleep(Duration::from_secs(3600)).await;
                    }
                    Ok("finished".to_owned())
                }
            })
            .workflow("Call", |ctx, _| async move { ctx.schedule_activity("Work", "").await })
    };
    let node = h.runtime(program()).await;
    h.start("call", "Call", "").await;
    h.until("the activity runs", || async { ran.count() == 1 }).await;
    h.kill(node).await;
    h.runtime(program()).await;
    assert_eq!(h.output("call").await, "finished");
    assert_eq!(ran.count(), 2);
}

/// Two clients see the same world.
pub async fn two_clients_see_the_same(h: &Harness) {
    let ran = Notes::default();
    h.runtime(steps(&ran)).await;
    let (one, two) = (Client::new(h.store()), Client::new(h.store()));
    one.start_orchestration("steps", "Steps", "").await.unwrap();
    for number in 1..=3 {
        h.until_waiting("steps", "next", number).await;
        let client = if number % 2 == 0 { &one } else { &two };
        client.raise_event("steps", "next", "").await.unwrap();
    }
    let timeout = crate::harness::TIMEOUT;
    let (a, b) = tokio::join!(
        one.wait_for_orchestration("steps", timeout),
        two.wait_for_orchestration("steps", timeout)
    );
    assert_eq!(a.unwrap(), b.unwrap());
    assert_eq!(two.get_kv_value("steps", "done").await.unwrap().as_deref(), Some("abc"));
    assert_eq!(
        one.list_all_instances().await.unwrap(),
        two.list_all_instances().await.unwrap()
    );
}

/// Two runtimes share the work, and no step is done by both.
pub async fn two_runtimes_share_the_work(h: &Harness) {
    let ran = Notes::default();
    let program = || {
        let ran = ran.clone();
        Program::new()
            .activity("Step", move |ctx, input| {
                ran.add(format!("{} {input}", ctx.instance_id()));
                async move { Ok(input) }
            })
            .workflow("Flow", |ctx, _| async move {
                let calls = (0..3).map(|i| ctx.schedule_activity("Step", i.to_string())).collect();
                let results: Result<Vec<_>, _> = ctx.join(calls).await.into_iter().collect();
                Ok(results?.concat())
            })
    };
    h.runtime(program()).await;
    h.runtime(program()).await;
    for i in 0..30 {
        h.start(&format!("flow-{i}"), "Flow", "").await;
    }
    for i in 0..30 {
        assert_eq!(h.output(&format!("flow-{i}")).await, "012");
    }
    let mut steps = ran.sorted();
    steps.dedup();
    assert_eq!((ran.count(), steps.len()), (90, 90));
}

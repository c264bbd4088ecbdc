//! Branches, loops and errors in workflow code.

use duroxide::{AppErrorKind, ErrorDetails};

use crate::probe::Notes;
use crate::{Harness, Program};

/// A result decides which step comes next; the other never runs.
pub async fn a_branch_takes_one_way(h: &Harness) {
    let ran = Notes::default();
    let (left, right) = (ran.clone(), ran.clone());
    h.runtime(
        Program::new()
            .activity("Coin", |_, side| async move { Ok(side) })
            .activity("Left", move |_, _| {
                left.add("left");
                async { Ok("went left".to_owned()) }
            })
            .activity("Right", move |_, _| {
                right.add("right");
                async { Ok("went right".to_owned()) }
            })
            .workflow("Fork", |ctx, input| async move {
                let side = ctx.schedule_activity("Coin", input).await?;
                ctx.schedule_activity(if side == "heads" { "Left" } else { "Right" }, "")
                    .await
            }),
    )
    .await;
    h.start("fork", "Fork", "tails").await;
    assert_eq!(h.output("fork").await, "went right");
    assert_eq!(ran.all(), ["right"]);
}

/// A loop whose end depends on what its steps return.
pub async fn a_loop_ends_when_its_steps_say_so(h: &Harness) {
    h.runtime(
        Program::new()
            .activity("Halve", |_, n| async move {
                let n: u32 = n.parse().map_err(|_| "not a number".to_owned())?;
                Ok((n / 2).to_string())
            })
            .workflow("Halving", |ctx, input| async move {
                let (mut value, mut rounds) = (input, 0);
                while value != "0" {
                    value = ctx.schedule_activity("Halve", value).await?;
                    rounds += 1;
                }
                Ok(rounds.to_string())
            }),
    )
    .await;
    h.start("halving", "Halving", "1000").await;
    assert_eq!(h.output("halving").await, "10");
}

/// A failed activity that is not handled fails the workflow, with its message.
pub async fn an_unhandled_error_fails_the_workflow(h: &Harness) {
    h.runtime(
        Program::new()
            .activity("Pay", |_, _| async { Err("card declined".to_owned()) })
            .workflow("Buy", |ctx, _| async move { ctx.schedule_activity("Pay", "").await }),
    )
    .await;
    h.start("buy", "Buy", "").await;
    match h.failure("buy").await {
        ErrorDetails::Application {
            kind: AppErrorKind::OrchestrationFailed,
            message,
            ..
        } => {
            assert_eq!(message, "card declined");
        }
        other => panic!("unexpected failure {other:?}"),
    }
    let info = h.admin(async |a| a.get_instance_info("buy").await).await.unwrap();
    assert_eq!(
        (info.status.as_str(), info.output.as_deref()),
        ("Failed", Some("card declined"))
    );
}

/// A handled error leads to compensation in reverse order, and the workflow still completes.
pub async fn a_handled_error_is_compensated(h: &Harness) {
    let ran = Notes::default();
    let (does, undoes) = (ran.clone(), ran.clone());
    h.runtime(
        Program::new()
            .activity("Do", move |_, step| {
                does.add(format!("do {step}"));
                async move {
                    if step == "ship" {
                        Err("no ship".to_owned())
                    } else {
                        Ok(step)
                    }
                }
            })
            .activity("Undo", move |_, step| {
                undoes.add(format!("undo {step}"));
                async move { Ok(step) }
            })
            .workflow("Saga", |ctx, _| async move {
                let mut done = Vec::new();
                for step in ["reserve", "charge", "ship"] {
                    match ctx.schedule_activity("Do", step).await {
                        Ok(step) => done.push(step),
                        Err(why) => {
                            for step in done.into_iter().rev() {
                                ctx.schedule_activity("Undo", step).await?;
                            }
                            return Ok(format!("rolled back: {why}"));
                        }
                    }
                }
                Ok("shipped".to_owned())
            }),
    )
    .await;
    h.start("saga", "Saga", "").await;
    assert_eq!(h.output("saga").await, "rolled back: no ship");
    assert_eq!(
        ran.all(),
        ["do reserve", "do charge", "do ship", "undo charge", "undo reserve"]
    );
}

/// Errors pass through helper functions of a workflow.
pub async fn errors_pass_through_helper_functions(h: &Harness) {
    async fn checked(ctx: &duroxide::OrchestrationContext, input: &str) -> Result<String, String> {
        let value = ctx
            .schedule_activity("Check", input)
            .await
            .map_err(|e| format!("checked: {e}"))?;
        Ok(format!("<{value}>"))
    }
    h.runtime(
        Program::new()
            .activity("Check", |_, input| async move {
                if input.is_empty() {
                    Err("empty".to_owned())
                } else {
                    Ok(input)
                }
            })
            .workflow("Outer", |ctx, input| async move { checked(&ctx, &input).await }),
    )
    .await;
    h.start("good", "Outer", "value").await;
    h.start("bad", "Outer", "").await;
    assert_eq!(h.output("good").await, "<value>");
    assert_eq!(h.failure("bad").await.display_message(), "checked: empty");
}

/// An activity that panics is a failed activity, and the worker lives on.
pub async fn a_panicking_activity_is_a_failed_activity(h: &Harness) {
    h.runtime(
        Program::new()
            .with_echo()
            .activity("Panic", |_, input| async move {
                assert!(input.is_empty(), "deliberate panic of a scenario");
                Ok(String::new())
            })
            .workflow("Brave", |ctx, _| async move {
                let outcome = ctx.schedule_activity("Panic", "now").await;
                let after = ctx.schedule_activity("Echo", "alive").await?;
                Ok(format!(
                    "{} {after}",
                    if outcome.is_err() { "failed" } else { "passed" }
                ))
            }),
    )
    .await;
    h.start("brave", "Brave", "").await;
    assert_eq!(h.output("brave").await, "failed alive");
}

/// A workflow that panics has failed, and others go on.
pub async fn a_panicking_workflow_has_failed(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Panic", |_, input| async move {
                assert!(input.is_empty(), "deliberate panic of a scenario");
                Ok(String::new())
            })
            .workflow("Calm", |_, input| async move { Ok(input) }),
    )
    .await;
    h.start("panic", "Panic", "now").await;
    h.start("calm", "Calm", "calm").await;
    match h.failure("panic").await {
        ErrorDetails::Application {
            kind: AppErrorKind::Panicked,
            ..
        } => {}
        other => panic!("unexpected failure {other:?}"),
    }
    assert_eq!(h.output("calm").await, "calm");
}

/// Code that no longer matches its history is refused, not obeyed.
pub async fn changed_code_is_detected(h: &Harness) {
    let before = h
        .runtime(Program::new().with_echo().workflow("Drift", |ctx, _| async move {
            ctx.schedule_activity("Echo", "before").await?;
            Ok(ctx.schedule_wait("go").await)
        }))
        .await;
    h.start("drift", "Drift", "").await;
    h.until_waiting("drift", "go", 1).await;
    h.stop(before).await;
    h.runtime(Program::new().with_echo().workflow("Drift", |ctx, _| async move {
        ctx.schedule_timer(std::time::Duration::from_millis(1)).await;
        Ok(ctx.schedule_wait("go").await)
    }))
    .await;
    h.raise("drift", "go", "on").await;
    assert_eq!(h.failure("drift").await.category(), "configuration");
}

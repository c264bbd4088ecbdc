//! Workflows that start workflows.

use std::time::Duration;

use duroxide::runtime::OrchestrationStatus;
use duroxide::{AppErrorKind, Either2, ErrorDetails};

use crate::{Harness, Program};

fn cancelled_with(details: &ErrorDetails) -> Option<&str> {
    match details {
        ErrorDetails::Application {
            kind: AppErrorKind::Cancelled { reason },
            ..
        } => Some(reason),
        _ => None,
    }
}

fn waiting_child() -> Program {
    Program::new().workflow("Child", |ctx, _| async move { Ok(ctx.schedule_wait("go").await) })
}

/// A child's result comes back to its parent, and the child knows its parent.
pub async fn a_childs_result_comes_back(h: &Harness) {
    h.runtime(
        Program::new()
            .with_echo()
            .workflow("Child", |ctx, input| async move {
                ctx.schedule_activity("Echo", format!("{input}!")).await
            })
            .workflow("Parent", |ctx, input| async move {
                let child = ctx.schedule_sub_orchestration("Child", input).await?;
                Ok(format!("<{child}>"))
            }),
    )
    .await;
    h.start("parent", "Parent", "hi").await;
    assert_eq!(h.output("parent").await, "<hi!>");
    assert_eq!(h.output("parent::sub::2").await, "hi!");
    let parent = h
        .admin(async |a| a.get_parent_id("parent::sub::2").await)
        .await
        .unwrap();
    assert_eq!(parent.as_deref(), Some("parent"));
}

/// A child may have an id of its own choosing.
pub async fn a_child_may_have_a_chosen_id(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Child", |ctx, _| async move { Ok(ctx.instance_id()) })
            .workflow("Parent", |ctx, _| async move {
                ctx.schedule_sub_orchestration_with_id("Child", "chosen/id", "").await
            }),
    )
    .await;
    h.start("parent", "Parent", "").await;
    assert_eq!(h.output("parent").await, "chosen/id");
    assert_eq!(
        h.admin(async |a| a.list_children("parent").await).await.unwrap(),
        ["chosen/id"]
    );
}

/// Four generations deep, results come all the way back.
pub async fn four_generations(h: &Harness) {
    h.runtime(Program::new().workflow("Generation", |ctx, input| async move {
        let depth: u32 = input.parse().map_err(|_| "not a number".to_owned())?;
        if depth == 0 {
            return Ok("leaf".to_owned());
        }
        let below = ctx
            .schedule_sub_orchestration("Generation", (depth - 1).to_string())
            .await?;
        Ok(format!("{below}<{depth}"))
    }))
    .await;
    h.start("root", "Generation", "3").await;
    assert_eq!(h.output("root").await, "leaf<1<2<3");
    let mut tree = h.client().get_instance_tree("root").await.unwrap().all_ids;
    tree.sort_by_key(String::len);
    let expected = [
        "root",
        "root::sub::2",
        "root::sub::2::sub::2",
        "root::sub::2::sub::2::sub::2",
    ];
    assert_eq!(tree, expected);
}

/// Twenty children at once, their results in the order of the calls.
pub async fn twenty_children_at_once(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Child", |_, input| async move { Ok(format!("c{input}")) })
            .workflow("Parent", |ctx, _| async move {
                let calls = (0..20)
                    .map(|n| ctx.schedule_sub_orchestration("Child", n.to_string()))
                    .collect();
                let results: Result<Vec<_>, _> = ctx.join(calls).await.into_iter().collect();
                Ok(results?.join(" "))
            }),
    )
    .await;
    h.start("parent", "Parent", "").await;
    let expected: Vec<_> = (0..20).map(|n| format!("c{n}")).collect();
    assert_eq!(h.output("parent").await, expected.join(" "));
    assert_eq!(
        h.admin(async |a| a.list_children("parent").await).await.unwrap().len(),
        20
    );
}

/// A child's failure reaches the parent, which may handle it or fail with it.
pub async fn a_childs_failure_reaches_the_parent(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Child", |_, _| async { Err("bad day".to_owned()) })
            .workflow("Stoic", |ctx, _| async move {
                match ctx.schedule_sub_orchestration("Child", "").await {
                    Ok(_) => Err("the child should have failed".to_owned()),
                    Err(why) => Ok(format!("child said: {why}")),
                }
            })
            .workflow("Fragile", |ctx, _| async move {
                ctx.schedule_sub_orchestration("Child", "").await
            }),
    )
    .await;
    h.start("stoic", "Stoic", "").await;
    h.start("fragile", "Fragile", "").await;
    assert_eq!(h.output("stoic").await, "child said: bad day");
    assert_eq!(h.failure("fragile").await.display_message(), "bad day");
}

/// Cancelling a parent cancels the child that it waits for.
pub async fn cancelling_a_parent_cancels_its_children(h: &Harness) {
    h.runtime(waiting_child().workflow("Parent", |ctx, _| async move {
        let a = ctx.schedule_sub_orchestration_with_id("Child", "child-a", "");
        let b = ctx.schedule_sub_orchestration_with_id("Child", "child-b", "");
        let (a, b) = ctx.join2(a, b).await;
        Ok(format!("{}{}", a?, b?))
    }))
    .await;
    h.start("parent", "Parent", "").await;
    h.until_waiting("child-a", "go", 1).await;
    h.until_waiting("child-b", "go", 1).await;
    h.cancel("parent", "enough").await;
    assert_eq!(cancelled_with(&h.failure("parent").await), Some("enough"));
    for child in ["child-a", "child-b"] {
        let why = h.failure(child).await;
        assert!(cancelled_with(&why).is_some(), "{child} failed with {why:?}");
    }
}

/// Cancelling a child is a failure that the parent can handle.
pub async fn cancelling_a_child_is_seen_by_the_parent(h: &Harness) {
    h.runtime(waiting_child().workflow("Parent", |ctx, _| async move {
        match ctx.schedule_sub_orchestration_with_id("Child", "child", "").await {
            Ok(result) => Ok(result),
            Err(why) => Ok(format!("without the child: {why}")),
        }
    }))
    .await;
    h.start("parent", "Parent", "").await;
    h.until_waiting("child", "go", 1).await;
    h.cancel("child", "tired").await;
    assert_eq!(h.output("parent").await, "without the child: canceled: tired");
}

/// A child that loses a race is cancelled.
pub async fn a_child_that_loses_a_race_is_cancelled(h: &Harness) {
    h.runtime(waiting_child().workflow("Parent", |ctx, _| async move {
        let child = ctx.schedule_sub_orchestration_with_id("Child", "loser", "");
        let stop = ctx.schedule_wait("stop");
        match ctx.select2(child, stop).await {
            Either2::First(result) => result,
            Either2::Second(word) => Ok(format!("stopped by {word}")),
        }
    }))
    .await;
    h.start("parent", "Parent", "").await;
    h.until_waiting("loser", "go", 1).await;
    h.raise("parent", "stop", "hand").await;
    assert_eq!(h.output("parent").await, "stopped by hand");
    assert!(cancelled_with(&h.failure("loser").await).is_some());
}

/// A detached start outlives its parent and has no parent.
pub async fn a_detached_start_outlives_its_parent(h: &Harness) {
    h.runtime(waiting_child().with_echo().workflow("Launcher", |ctx, _| async move {
        ctx.schedule_orchestration("Child", "detached", "");
        ctx.schedule_activity("Echo", "launched").await
    }))
    .await;
    h.start("launcher", "Launcher", "").await;
    assert_eq!(h.output("launcher").await, "launched");
    h.until_waiting("detached", "go", 1).await;
    assert_eq!(
        h.admin(async |a| a.get_parent_id("detached").await).await.unwrap(),
        None
    );
    h.raise("detached", "go", "free").await;
    assert_eq!(h.output("detached").await, "free");
}

/// A child that continues as new returns the result of its last execution.
pub async fn a_child_that_continues_as_new_still_answers(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Counter", |ctx, input| async move {
                let n: u32 = input.parse().map_err(|_| "not a number".to_owned())?;
                if n < 4 {
                    ctx.continue_as_new((n + 1).to_string()).await
                } else {
                    Ok(format!("counted to {n}"))
                }
            })
            .workflow("Parent", |ctx, _| async move {
                ctx.schedule_sub_orchestration_with_id("Counter", "counter", "1").await
            }),
    )
    .await;
    h.start("parent", "Parent", "").await;
    assert_eq!(h.output("parent").await, "counted to 4");
    assert_eq!(
        h.admin(async |a| a.list_executions("counter").await).await.unwrap(),
        [1, 2, 3, 4]
    );
    assert_eq!(
        h.admin(async |a| a.get_parent_id("counter").await)
            .await
            .unwrap()
            .as_deref(),
        Some("parent")
    );
}

/// A parent that continues as new gets its new child's result, not the old one's.
pub async fn a_parent_that_continues_as_new_starts_new_children(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Child", |ctx, input| async move {
                Ok(format!("{input}@{}", ctx.instance_id()))
            })
            .workflow("Parent", |ctx, input| async move {
                let answer = ctx
                    .schedule_sub_orchestration("Child", format!("run{}", ctx.execution_id()))
                    .await?;
                let all = format!("{input}{answer} ");
                if ctx.execution_id() < 3 {
                    ctx.continue_as_new(all).await
                } else {
                    Ok(all)
                }
            }),
    )
    .await;
    h.start("p", "Parent", "").await;
    assert_eq!(h.output("p").await, "run1@p::sub::2 run2@p::sub::2_2 run3@p::sub::3_2 ");
}

/// A child races a timer and wins.
pub async fn a_child_beats_a_timer(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Quick", |_, input| async move { Ok(input) })
            .workflow("Parent", |ctx, _| async move {
                let child = ctx.schedule_sub_orchestration("Quick", "quick");
                let limit = ctx.schedule_timer(Duration::from_secs(60));
                match ctx.select2(child, limit).await {
                    Either2::First(result) => result,
                    Either2::Second(()) => Err("too late".to_owned()),
                }
            }),
    )
    .await;
    h.start("parent", "Parent", "").await;
    assert_eq!(h.output("parent").await, "quick");
    let child = h.status("parent::sub::2").await;
    assert!(
        matches!(child, OrchestrationStatus::Completed { ref output, .. } if output == "quick"),
        "{child:?}"
    );
}

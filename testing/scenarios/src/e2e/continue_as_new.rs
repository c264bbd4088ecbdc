//! Workflows that go on as a new execution.

use duroxide::EventKind;
use duroxide::runtime::OrchestrationStatus;

use crate::probe::Notes;
use crate::{Harness, Program};

fn counter(to: u32) -> Program {
    Program::new()
        .with_echo()
        .workflow("Counter", move |ctx, input| async move {
            let n: u32 = ctx
                .schedule_activity("Echo", input)
                .await?
                .parse()
                .map_err(|_| "not a number".to_owned())?;
            if n < to {
                ctx.continue_as_new((n + 1).to_string()).await
            } else {
                Ok(format!("reached {n}"))
            }
        })
}

/// Each execution keeps its own history, and the last one gives the result.
pub async fn each_execution_keeps_its_history(h: &Harness) {
    h.runtime(counter(3)).await;
    h.start("count", "Counter", "1").await;
    assert_eq!(h.output("count").await, "reached 3");
    let client = h.client();
    assert_eq!(client.list_executions("count").await.unwrap(), [1, 2, 3]);
    for execution in 1..=3 {
        let history = client.read_execution_history("count", execution).await.unwrap();
        assert_eq!(history.len(), 4, "execution {execution}");
        match &history[0].kind {
            EventKind::OrchestrationStarted { input, .. } => assert_eq!(*input, execution.to_string()),
            other => panic!("execution {execution} begins with {other:?}"),
        }
        let info = client.get_execution_info("count", execution).await.unwrap();
        let (status, output) = match execution {
            3 => ("Completed", "reached 3".to_owned()),
            n => ("ContinuedAsNew", (n + 1).to_string()),
        };
        assert_eq!((info.status.as_str(), info.output), (status, Some(output)));
    }
}

/// Fifty executions in a row.
pub async fn fifty_executions_in_a_row(h: &Harness) {
    h.runtime(counter(50)).await;
    h.start("count", "Counter", "1").await;
    assert_eq!(h.output("count").await, "reached 50");
    assert_eq!(h.client().list_executions("count").await.unwrap().len(), 50);
    let info = h.client().get_instance_info("count").await.unwrap();
    assert_eq!((info.current_execution_id, info.status.as_str()), (50, "Completed"));
}

/// Unread queue messages are carried into the next execution, in order.
pub async fn unread_messages_are_carried_on(h: &Harness) {
    h.runtime(Program::new().workflow("Carry", |ctx, input| async move {
        if ctx.execution_id() == 1 {
            ctx.schedule_wait("go").await;
            let first = ctx.dequeue_event("inbox").await;
            return ctx.continue_as_new(first).await;
        }
        let second = ctx.dequeue_event("inbox").await;
        let third = ctx.dequeue_event("inbox").await;
        Ok([input, second, third].join(" "))
    }))
    .await;
    h.start("carry", "Carry", "").await;
    h.until_waiting("carry", "go", 1).await;
    for word in ["one", "two", "three"] {
        h.enqueue("carry", "inbox", word).await;
    }
    h.raise("carry", "go", "").await;
    assert_eq!(h.output("carry").await, "one two three");
}

/// A worker that reads one message per execution reads them all, though they arrive at any time.
pub async fn one_message_per_execution(h: &Harness) {
    h.runtime(Program::new().workflow("Eternal", |ctx, input| async move {
        let message = ctx.dequeue_event("inbox").await;
        let all = format!("{input}{message}");
        if message == "." {
            Ok(all)
        } else {
            ctx.continue_as_new(all).await
        }
    }))
    .await;
    h.start("eternal", "Eternal", "").await;
    h.until_waiting("eternal", "inbox", 1).await;
    for letter in ["p", "e", "r", "e", "n", "n", "i", "a", "l", "."] {
        h.enqueue("eternal", "inbox", letter).await;
    }
    assert_eq!(h.output("eternal").await, "perennial.");
    assert_eq!(h.client().list_executions("eternal").await.unwrap().len(), 10);
}

/// An event reaches the execution that runs now.
pub async fn an_event_reaches_the_current_execution(h: &Harness) {
    h.runtime(Program::new().workflow("Latest", |ctx, _| async move {
        let word = ctx.schedule_wait("go").await;
        if ctx.execution_id() == 1 {
            ctx.continue_as_new(word).await
        } else {
            Ok(format!("second {word}"))
        }
    }))
    .await;
    h.start("latest", "Latest", "").await;
    h.until_waiting("latest", "go", 1).await;
    h.raise("latest", "go", "a").await;
    h.until("the second execution waits", || async {
        let history = h.history("latest").await;
        history
            .iter()
            .any(|e| e.execution_id == 2 && matches!(e.kind, EventKind::ExternalSubscribed { .. }))
    })
    .await;
    h.raise("latest", "go", "b").await;
    assert_eq!(h.output("latest").await, "second b");
}

/// An instance between two executions counts as running.
pub async fn a_continued_instance_is_running(h: &Harness) {
    h.runtime(Program::new().workflow("Go", |ctx, _| async move {
        if ctx.execution_id() == 1 {
            ctx.continue_as_new("").await
        } else {
            Ok(ctx.schedule_wait("go").await)
        }
    }))
    .await;
    h.start("going", "Go", "").await;
    h.until("the second execution waits", || async {
        h.history("going")
            .await
            .iter()
            .any(|e| matches!(e.kind, EventKind::ExternalSubscribed { .. }))
    })
    .await;
    assert!(matches!(h.status("going").await, OrchestrationStatus::Running { .. }));
    assert_eq!(h.client().get_instance_info("going").await.unwrap().status, "Running");
    assert_eq!(h.client().list_instances_by_status("Running").await.unwrap(), ["going"]);
    h.raise("going", "go", "gone").await;
    assert_eq!(h.output("going").await, "gone");
}

/// Results of work that an earlier execution left running do not reach the next one.
pub async fn late_results_of_an_old_execution_are_ignored(h: &Harness) {
    let ran = Notes::default();
    let notes = ran.clone();
    h.runtime(
        Program::new()
            .activity("Work", move |ctx, input| {
                notes.add(format!("{} {input}", ctx.execution_id()));
                async move { Ok(input) }
            })
            .workflow("Leave", |ctx, _| async move {
                if ctx.execution_id() == 1 {
                    let left = ctx.schedule_timer(std::time::Duration::from_millis(80));
                    ctx.schedule_activity("Work", "old").await?;
                    drop(left);
                    return ctx.continue_as_new("").await;
                }
                ctx.schedule_timer(std::time::Duration::from_millis(150)).await;
                ctx.schedule_activity("Work", "new").await
            }),
    )
    .await;
    h.start("leave", "Leave", "").await;
    assert_eq!(h.output("leave").await, "new");
    assert_eq!(ran.all(), ["1 old", "2 new"]);
    let kinds = h.kinds("leave").await;
    assert_eq!(kinds.iter().filter(|k| *k == "TimerFired").count(), 1);
}

/// A continuation may name the version that goes on.
pub async fn a_continuation_may_change_the_version(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow_version("Grow", "1.0.0", |ctx, input| async move {
                ctx.continue_as_new_versioned("2.0.0", format!("{input} v1")).await
            })
            .workflow_version("Grow", "2.0.0", |_, input| async move { Ok(format!("{input} v2")) }),
    )
    .await;
    h.start_version("grow", "Grow", "1.0.0", "from").await;
    assert_eq!(h.output("grow").await, "from v1 v2");
    assert_eq!(
        h.client()
            .get_instance_info("grow")
            .await
            .unwrap()
            .orchestration_version,
        "2.0.0"
    );
}

/// Cancelling reaches the execution that runs now.
pub async fn a_later_execution_can_be_cancelled(h: &Harness) {
    h.runtime(Program::new().workflow("Go", |ctx, _| async move {
        if ctx.execution_id() < 3 {
            ctx.continue_as_new("").await
        } else {
            Ok(ctx.schedule_wait("go").await)
        }
    }))
    .await;
    h.start("going", "Go", "").await;
    h.until("the third execution waits", || async {
        h.history("going")
            .await
            .iter()
            .any(|e| matches!(e.kind, EventKind::ExternalSubscribed { .. }))
    })
    .await;
    h.cancel("going", "stop here").await;
    assert_eq!(h.failure("going").await.display_message(), "canceled: stop here");
    assert_eq!(h.client().list_executions("going").await.unwrap(), [1, 2, 3]);
}

//! Custom status, and statistics of an instance.

use std::time::Duration;

use duroxide::SystemStats;
use duroxide::runtime::OrchestrationStatus;

use crate::harness::TIMEOUT;
use crate::{Harness, Program};

async fn custom(h: &Harness, instance: &str) -> (Option<String>, u64) {
    match h.status(instance).await {
        OrchestrationStatus::Running {
            custom_status,
            custom_status_version,
        }
        | OrchestrationStatus::Completed {
            custom_status,
            custom_status_version,
            ..
        }
        | OrchestrationStatus::Failed {
            custom_status,
            custom_status_version,
            ..
        } => (custom_status, custom_status_version),
        OrchestrationStatus::NotFound => panic!("{instance:?} is not there"),
    }
}

fn some(text: &str, version: u64) -> (Option<String>, u64) {
    (Some(text.to_owned()), version)
}

/// A client that waits for a change sees each status, and its version grows.
pub async fn a_client_sees_each_change(h: &Harness) {
    h.runtime(Program::new().workflow("Steps", |ctx, _| async move {
        for step in ["packed", "sent", "delivered"] {
            ctx.set_custom_status(step);
            ctx.schedule_wait("next").await;
        }
        Ok("done".to_owned())
    }))
    .await;
    h.start("steps", "Steps", "").await;
    let mut seen = 0;
    for (i, step) in ["packed", "sent", "delivered"].into_iter().enumerate() {
        let change = h
            .client()
            .wait_for_status_change("steps", seen, Duration::from_millis(5), TIMEOUT)
            .await;
        match change.unwrap() {
            OrchestrationStatus::Running {
                custom_status,
                custom_status_version,
            } => {
                assert_eq!(
                    (custom_status.as_deref(), custom_status_version),
                    (Some(step), i as u64 + 1)
                );
                seen = custom_status_version;
            }
            other => panic!("unexpected {other:?}"),
        }
        h.until_waiting("steps", "next", i + 1).await;
        h.raise("steps", "next", "").await;
    }
    assert_eq!(h.output("steps").await, "done");
    assert_eq!(custom(h, "steps").await, some("delivered", 3));
}

/// The last of several updates in one turn counts, and they count as one.
pub async fn the_last_update_of_a_turn_counts(h: &Harness) {
    h.runtime(Program::new().workflow("Burst", |ctx, _| async move {
        for i in 0..5 {
            ctx.set_custom_status(format!("step {i}"));
        }
        Ok(ctx.get_custom_status().unwrap_or_default())
    }))
    .await;
    h.start("burst", "Burst", "").await;
    assert_eq!(h.output("burst").await, "step 4");
    assert_eq!(custom(h, "burst").await, some("step 4", 1));
}

/// A status can be taken back, which is a change too.
pub async fn a_status_can_be_taken_back(h: &Harness) {
    h.runtime(Program::new().with_echo().workflow("Back", |ctx, _| async move {
        ctx.set_custom_status("here");
        ctx.schedule_activity("Echo", "").await?;
        ctx.reset_custom_status();
        Ok(String::new())
    }))
    .await;
    h.start("back", "Back", "").await;
    h.output("back").await;
    assert_eq!(custom(h, "back").await, (None, 2));
}

/// A failed workflow keeps its last status; one that never set any has none.
pub async fn a_failed_workflow_keeps_its_status(h: &Harness) {
    h.runtime(
        Program::new()
            .workflow("Fail", |ctx, _| async move {
                ctx.set_custom_status("almost");
                Err("failed".to_owned())
            })
            .workflow("Silent", |_, _| async { Ok(String::new()) }),
    )
    .await;
    h.start("fail", "Fail", "").await;
    h.start("silent", "Silent", "").await;
    h.failure("fail").await;
    h.output("silent").await;
    assert_eq!(custom(h, "fail").await, some("almost", 1));
    assert_eq!(custom(h, "silent").await, (None, 0));
}

/// A status goes on over continue-as-new, inside and outside.
pub async fn a_status_survives_continue_as_new(h: &Harness) {
    h.runtime(Program::new().workflow("Go", |ctx, _| async move {
        if ctx.execution_id() == 1 {
            ctx.set_custom_status("set by one");
            return ctx.continue_as_new("").await;
        }
        Ok(ctx.get_custom_status().unwrap_or_else(|| "nothing".to_owned()))
    }))
    .await;
    h.start("go", "Go", "").await;
    assert_eq!(h.output("go").await, "set by one");
    assert_eq!(custom(h, "go").await, some("set by one", 1));
}

/// Statistics count events, bytes and values exactly.
pub async fn statistics_are_exact(h: &Harness) {
    assert_eq!(h.client().get_orchestration_stats("stats").await.unwrap(), None);
    h.runtime(Program::new().with_echo().workflow("Stats", |ctx, _| async move {
        ctx.schedule_activity("Echo", "x").await?;
        ctx.set_kv_value("a", "12345");
        ctx.set_kv_value("b", "67");
        ctx.set_kv_value("a", "123");
        Ok("done".to_owned())
    }))
    .await;
    h.start("stats", "Stats", "").await;
    h.output("stats").await;
    let stats: SystemStats = h.client().get_orchestration_stats("stats").await.unwrap().unwrap();
    let history = h.history("stats").await;
    assert_eq!(stats.history_event_count, history.len() as u64);
    assert!(stats.history_size_bytes > 200, "{stats:?}");
    assert_eq!(
        (
            stats.kv_user_key_count,
            stats.kv_total_value_bytes,
            stats.queue_pending_count
        ),
        (2, 5, 0)
    );
}

/// Statistics of a continued instance are those of its current execution, with what was carried on.
pub async fn statistics_count_carried_messages(h: &Harness) {
    h.runtime(Program::new().workflow("Carry", |ctx, _| async move {
        ctx.schedule_wait("go").await;
        if ctx.execution_id() == 1 {
            ctx.continue_as_new("").await
        } else {
            Ok(String::new())
        }
    }))
    .await;
    h.start("carry", "Carry", "").await;
    h.until_waiting("carry", "go", 1).await;
    for i in 0..3 {
        h.enqueue("carry", "inbox", &i.to_string()).await;
    }
    h.raise("carry", "go", "").await;
    h.until("the second execution waits", || async {
        h.history("carry").await.iter().any(|e| e.execution_id == 2)
    })
    .await;
    let stats = h.client().get_orchestration_stats("carry").await.unwrap().unwrap();
    assert_eq!(stats.queue_pending_count, 3);
    assert_eq!(stats.history_event_count, h.history("carry").await.len() as u64);
}

/// A status as large as the runtime allows is kept; a larger one fails the workflow.
pub async fn a_status_of_256_kb(h: &Harness) {
    h.runtime(Program::new().workflow("Big", |ctx, input| async move {
        ctx.set_custom_status("s".repeat(input.parse().map_err(|_| "not a number".to_owned())?));
        Ok(String::new())
    }))
    .await;
    let limit = 256 * 1024;
    h.start("fits", "Big", &limit.to_string()).await;
    h.start("large", "Big", &(limit + 1).to_string()).await;
    h.output("fits").await;
    assert_eq!(custom(h, "fits").await, (Some("s".repeat(limit)), 1));
    assert!(h.failure("large").await.display_message().contains("exceeds limit"));
}

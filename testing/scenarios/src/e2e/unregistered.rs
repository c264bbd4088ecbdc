//! Work whose code is not there yet.

use duroxide::{ErrorDetails, PoisonMessageType};

use crate::{Harness, Program};

fn caller() -> Program {
    Program::new().workflow("Call", |ctx, input| async move {
        ctx.schedule_activity("Later", input).await
    })
}

/// An activity that only the next release knows waits for it.
pub async fn an_activity_waits_for_its_release(h: &Harness) {
    let old = h.runtime(caller().options(|o| o.max_attempts = 1_000)).await;
    h.start("call", "Call", "x").await;
    h.until("the activity was scheduled", || async {
        h.kinds("call").await.len() == 2
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    h.stop(old).await;
    let ready = caller().options(|o| o.max_attempts = 1_000);
    h.runtime(ready.activity("Later", |_, input| async move { Ok(format!("{input} at last")) }))
        .await;
    assert_eq!(h.output("call").await, "x at last");
}

/// A workflow that only another runtime knows ends up there.
pub async fn a_workflow_finds_the_runtime_that_knows_it(h: &Harness) {
    h.runtime(Program::new().options(|o| o.max_attempts = 1_000)).await;
    h.start("flow", "Flow", "x").await;
    tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    h.runtime(Program::new().workflow("Flow", |_, input| async move { Ok(format!("{input} found")) }))
        .await;
    assert_eq!(h.output("flow").await, "x found");
}

/// A version that only the next release knows waits for it.
pub async fn a_version_waits_for_its_release(h: &Harness) {
    let old = h
        .runtime(
            Program::new()
                .options(|o| o.max_attempts = 1_000)
                .workflow("Flow", |_, _| async { Ok("one".to_owned()) }),
        )
        .await;
    h.start_version("flow", "Flow", "2.0.0", "").await;
    h.start("now", "Flow", "").await;
    assert_eq!(h.output("now").await, "one");
    h.stop(old).await;
    h.runtime(
        Program::new()
            .options(|o| o.max_attempts = 1_000)
            .workflow("Flow", |_, _| async { Ok("one".to_owned()) })
            .workflow_version("Flow", "2.0.0", |_, _| async { Ok("two".to_owned()) }),
    )
    .await;
    assert_eq!(h.output("flow").await, "two");
}

/// An activity that never comes is given up as poison, after just as many tries as allowed.
pub async fn a_missing_activity_is_given_up(h: &Harness) {
    h.runtime(caller().options(|o| o.max_attempts = 3)).await;
    h.start("call", "Call", "x").await;
    match h.failure("call").await {
        ErrorDetails::Poison {
            attempt_count: 4,
            message_type: PoisonMessageType::Activity { .. },
            ..
        } => {}
        other => panic!("unexpected failure {other:?}"),
    }
}

/// A workflow that never comes is given up too, can be looked at, and can be deleted.
pub async fn a_missing_workflow_is_given_up(h: &Harness) {
    h.runtime(Program::new().options(|o| o.max_attempts = 3)).await;
    h.start("flow", "Missing", "x").await;
    match h.failure("flow").await {
        ErrorDetails::Poison {
            attempt_count: 4,
            message_type: PoisonMessageType::Orchestration { .. },
            ..
        } => {}
        other => panic!("unexpected failure {other:?}"),
    }
    assert_eq!(h.client().list_instances_by_status("Failed").await.unwrap(), ["flow"]);
    assert_eq!(
        h.client()
            .delete_instance("flow", false)
            .await
            .unwrap()
            .instances_deleted,
        1
    );
    assert!(h.client().list_all_instances().await.unwrap().is_empty());
}

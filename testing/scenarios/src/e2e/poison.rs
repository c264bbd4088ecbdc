//! Messages that cannot be processed end, and end only their own workflow.

use std::time::Duration;

use duroxide::{ErrorDetails, PoisonMessageType, TagFilter};

use crate::{Harness, Program};

const LEASE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_secs(1);

fn program() -> Program {
    Program::new()
        .with_echo()
        .options(|o| o.max_attempts = 3)
        .workflow("Call", |ctx, input| async move {
            ctx.schedule_activity("Echo", input).await
        })
}

/// Takes the next turn of any instance and gives it back, `times` times.
async fn spoil_turns(h: &Harness, times: u32) {
    let store = h.store();
    for attempt in 1..=times {
        let (_, token, count) = loop {
            if let Some(fetched) = store.fetch_orchestration_item(LEASE, POLL, None).await.unwrap() {
                break fetched;
            }
        };
        assert_eq!(count, attempt, "the attempt is counted");
        store.abandon_orchestration_item(&token, None, false).await.unwrap();
    }
}

/// Takes the next activity and gives it back, `times` times.
async fn spoil_work(h: &Harness, times: u32) {
    let store = h.store();
    for attempt in 1..=times {
        let (_, token, count) = loop {
            if let Some(fetched) = store
                .fetch_work_item(LEASE, POLL, None, &TagFilter::DefaultOnly)
                .await
                .unwrap()
            {
                break fetched;
            }
        };
        assert_eq!(count, attempt, "the attempt is counted");
        store.abandon_work_item(&token, None, false).await.unwrap();
    }
}

/// A workflow whose turn was tried too often fails as poison; the next one runs.
pub async fn a_turn_tried_too_often_fails_the_workflow(h: &Harness) {
    h.start("cursed", "Call", "x").await;
    spoil_turns(h, 3).await;
    h.runtime(program()).await;
    match h.failure("cursed").await {
        ErrorDetails::Poison {
            attempt_count: 4,
            max_attempts: 3,
            message_type,
            ..
        } => {
            let expected = PoisonMessageType::Orchestration {
                instance: "cursed".into(),
                execution_id: 1,
            };
            assert_eq!(message_type, expected);
        }
        other => panic!("unexpected failure {other:?}"),
    }
    h.start("blessed", "Call", "y").await;
    assert_eq!(h.output("blessed").await, "y");
}

/// One attempt fewer, and it runs.
pub async fn a_turn_within_its_attempts_runs(h: &Harness) {
    h.start("lucky", "Call", "x").await;
    spoil_turns(h, 2).await;
    h.runtime(program()).await;
    assert_eq!(h.output("lucky").await, "x");
}

/// An activity that was tried too often fails as poison.
pub async fn an_activity_tried_too_often_fails(h: &Harness) {
    h.runtime(program().options(|o| o.worker_tag_filter = TagFilter::None))
        .await;
    h.start("call", "Call", "x").await;
    spoil_work(h, 3).await;
    h.runtime(program()).await;
    match h.failure("call").await {
        ErrorDetails::Poison {
            attempt_count: 4,
            message_type: PoisonMessageType::Activity { instance, .. },
            ..
        } => {
            assert_eq!(instance, "call");
        }
        other => panic!("unexpected failure {other:?}"),
    }
}

/// A poisoned child fails the parent that waits for it.
pub async fn a_poisoned_child_fails_its_parent(h: &Harness) {
    let parent = || {
        program().workflow("Parent", |ctx, _| async move {
            ctx.schedule_sub_orchestration_with_id("Missing", "child", "").await
        })
    };
    h.runtime(parent()).await;
    h.start("parent", "Parent", "").await;
    assert_eq!(h.failure("child").await.category(), "poison");
    assert_eq!(h.failure("parent").await.category(), "poison");
}

/// Poison of one execution of a chain does not touch its earlier ones.
pub async fn a_poisoned_successor_leaves_earlier_executions(h: &Harness) {
    h.runtime(program().workflow("Hop", |ctx, _| async move {
        ctx.continue_as_new_versioned("9.0.0", "").await
    }))
    .await;
    h.start("hop", "Hop", "").await;
    assert_eq!(h.failure("hop").await.category(), "poison");
    let client = h.client();
    assert_eq!(client.list_executions("hop").await.unwrap(), [1, 2]);
    assert_eq!(
        client.get_execution_info("hop", 1).await.unwrap().status,
        "ContinuedAsNew"
    );
    assert_eq!(client.get_execution_info("hop", 2).await.unwrap().status, "Failed");
}

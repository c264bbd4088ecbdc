//! Messages for instances that do not exist.

use std::time::Duration;

use duroxide::providers::WorkItem;
use duroxide::runtime::OrchestrationStatus;

use super::kit::*;
use crate::{Harness, Program};

/// Events and cancellations for unknown instances do not block other instances.
pub async fn an_event_for_a_missing_instance_blocks_no_other(h: &Harness) {
    let store = h.store();
    send(&*store, raised("ghost-1", "boo")).await;
    send(&*store, cancel("ghost-2")).await;
    send(&*store, completed("ghost-3", 2)).await;
    for instance in ["a", "b", "c"] {
        send(&*store, start(instance)).await;
    }
    for instance in ["a", "b", "c"] {
        let (_, token, _) = turn_of(&*store, instance).await;
        Ack::first(instance)
            .status("Completed")
            .send(&*store, &token)
            .await
            .unwrap();
    }
    assert!(try_turn(&*store).await.is_none(), "a turn of nobody was handed out");
    assert_eq!(instances(&*store).await, ["a", "b", "c"]);
}

/// Neither do hundreds of such messages, and a runtime goes on beside them.
pub async fn hundreds_of_events_for_missing_instances_block_no_other(h: &Harness) {
    let store = h.store();
    for i in 0..300 {
        send(&*store, raised(&format!("ghost-{}", i % 150), "boo")).await;
    }
    h.runtime(Program::new().with_echo().workflow("Flow", |ctx, input| async move {
        ctx.schedule_activity("Echo", input).await
    }))
    .await;
    for i in 0..5 {
        h.start(&format!("flow-{i}"), "Flow", "x").await;
        assert_eq!(h.output(&format!("flow-{i}")).await, "x");
    }
}

/// Once the start arrives, what came before it is delivered with it, in the order of arrival.
pub async fn early_messages_are_delivered_with_the_start(h: &Harness) {
    let store = h.store();
    send(&*store, raised("late", "early")).await;
    send(&*store, cancel("late")).await;
    assert!(try_turn(&*store).await.is_none());
    send(&*store, start("late")).await;
    let (item, token, attempt) = turn_of(&*store, "late").await;
    assert_eq!(item.messages, [raised("late", "early"), cancel("late"), start("late")]);
    assert_eq!((item.orchestration_name.as_str(), attempt), ("Flow", 1));
    Ack::first("late").send(&*store, &token).await.unwrap();
    assert!(try_turn(&*store).await.is_none(), "a message was delivered twice");
}

/// An early message waits over a restart too.
pub async fn early_messages_wait_over_a_restart(h: &Harness) {
    send(&*h.store(), raised("late", "early")).await;
    assert!(try_turn(&*h.store()).await.is_none());
    h.restart().await;
    // Processes order arrivals by their clocks, to the millisecond.
    tokio::time::sleep(ms(2)).await;
    let store = h.store();
    assert!(try_turn(&*store).await.is_none());
    send(&*store, start("late")).await;
    let (item, ..) = turn_of(&*store, "late").await;
    assert_eq!(item.messages, [raised("late", "early"), start("late")]);
}

/// A runtime delivers the cancellation that came before the start.
pub async fn an_early_cancellation_takes_effect(h: &Harness) {
    h.runtime(Program::new().workflow("Wait", |ctx, _| async move { Ok(ctx.schedule_wait("go").await) }))
        .await;
    h.cancel("early", "before it began").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    h.start("early", "Wait", "").await;
    match h.ended("early").await {
        OrchestrationStatus::Failed { details, .. } => {
            assert_eq!(details.display_message(), "canceled: before it began");
        }
        other => panic!("unexpected {other:?}"),
    }
}

/// Raising an event makes no instance, and nothing can be read of it.
pub async fn an_event_makes_no_instance(h: &Harness) {
    let store = h.store();
    send(&*store, raised("nobody", "boo")).await;
    send(&*store, queued("nobody", "boo")).await;
    assert!(try_turn(&*store).await.is_none());
    assert_nothing(h, "nobody").await;
}

/// A start makes no instance either, not even when its turn was handed out: the first ack does.
pub async fn only_the_first_ack_makes_the_instance(h: &Harness) {
    let store = h.store();
    send(&*store, start("unborn")).await;
    assert_nothing(h, "unborn").await;
    let (_, token, _) = turn_of(&*store, "unborn").await;
    assert_nothing(h, "unborn").await;
    store.abandon_orchestration_item(&token, None, false).await.unwrap();
    assert_nothing(h, "unborn").await;
    let (_, token, _) = turn_of(&*store, "unborn").await;
    Ack::first("unborn").send(&*store, &token).await.unwrap();
    assert_eq!(instances(&*store).await, ["unborn"]);
}

async fn assert_nothing(h: &Harness, instance: &str) {
    let store = h.store();
    assert!(instances(&*store).await.is_empty());
    assert!(store.read(instance).await.unwrap().is_empty());
    assert_eq!(store.get_instance_stats(instance).await.unwrap(), None);
    assert_eq!(store.get_custom_status(instance, 0).await.unwrap(), None);
    let admin = store.as_management_capability().unwrap();
    let error = admin.get_instance_info(instance).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("not found"), "{error}");
    assert_eq!(admin.get_system_metrics().await.unwrap().total_instances, 0);
}

/// Queue messages for unknown instances are dropped; those with a start in the same batch are kept.
pub async fn queue_messages_for_a_missing_instance_are_dropped(h: &Harness) {
    let store = h.store();
    send(&*store, queued("nobody", "lost")).await;
    assert!(try_turn(&*store).await.is_none());
    send(&*store, start("nobody")).await;
    send(&*store, queued("nobody", "kept")).await;
    let (item, ..) = turn_of(&*store, "nobody").await;
    assert_eq!(item.messages, [start("nobody"), queued("nobody", "kept")]);
}

/// The completion of an activity whose instance is gone is accepted and does not block other work.
pub async fn a_completion_for_a_missing_instance_is_accepted(h: &Harness) {
    let store = h.store();
    push(&*store, activity("gone", 2)).await;
    let (_, token, _) = work(&*store).await;
    store.ack_work_item(&token, Some(completed("gone", 2))).await.unwrap();
    assert!(try_turn(&*store).await.is_none());
    send(&*store, start("here")).await;
    let (item, ..) = turn_of(&*store, "here").await;
    assert!(matches!(item.messages[..], [WorkItem::StartOrchestration { .. }]));
}

//! Instances that are deleted: one, a tree, many, by force.

use std::time::Duration;

use duroxide::runtime::OrchestrationStatus;
use duroxide::{ClientError, InstanceFilter};

use crate::probe::Notes;
use crate::{Harness, Program};

fn program() -> Program {
    Program::new()
        .with_echo()
        .workflow("Quick", |ctx, input| async move {
            ctx.set_kv_value("k", "v");
            ctx.set_custom_status("s");
            ctx.schedule_activity("Echo", input).await
        })
        .workflow("Wait", |ctx, _| async move { Ok(ctx.schedule_wait("go").await) })
}

async fn instances(h: &Harness) -> Vec<String> {
    let mut all = h.client().list_all_instances().await.unwrap();
    all.sort_unstable();
    all
}

fn only(ids: &[&str]) -> InstanceFilter {
    InstanceFilter {
        instance_ids: Some(ids.iter().map(|id| (*id).to_owned()).collect()),
        ..InstanceFilter::default()
    }
}

/// A completed instance goes with all it had, and its id can be used again.
pub async fn a_deleted_instance_leaves_nothing(h: &Harness) {
    h.runtime(program()).await;
    h.start("gone", "Quick", "first").await;
    assert_eq!(h.output("gone").await, "first");
    let client = h.client();
    let events = h.history("gone").await.len() as u64;
    let deleted = client.delete_instance("gone", false).await.unwrap();
    assert_eq!(
        (
            deleted.instances_deleted,
            deleted.executions_deleted,
            deleted.events_deleted
        ),
        (1, 1, events)
    );
    assert_eq!(h.status("gone").await, OrchestrationStatus::NotFound);
    assert!(client.get_kv_all_values("gone").await.unwrap().is_empty());
    assert_eq!(client.get_orchestration_stats("gone").await.unwrap(), None);
    assert!(client.get_instance_info("gone").await.is_err());
    h.start("gone", "Quick", "second").await;
    assert_eq!(h.output("gone").await, "second");
    assert_eq!(client.list_executions("gone").await.unwrap(), [1]);
}

/// What does not exist cannot be deleted, and the error says so.
pub async fn an_unknown_instance_cannot_be_deleted(h: &Harness) {
    match h.client().delete_instance("nobody", true).await {
        Err(ClientError::InstanceNotFound { instance_id }) => assert_eq!(instance_id, "nobody"),
        other => panic!("unexpected {other:?}"),
    }
}

/// A running instance is deleted only by force.
pub async fn a_running_instance_is_deleted_only_by_force(h: &Harness) {
    h.runtime(program()).await;
    h.start("busy", "Wait", "").await;
    h.until_waiting("busy", "go", 1).await;
    let client = h.client();
    match client.delete_instance("busy", false).await {
        Err(ClientError::InstanceStillRunning { instance_id }) => assert_eq!(instance_id, "busy"),
        other => panic!("unexpected {other:?}"),
    }
    assert_eq!(instances(h).await, ["busy"]);
    assert_eq!(client.delete_instance("busy", true).await.unwrap().instances_deleted, 1);
    assert_eq!(h.status("busy").await, OrchestrationStatus::NotFound);
    assert!(instances(h).await.is_empty());
    h.start("busy", "Quick", "anew").await;
    assert_eq!(h.output("busy").await, "anew");
}

/// An activity that still runs when its instance is deleted by force brings nothing back.
pub async fn a_running_activity_brings_nothing_back(h: &Harness) {
    let (notes, gate) = (Notes::default(), std::sync::Arc::new(tokio::sync::Notify::new()));
    let (ran, open) = (notes.clone(), std::sync::Arc::clone(&gate));
    h.runtime(
        program()
            .activity("Gate", move |_, _| {
                let (ran, open) = (ran.clone(), std::sync::Arc::clone(&open));
                async move {
                    ran.add("in");
                    open.notified().await;
                    Ok("through".to_owned())
                }
            })
            .workflow("Gated", |ctx, _| async move { ctx.schedule_activity("Gate", "").await }),
    )
    .await;
    h.start("gated", "Gated", "").await;
    h.until("the activity runs", || async { notes.count() == 1 }).await;
    h.client().delete_instance("gated", true).await.unwrap();
    gate.notify_one();
    h.start("after", "Quick", "after").await;
    assert_eq!(h.output("after").await, "after");
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(h.status("gated").await, OrchestrationStatus::NotFound);
    assert_eq!(instances(h).await, ["after"]);
    assert_eq!(notes.count(), 1, "the activity of a deleted instance ran again");
}

/// A parent goes with all its descendants; a child cannot go alone.
pub async fn a_tree_is_deleted_as_a_whole(h: &Harness) {
    h.runtime(program().workflow("Tree", |ctx, input| async move {
        let depth: u32 = input.parse().map_err(|_| "not a number".to_owned())?;
        if depth > 0 {
            let calls = (0..2)
                .map(|_| ctx.schedule_sub_orchestration("Tree", (depth - 1).to_string()))
                .collect();
            ctx.join(calls).await;
        }
        Ok(input)
    }))
    .await;
    h.start("tree", "Tree", "2").await;
    h.start("other", "Quick", "x").await;
    assert_eq!(h.output("tree").await, "2");
    h.output("other").await;
    let client = h.client();
    assert_eq!(client.get_instance_tree("tree").await.unwrap().all_ids.len(), 7);
    match client.delete_instance("tree::sub::2", true).await {
        Err(ClientError::CannotDeleteSubOrchestration { instance_id }) => assert_eq!(instance_id, "tree::sub::2"),
        other => panic!("unexpected {other:?}"),
    }
    let deleted = client.delete_instance("tree", false).await.unwrap();
    assert_eq!((deleted.instances_deleted, deleted.executions_deleted), (7, 7));
    assert_eq!(instances(h).await, ["other"]);
}

/// Bulk deletion takes the named ones that ended, and leaves running and unnamed ones.
pub async fn bulk_deletion_leaves_running_and_unnamed_ones(h: &Harness) {
    h.runtime(program()).await;
    for i in 0..4 {
        h.start(&format!("done-{i}"), "Quick", "x").await;
        h.output(&format!("done-{i}")).await;
    }
    h.start("busy", "Wait", "").await;
    h.until_waiting("busy", "go", 1).await;
    let deleted = h
        .client()
        .delete_instance_bulk(only(&["done-0", "done-2", "busy", "nobody"]))
        .await
        .unwrap();
    assert_eq!(deleted.instances_deleted, 2);
    assert_eq!(instances(h).await, ["busy", "done-1", "done-3"]);
    let limited = InstanceFilter {
        limit: Some(1),
        ..InstanceFilter::default()
    };
    assert_eq!(
        h.client()
            .delete_instance_bulk(limited.clone())
            .await
            .unwrap()
            .instances_deleted,
        1
    );
    assert_eq!(instances(h).await.len(), 2);
    assert_eq!(
        h.client()
            .delete_instance_bulk(limited.clone())
            .await
            .unwrap()
            .instances_deleted,
        1
    );
    assert_eq!(
        h.client()
            .delete_instance_bulk(limited)
            .await
            .unwrap()
            .instances_deleted,
        0
    );
    assert_eq!(instances(h).await, ["busy"]);
    h.raise("busy", "go", "fine").await;
    assert_eq!(h.output("busy").await, "fine");
}

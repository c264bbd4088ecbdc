//! Listing, deletion and pruning.

use duroxide::EventKind;
use duroxide::providers::{InstanceFilter, Provider, PruneOptions};
use perennial_cosmos_server::{Fault, Kind, Rule, When};
use perennial_cosmos_tests::Room;
use perennial_cosmos_tests::kit::*;

async fn ended(store: &perennial_workflow::Workflows, instance: &str) {
    send(store, start(instance)).await;
    let (_, token, _) = turn(store).await;
    Ack::first(instance)
        .status("Completed")
        .send(store, &token)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a09_an_instance_that_continues_is_running() {
    let room = Room::new().await;
    let store = room.workflows().await;
    continued_to(&store, "i", 2).await;
    let info = admin(&store).get_instance_info("i").await.unwrap();
    assert_eq!(
        (info.status.as_str(), info.current_execution_id, info.output),
        ("Running", 2, None)
    );
    assert_eq!(admin(&store).list_instances_by_status("Running").await.unwrap(), ["i"]);
    let deleted = admin(&store)
        .delete_instance_bulk(InstanceFilter::default())
        .await
        .unwrap();
    assert_eq!(deleted.instances_deleted, 0);
    assert!(admin(&store).delete_instance("i", false).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_pruning_minds_the_time() {
    let room = Room::new().await;
    let store = room.workflows().await;
    continued_to(&store, "i", 3).await;
    let before_1970 = PruneOptions {
        completed_before: Some(1),
        ..PruneOptions::default()
    };
    let pruned = admin(&store).prune_executions("i", before_1970).await.unwrap();
    assert_eq!(pruned.executions_deleted, 0);
    assert_eq!(admin(&store).list_executions("i").await.unwrap(), [1, 2, 3]);
    let pruned = admin(&store)
        .prune_executions("i", PruneOptions::default())
        .await
        .unwrap();
    assert_eq!(pruned.executions_deleted, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a15_a_deletion_is_whole_or_fails() {
    let room = Room::new().await;
    let store = room.workflows().await;
    ended(&store, "i").await;
    room.fault(Rule::new(Fault::throttled(5), When::Always).on([Kind::Batch]).times(3));
    assert_eq!(
        admin(&store)
            .delete_instance("i", false)
            .await
            .unwrap()
            .instances_deleted,
        1
    );
    assert_eq!(room.hits(), 3);
    let documents = room.documents().await;
    assert_eq!(
        documents
            .iter()
            .filter(|document| document["partition"] == "wf:i")
            .count(),
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b10_executions_are_listed_once_each() {
    let room = Room::new().await;
    let store = room.workflows().await;
    continued_to(&store, "i", 3).await;
    send(&store, raised("i", "more")).await;
    let (_, token, _) = turn(&store).await;
    let noted = |id| {
        let kind = EventKind::ExternalEvent {
            name: "noted".to_owned(),
            data: "x".repeat(2_000),
        };
        event("i", 3, id, kind)
    };
    let ack = Ack {
        execution: 3,
        events: (2..300).map(noted).collect(),
        ..Ack::default()
    };
    ack.send(&store, &token).await.unwrap();
    let other = room.workflows().await;
    assert_eq!(admin(&other).list_executions("i").await.unwrap(), [1, 2, 3]);
    assert_eq!(other.read("i").await.unwrap().len(), 299);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b11_each_execution_has_its_own_record() {
    let room = Room::new().await;
    let store = room.workflows().await;
    continued_to(&store, "i", 3).await;
    let other = room.workflows().await;
    let mut began_ms = 0;
    for execution in 1..=3 {
        let info = admin(&other).get_execution_info("i", execution).await.unwrap();
        let (status, output) = match execution {
            3 => ("Running", None),
            _ => ("ContinuedAsNew", Some("output of ContinuedAsNew".to_owned())),
        };
        assert_eq!(
            (info.execution_id, info.status.as_str(), info.output),
            (execution, status, output)
        );
        assert!(info.started_at > began_ms, "executions begin one after the other");
        assert_eq!(info.completed_at.is_some(), execution < 3);
        began_ms = info.started_at;
    }
    assert_eq!(admin(&store).get_system_metrics().await.unwrap().total_executions, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_a_stray_event_does_not_restart_retention() {
    let room = Room::new().await;
    let store = room.workflows().await;
    ended(&store, "i").await;
    let before = admin(&store).get_execution_info("i", 1).await.unwrap().completed_at;
    let cut = before.unwrap() + 1;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    send(&store, raised("i", "late")).await;
    if let Some((_, token, _)) = turn_within(&store, LEASE, std::time::Duration::from_millis(200)).await {
        Ack::empty().send(&store, &token).await.unwrap();
    }
    assert_eq!(
        admin(&store).get_execution_info("i", 1).await.unwrap().completed_at,
        before
    );
    let old = InstanceFilter {
        completed_before: Some(cut),
        ..InstanceFilter::default()
    };
    assert_eq!(
        admin(&store).delete_instance_bulk(old).await.unwrap().instances_deleted,
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b13_running_children_are_not_deleted_in_bulk() {
    let room = Room::new().await;
    let store = room.workflows().await;
    ended(&store, "root").await;
    send(&store, start("child")).await;
    let (_, token, _) = turn(&store).await;
    let mut ack = Ack::first("child");
    ack.metadata.parent_instance_id = Some("root".to_owned());
    ack.send(&store, &token).await.unwrap();
    // Whether the root stays too is the store's choice.
    admin(&store).delete_instance_bulk(InstanceFilter::default()).await.ok();
    assert_eq!(
        admin(&store).get_instance_info("child").await.unwrap().status,
        "Running"
    );
}

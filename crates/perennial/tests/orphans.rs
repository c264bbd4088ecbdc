//! What remains when an instance does not exist: children whose parent was deleted, and messages without a recipient.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use duroxide::providers::{InstanceFilter, Provider, ProviderAdmin};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{Client, ClientError, OrchestrationContext, OrchestrationRegistry};
use perennial_kv::{Settings as Kv, SharedMemory};
use perennial_scenarios::calls::{Ack, LEASE, send, start};
use perennial_workflow::{Settings, Workflows};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// In memory, on disk, and shared with other processes.
async fn stores() -> Vec<(Arc<Workflows>, Option<tempfile::TempDir>)> {
    let directory = tempfile::tempdir().unwrap();
    let file = perennial::open(&perennial::url_of(directory.path().join("store"))).await;
    let shared = SharedMemory::new(Kv::CLOUD_LIMITS).unwrap().open();
    let shared = Workflows::open(shared, Settings::default()).await;
    vec![
        (perennial::open("memory:").await.unwrap(), None),
        (file.unwrap(), Some(directory)),
        (Arc::new(shared.unwrap()), None),
    ]
}

async fn turn(store: &Workflows) -> (String, String) {
    let fetched = store.fetch_orchestration_item(LEASE, LONG, None).await.unwrap();
    let (item, token, _) = fetched.expect("a turn is ready");
    (item.instance, token)
}

fn parent_of(child: &str) -> String {
    format!("parent of {child}")
}

/// A parent schedules a child and is deleted with force before the child has begun; then the child begins, and ends
/// with `status`.
async fn orphan(store: &Workflows, child: &str, status: Option<&str>) {
    let parent = parent_of(child);
    send(store, start(&parent)).await;
    let (instance, token) = turn(store).await;
    assert_eq!(instance, parent);
    Ack::first(&parent)
        .messages([start(child)])
        .send(store, &token)
        .await
        .unwrap();
    let client = Client::new(Arc::new(store.clone()));
    assert_eq!(
        client.delete_instance(&parent, true).await.unwrap().instances_deleted,
        1
    );
    let (instance, token) = turn(store).await;
    assert_eq!(instance, child);
    let mut ack = Ack::first(child);
    ack.metadata.parent_instance_id = Some(parent);
    ack.metadata.status = status.map(str::to_owned);
    ack.send(store, &token).await.unwrap();
}

#[tokio::test]
async fn a_child_that_began_after_its_parent_was_deleted_can_be_deleted() {
    for (store, _directory) in stores().await {
        let client = Client::new(store.clone());
        orphan(&store, "child", None).await;
        assert_eq!(
            store.get_parent_id("child").await.unwrap().as_deref(),
            Some("parent of child")
        );
        let running = client.delete_instance("child", false).await.unwrap_err();
        assert!(matches!(running, ClientError::InstanceStillRunning { .. }), "{running}");
        assert_eq!(
            client.delete_instance("child", true).await.unwrap().instances_deleted,
            1
        );
        assert!(store.list_instances().await.unwrap().is_empty());
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_orphaned_child_is_deleted_in_bulk_when_it_has_ended() {
    for (store, _directory) in stores().await {
        orphan(&store, "by id", Some("Completed")).await;
        orphan(&store, "by filter", Some("Failed")).await;
        let named = InstanceFilter {
            instance_ids: Some(vec!["by id".to_owned()]),
            ..InstanceFilter::default()
        };
        assert_eq!(store.delete_instance_bulk(named).await.unwrap().instances_deleted, 1);
        assert_eq!(store.list_instances().await.unwrap(), ["by filter"]);
        let all = InstanceFilter::default();
        assert_eq!(store.delete_instance_bulk(all).await.unwrap().instances_deleted, 1);
        assert!(store.list_instances().await.unwrap().is_empty());
        store.close().await.unwrap();
    }
}

/// A child whose parent exists is not deleted without it, neither by name nor in bulk.
#[tokio::test]
async fn a_child_whose_parent_exists_is_deleted_with_it() {
    for (store, _directory) in stores().await {
        let client = Client::new(store.clone());
        orphan(&store, "child", Some("Completed")).await;
        // The parent's name is taken again: the child belongs to the new instance.
        let parent = parent_of("child");
        send(&*store, start(&parent)).await;
        let (instance, token) = turn(&store).await;
        assert_eq!(instance, parent);
        Ack::first(&parent).send(&*store, &token).await.unwrap();
        let refused = client.delete_instance("child", true).await.unwrap_err();
        assert!(
            matches!(refused, ClientError::CannotDeleteSubOrchestration { .. }),
            "{refused}"
        );
        let all = InstanceFilter::default();
        assert_eq!(store.delete_instance_bulk(all).await.unwrap().instances_deleted, 0);
        assert_eq!(
            client.delete_instance(&parent, true).await.unwrap().instances_deleted,
            2
        );
        store.close().await.unwrap();
    }
}

/// As documented for `Workflows`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_of_an_unknown_id_waits_for_the_next_start_and_takes_effect_once() {
    for (store, _directory) in stores().await {
        let client = Client::new(store.clone());
        let wait = |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("go").await) };
        let end = |_: OrchestrationContext, input: String| async move { Ok(input) };
        let workflows = OrchestrationRegistry::builder();
        let workflows = workflows.register("Wait", wait).register("End", end).build();
        let runtime = Runtime::start_with_store(store.clone(), ActivityRegistry::builder().build(), workflows).await;
        client.cancel_instance("nobody", "too early").await.unwrap();
        let status = client.get_orchestration_status("nobody").await.unwrap();
        assert!(matches!(status, OrchestrationStatus::NotFound), "{status:?}");
        client.start_orchestration("nobody", "Wait", "").await.unwrap();
        match client.wait_for_orchestration("nobody", LONG).await.unwrap() {
            OrchestrationStatus::Failed { details, .. } => {
                assert_eq!(details.display_message(), "canceled: too early");
            }
            other => panic!("{other:?}"),
        }
        client.delete_instance("nobody", false).await.unwrap();
        client.start_orchestration("nobody", "End", "on").await.unwrap();
        match client.wait_for_orchestration("nobody", LONG).await.unwrap() {
            OrchestrationStatus::Completed { output, .. } => assert_eq!(output, "on"),
            other => panic!("{other:?}"),
        }
        runtime.shutdown(None).await;
        store.close().await.unwrap();
    }
}

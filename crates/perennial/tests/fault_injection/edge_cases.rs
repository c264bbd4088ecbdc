//! Unexpected arguments.

use crate::calls::*;
use duroxide::providers::{InstanceFilter, Provider, ProviderAdmin, TagFilter};
use perennial_kv::MemoryDisk;
use std::time::Duration;

const EVER: Duration = Duration::MAX;

#[tokio::test]
async fn an_endless_delay_is_a_delay_like_any_other() {
    let (store, _) = fresh(Default::default()).await;
    store
        .enqueue_for_orchestrator(raised("i", "data"), Some(EVER))
        .await
        .unwrap();
    send(&store, start("i")).await;
    let (item, token, _) = soon(store.fetch_orchestration_item(EVER, EVER, None))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        item.messages.len(),
        1,
        "a message that is delayed forever does not come"
    );
    store.renew_orchestration_item_lock(&token, EVER).await.unwrap();
    let work = vec![routed("i", 1, Some("s"), None), routed("i", 2, Some("s"), None)];
    ack(&store, &token, 1, vec![started("i", 1)], work, None).await.unwrap();
    let owner = owner_of("a", EVER);
    for _ in 0..2 {
        let fetch = store.fetch_work_item(EVER, EVER, Some(&owner), &TagFilter::DefaultOnly);
        let (_, token, _) = soon(fetch).await.unwrap().unwrap();
        store.renew_work_item_lock(&token, EVER).await.unwrap();
        assert_eq!(store.renew_session_lock(&["a"], EVER, EVER).await.unwrap(), 1);
        store.abandon_work_item(&token, Some(EVER), false).await.unwrap();
    }
    assert!(work_as(&store, "a").await.is_none());
}

#[tokio::test]
async fn a_forgiven_delivery_is_forgiven_over_a_restart() {
    let disk = MemoryDisk::default();
    let (store, _) = on(&disk, Default::default()).await;
    send(&store, start("i")).await;
    store.enqueue_for_worker(activity("i", 1)).await.unwrap();
    for (attempt, ignore) in [(1, false), (2, true)] {
        let (_, token, counted) = turn(&store).await;
        assert_eq!(counted, attempt);
        store.abandon_orchestration_item(&token, None, ignore).await.unwrap();
        let (_, token, counted) = work_as(&store, "a").await.unwrap();
        assert_eq!(counted, attempt);
        store.abandon_work_item(&token, None, ignore).await.unwrap();
    }
    store.close().await.unwrap();
    let (store, _) = on(&disk, Default::default()).await;
    assert_eq!(turn(&store).await.2, 2);
    assert_eq!(work_as(&store, "a").await.unwrap().2, 2);
}

#[tokio::test]
async fn a_session_that_was_shortened_ends_when_it_now_should() {
    let (store, _) = fresh(Default::default()).await;
    for id in 1..=3 {
        store
            .enqueue_for_worker(routed("i", id, Some("s"), None))
            .await
            .unwrap();
    }
    work_as(&store, "a").await.unwrap();
    assert_eq!(store.renew_session_lock(&["a"], ms(50), LEASE).await.unwrap(), 1);
    let owner = owner_of("b", ms(50));
    let fetch = store.fetch_work_item(LEASE, LEASE, Some(&owner), &TagFilter::DefaultOnly);
    assert!(soon(fetch).await.unwrap().is_some());
    let owner = owner_of("c", LEASE);
    let fetch = store.fetch_work_item(LEASE, LEASE, Some(&owner), &TagFilter::DefaultOnly);
    assert!(soon(fetch).await.unwrap().is_some());
}

#[tokio::test]
async fn bulk_deletion_leaves_trees_that_run_and_obeys_a_limit_of_nothing() {
    let (store, _) = fresh(Default::default()).await;
    execute(&store, "parent", 1, Some("Completed")).await;
    execute(&store, "alone", 1, Some("Completed")).await;
    send(&store, start("child")).await;
    let (_, token, _) = turn(&store).await;
    let mut metadata = named(None);
    metadata.parent_instance_id = Some("parent".to_owned());
    store
        .ack_orchestration_item(&token, 1, vec![started("child", 1)], vec![], vec![], metadata, vec![])
        .await
        .unwrap();
    let nothing = InstanceFilter {
        limit: Some(0),
        ..InstanceFilter::default()
    };
    assert_eq!(store.delete_instance_bulk(nothing).await.unwrap().instances_deleted, 0);
    let all = store.delete_instance_bulk(InstanceFilter::default()).await.unwrap();
    assert_eq!(all.instances_deleted, 1);
    let metrics = store.get_system_metrics().await.unwrap();
    assert_eq!((metrics.total_instances, metrics.running_instances), (2, 1));
}

//! Concurrent calls, and calls that are dropped half-way.

use crate::calls::*;
use crate::gate::Door;
use duroxide::EventKind;
use duroxide::providers::{Provider, ProviderAdmin, PruneOptions, TagFilter};
use perennial_kv::MemoryDisk;
use perennial_workflow::{Settings, testing};
use std::future::Future;
use std::time::Duration;

/// Polls a call until it has stopped, and drops it there.
async fn drop_at<T>(call: impl Future<Output = T>, mut door: crate::gate::Stopped) -> crate::gate::Stopped {
    tokio::select! {
        biased;
        () = door.came() => {}
        _ = call => panic!("the call did not come to the door"),
    }
    door
}

#[tokio::test]
async fn a_fetch_that_is_dropped_while_it_counts_a_turn_blocks_no_other_fetch() {
    let (store, gate) = fresh(Default::default()).await;
    send(&store, start("i")).await;
    let (_, token, _) = turn(&store).await;
    store.abandon_orchestration_item(&token, None, false).await.unwrap();
    let door = gate.stop_next(Door::Reply);
    let door = drop_at(store.fetch_orchestration_item(LEASE, NOW, None), door).await;
    assert!(try_turn(&store).await.is_none());
    door.go();
    let fetched = soon(store.fetch_orchestration_item(LEASE, LEASE, None)).await.unwrap();
    let (_, token, attempt) = fetched.unwrap();
    assert_eq!(attempt, 2);
    ack(&store, &token, 1, vec![started("i", 1)], vec![], None)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_fetch_that_is_dropped_while_it_counts_an_activity_blocks_no_other_fetch() {
    let (store, gate) = fresh(Default::default()).await;
    store.enqueue_for_worker(activity("i", 1)).await.unwrap();
    let (_, token, _) = work_as(&store, "a").await.unwrap();
    store.abandon_work_item(&token, None, false).await.unwrap();
    let door = gate.stop_next(Door::Reply);
    let door = drop_at(work_as(&store, "a"), door).await;
    assert!(work_as(&store, "a").await.is_none());
    door.go();
    let owner = owner_of("a", LEASE);
    let fetch = store.fetch_work_item(LEASE, LEASE, Some(&owner), &TagFilter::DefaultOnly);
    let (_, token, attempt) = soon(fetch).await.unwrap().unwrap();
    assert_eq!(attempt, 2);
    store.ack_work_item(&token, Some(completed("i", 1))).await.unwrap();
}

#[tokio::test]
async fn a_fetch_that_is_dropped_gives_the_session_back() {
    let (store, gate) = fresh(no_cache()).await;
    store.enqueue_for_worker(routed("i", 1, Some("s"), None)).await.unwrap();
    drop_at(work_as(&store, "gone"), gate.stop_next(Door::Get)).await;
    let (_, token, attempt) = work_as(&store, "there").await.expect("nobody has the session");
    assert_eq!(attempt, 1);
    store.enqueue_for_worker(routed("i", 2, Some("s"), None)).await.unwrap();
    // A worker that has the session already keeps it.
    drop_at(work_as(&store, "there"), gate.stop_next(Door::Get)).await;
    assert!(work_as(&store, "other").await.is_none());
    store.ack_work_item(&token, None).await.unwrap();
    assert!(work_as(&store, "there").await.is_some());
}

#[tokio::test]
async fn an_execution_is_read_even_if_another_begins_meanwhile() {
    let (store, gate) = fresh(no_cache()).await;
    execute(&store, "i", 1, None).await;
    let first = store.read("i").await.unwrap();
    let mut passed = gate.stop_next(Door::Get);
    let mut second = gate.stop_next(Door::Get);
    let reader = store.clone();
    let read = tokio::spawn(async move { reader.read_with_execution("i", 1).await });
    passed.came().await;
    passed.go();
    // Whether or not the head is read once more, the next execution begins now.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let begin = async {
        second.came().await;
        second.go();
    };
    tokio::join!(begin, execute(&store, "i", 2, None));
    assert_eq!(read.await.unwrap().unwrap(), first);
}

#[tokio::test]
async fn pruning_and_deleting_at_once_count_everything_once() {
    let (store, gate) = fresh(Default::default()).await;
    execute(&store, "i", 1, Some("ContinuedAsNew")).await;
    execute(&store, "i", 2, Some("Completed")).await;
    execute(&store, "j", 1, Some("Completed")).await;
    let mut door = gate.stop_next(Door::Commit);
    let deleter = store.clone();
    let deletion = tokio::spawn(async move { deleter.delete_instance("i", false).await });
    door.came().await;
    store.prune_executions("i", PruneOptions::default()).await.unwrap();
    door.go();
    soon(deletion).await.unwrap().unwrap();
    let metrics = store.get_system_metrics().await.unwrap();
    assert_eq!((metrics.total_executions, metrics.total_events), (1, 1));
}

#[tokio::test]
async fn a_message_that_was_deleted_before_it_was_posted_is_gone() {
    let (store, gate) = fresh(Default::default()).await;
    execute(&store, "i", 1, Some("Completed")).await;
    let mut door = gate.stop_next(Door::Reply);
    let sender = store.clone();
    let sending = tokio::spawn(async move { sender.enqueue_for_orchestrator(raised("i", "data"), None).await });
    door.came().await;
    let deleter = store.clone();
    let deletion = tokio::spawn(async move { deleter.delete_instance("i", true).await });
    pause(Duration::from_millis(50)).await;
    door.go();
    soon(sending).await.unwrap().unwrap();
    assert_eq!(soon(deletion).await.unwrap().unwrap().instances_deleted, 1);
    assert!(try_turn(&store).await.is_none());
    assert_eq!(testing::residue(&store), testing::Residue::default());
}

#[tokio::test]
async fn totals_are_exact_through_continuation_old_acks_pruning_and_deletion() {
    let (store, _) = fresh(no_cache()).await;
    for execution in 1..=3 {
        execute(&store, "i", execution, Some("ContinuedAsNew")).await;
    }
    let late = |id| {
        let name = "late".to_owned();
        let kind = EventKind::ExternalEvent {
            name,
            data: String::new(),
        };
        duroxide::Event::with_event_id(id, "i", 1, None, kind)
    };
    let totals = async || {
        let metrics = store.get_system_metrics().await.unwrap();
        (metrics.total_instances, metrics.total_executions, metrics.total_events)
    };
    // A turn of an execution that is over adds to that one, and begins it anew if it was pruned.
    for (id, executions) in [(50, vec![1, 2, 3]), (60, vec![1, 3])] {
        send(&store, raised("i", "data")).await;
        let (_, token, _) = turn(&store).await;
        ack(&store, &token, 1, vec![late(id)], vec![], None).await.unwrap();
        assert_eq!(store.list_executions("i").await.unwrap(), executions);
        let mut events = 0;
        for execution in &executions {
            let read = store.read_with_execution("i", *execution).await.unwrap().len();
            let info = store.get_execution_info("i", *execution).await.unwrap();
            assert_eq!(info.event_count, read);
            events += read as u64;
        }
        assert_eq!(totals().await, (1, executions.len() as u64, events));
        let pruned = store.prune_executions("i", PruneOptions::default()).await.unwrap();
        assert!(pruned.executions_deleted >= 1 || id == 60);
        assert!(store.read_with_execution("i", 2).await.unwrap().is_empty());
    }
    store.delete_instance("i", true).await.unwrap();
    assert_eq!(totals().await, (0, 0, 0));
}

/// Deletes an instance while the reply to the result of an activity is on its way; returns whether the deletion ended first.
async fn deleted_while_a_result_arrives() -> bool {
    // Bodies are read from the store, so that a missing message cannot be handed out.
    let (store, gate) = fresh(no_cache()).await;
    send(&store, start("i")).await;
    let (_, token, _) = turn(&store).await;
    ack(&store, &token, 1, vec![started("i", 1)], vec![activity("i", 2)], None)
        .await
        .unwrap();
    let (_, worker, _) = work_as(&store, "a").await.unwrap();
    let mut reply = gate.stop_next(Door::Reply);
    let ending = {
        let store = store.clone();
        tokio::spawn(async move { store.ack_work_item(&worker, Some(completed("i", 2))).await })
    };
    reply.came().await;
    // The result is stored, the engine does not know it yet, and a turn cancels the activity.
    send(&store, raised("i", "enough")).await;
    let (_, token, _) = turn(&store).await;
    let cancelled = vec![identity("i", 2)];
    store
        .ack_orchestration_item(&token, 1, Vec::new(), Vec::new(), Vec::new(), named(None), cancelled)
        .await
        .unwrap();
    let mut deleting = {
        let store = store.clone();
        tokio::spawn(async move { store.delete_instance("i", true).await })
    };
    let is_early = tokio::select! {
        _ = &mut deleting => true,
        () = pause(ms(200)) => false,
    };
    reply.go();
    soon(ending).await.unwrap().unwrap();
    if is_early {
        return true;
    }
    // It may have given up meanwhile, and reported that.
    if soon(deleting).await.unwrap().is_err() {
        store.delete_instance("i", true).await.unwrap();
    }
    assert!(try_turn(&store).await.is_none());
    assert_eq!(testing::residue(&store), testing::Residue::default());
    false
}

#[tokio::test]
async fn the_result_of_a_cancelled_activity_is_not_put_on_the_board_of_an_instance_that_was_deleted() {
    assert!(!deleted_while_a_result_arrives().await);
}

/// The test above can fail.
#[tokio::test]
async fn a_deletion_that_ignores_commits_under_way_is_noticed() {
    testing::mutate(Some(testing::Mutation::DeleteUnderWay));
    let is_early = deleted_while_a_result_arrives().await;
    testing::mutate(None);
    assert!(is_early);
}

#[tokio::test]
async fn an_instance_that_was_deleted_is_not_run_again_before_the_board_knows() {
    // The dispatcher reads the head that the store has; the message it has in memory.
    let settings = Settings {
        cache_bytes: 1,
        ..Settings::default()
    };
    let (workflows, gate) = fresh(settings).await;
    execute(&workflows, "a", 1, Some("Completed")).await;
    // A client that did not hear of the first start has started it again.
    send(&workflows, start("a")).await;
    let mut deleted = gate.stop_next(Door::Reply);
    let deleting = {
        let workflows = workflows.clone();
        tokio::spawn(async move { workflows.delete_instance("a", true).await })
    };
    deleted.came().await;
    // Everything is deleted, the second start as well; only the board does not know it yet.
    if let Some((item, token, _)) = try_turn(&workflows).await {
        assert_eq!(item.instance, "a");
        let events = vec![started("a", 1)];
        let acked = ack(&workflows, &token, 1, events, Vec::new(), Some("Completed")).await;
        assert!(acked.is_err(), "it was run again");
    }
    deleted.go();
    soon(deleting).await.unwrap().unwrap();
    assert!(workflows.read("a").await.unwrap().is_empty());
    assert!(try_turn(&workflows).await.is_none());
    // One that is started afterwards runs.
    execute(&workflows, "a", 1, Some("Completed")).await;
    assert_eq!(workflows.read("a").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_delivery_count_whose_reply_comes_late_does_not_stop_its_activity() {
    let disk = MemoryDisk::default();
    let (workflows, _gate) = on(&disk, Default::default()).await;
    send(&workflows, start("a")).await;
    let (_, token, _) = turn(&workflows).await;
    let work = vec![activity("a", 2)];
    ack(&workflows, &token, 1, vec![started("a", 1)], work, None)
        .await
        .unwrap();
    workflows.close().await.unwrap();

    // What was there when the store was opened is counted before it is handed out.
    let (workflows, gate) = on(&disk, Default::default()).await;
    let any = TagFilter::default();
    let late = drop_at(
        workflows.fetch_work_item(LEASE, NOW, None, &any),
        gate.stop_next(Door::Reply),
    )
    .await;
    let fetched = soon(workflows.fetch_work_item(LEASE, ms(5_000), None, &any))
        .await
        .unwrap();
    let (_, token, attempts) = fetched.expect("the activity is ready");
    assert!(attempts >= 1);
    late.go();
    pause(ms(20)).await;
    workflows.ack_work_item(&token, Some(completed("a", 2))).await.unwrap();
    let (item, _, _) = turn(&workflows).await;
    assert_eq!(item.messages.len(), 1);
}

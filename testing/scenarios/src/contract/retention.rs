//! What deletion and pruning take, and what they must leave.

use duroxide::{InstanceFilter, PruneOptions};

use super::kit::*;
use crate::Harness;

async fn bulk_delete(h: &Harness, filter: InstanceFilter) -> u64 {
    h.admin(async |a| a.delete_instance_bulk(filter).await)
        .await
        .unwrap()
        .instances_deleted
}

async fn bulk_prune(h: &Harness, filter: InstanceFilter, options: PruneOptions) -> (u64, u64) {
    let pruned = h
        .admin(async |a| a.prune_executions_bulk(filter, options).await)
        .await
        .unwrap();
    (pruned.instances_processed, pruned.executions_deleted)
}

async fn executions(h: &Harness, instance: &str) -> Vec<u64> {
    h.admin(async |a| a.list_executions(instance).await).await.unwrap()
}

fn before(time: u64) -> InstanceFilter {
    InstanceFilter {
        completed_before: Some(time),
        ..InstanceFilter::default()
    }
}

fn only(ids: &[&str]) -> InstanceFilter {
    InstanceFilter {
        instance_ids: Some(ids.iter().map(|id| (*id).to_owned()).collect()),
        ..InstanceFilter::default()
    }
}

/// A moment that lies strictly between what came before and what comes after.
async fn moment() -> u64 {
    tokio::time::sleep(ms(15)).await;
    let now = clock_ms();
    tokio::time::sleep(ms(15)).await;
    now
}

async fn assert_running(h: &Harness, instance: &str) {
    let info = h.admin(async |a| a.get_instance_info(instance).await).await.unwrap();
    assert_eq!(info.status, "Running");
    let listed = |status: &'static str| h.admin(async move |a| a.list_instances_by_status(status).await);
    assert_eq!(listed("Running").await.unwrap(), [instance]);
    assert!(listed("ContinuedAsNew").await.unwrap().is_empty());
    let metrics = h.admin(async |a| a.get_system_metrics().await).await.unwrap();
    assert_eq!((metrics.running_instances, metrics.completed_instances), (1, 0));
}

/// An instance that has continued as new runs, in the gap between two executions too; only force deletes it.
pub async fn a_continued_instance_runs_and_survives_deletion(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    hop(&*store, "i", 1).await;
    for execution in [1, 2] {
        assert_running(h, "i").await;
        assert_eq!(bulk_delete(h, InstanceFilter::default()).await, 0);
        assert_eq!(bulk_delete(h, only(&["i"])).await, 0);
        assert_eq!(bulk_delete(h, before(clock_ms() + 60_000)).await, 0);
        let refused = h
            .admin(async |a| a.delete_instance("i", false).await)
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("running"), "{refused}");
        assert_eq!(instances(&*store).await, ["i"]);
        if execution == 1 {
            let (item, token, _) = turn_of(&*store, "i").await;
            assert_eq!(item.messages, [continued("i")]);
            Ack::execution("i", 2).send(&*store, &token).await.unwrap();
        }
    }
    assert_eq!(
        h.admin(async |a| a.delete_instance("i", true).await)
            .await
            .unwrap()
            .instances_deleted,
        1
    );
    assert!(instances(&*store).await.is_empty());
}

/// Bulk deletion obeys the time: what ended at or after it stays.
pub async fn bulk_deletion_obeys_the_time(h: &Harness) {
    let store = h.store();
    for instance in ["old-1", "old-2"] {
        ended(&*store, instance).await;
    }
    running(&*store, "busy").await;
    let time = moment().await;
    for instance in ["new-1", "new-2"] {
        ended(&*store, instance).await;
    }
    assert_eq!(bulk_delete(h, before(time - 60_000)).await, 0);
    assert_eq!(bulk_delete(h, before(time)).await, 2);
    assert_eq!(instances(&*store).await, ["busy", "new-1", "new-2"]);
    assert_eq!(
        bulk_delete(
            h,
            InstanceFilter {
                instance_ids: only(&["new-1"]).instance_ids,
                ..before(time)
            }
        )
        .await,
        0
    );
    assert_eq!(bulk_delete(h, before(clock_ms() + 60_000)).await, 2);
    assert_eq!(instances(&*store).await, ["busy"]);
}

/// The time is that of the end, not of the start.
pub async fn bulk_deletion_goes_by_the_end(h: &Harness) {
    let store = h.store();
    running(&*store, "long").await;
    let time = moment().await;
    send(&*store, raised("long", "end")).await;
    let (_, token, _) = turn_of(&*store, "long").await;
    Ack::empty()
        .events([noted("long", 2)])
        .status("Completed")
        .send(&*store, &token)
        .await
        .unwrap();
    assert_eq!(bulk_delete(h, before(time)).await, 0);
    assert_eq!(bulk_delete(h, before(moment().await)).await, 1);
}

/// Bulk deletion obeys the limit, and running instances do not use it up.
pub async fn bulk_deletion_obeys_the_limit(h: &Harness) {
    let store = h.store();
    for i in 0..4 {
        running(&*store, &format!("busy-{i}")).await;
    }
    for i in 0..7 {
        ended(&*store, &format!("done-{i}")).await;
    }
    let limited = |limit| InstanceFilter {
        limit: Some(limit),
        ..InstanceFilter::default()
    };
    assert_eq!(bulk_delete(h, limited(0)).await, 0);
    assert_eq!(bulk_delete(h, limited(3)).await, 3);
    assert_eq!(instances(&*store).await.len(), 8);
    assert_eq!(bulk_delete(h, limited(3)).await, 3);
    assert_eq!(bulk_delete(h, limited(3)).await, 1);
    assert_eq!(bulk_delete(h, limited(3)).await, 0);
    assert_eq!(instances(&*store).await, ["busy-0", "busy-1", "busy-2", "busy-3"]);
}

/// A list of no ids selects nothing, not everything.
pub async fn an_empty_list_selects_nothing(h: &Harness) {
    let store = h.store();
    ended(&*store, "done").await;
    assert_eq!(bulk_delete(h, only(&[])).await, 0);
    assert_eq!(bulk_prune(h, only(&[]), PruneOptions::default()).await, (0, 0));
    assert_eq!(instances(&*store).await, ["done"]);
}

/// Pruning obeys the time of each execution, together with the number to keep.
pub async fn pruning_obeys_the_time(h: &Harness) {
    let store = h.store();
    continued_to(&*store, "i", 3).await;
    let time = moment().await;
    for execution in 3..6 {
        hop(&*store, "i", execution).await;
        let (_, token, _) = turn_of(&*store, "i").await;
        Ack::execution("i", execution + 1).send(&*store, &token).await.unwrap();
    }
    let prune = async |keep_last, completed_before| {
        let options = PruneOptions {
            keep_last,
            completed_before,
        };
        h.admin(async |a| a.prune_executions("i", options).await)
            .await
            .unwrap()
            .executions_deleted
    };
    assert_eq!(prune(None, Some(time - 60_000)).await, 0);
    assert_eq!(
        prune(Some(5), Some(time)).await,
        1,
        "execution 1 alone is old enough and beyond the five to keep"
    );
    assert_eq!(
        prune(None, Some(time)).await,
        1,
        "execution 2 is the other one that ended before the time"
    );
    assert_eq!(executions(h, "i").await, [3, 4, 5, 6]);
    assert_eq!(prune(Some(3), Some(clock_ms() + 60_000)).await, 1);
    assert_eq!(executions(h, "i").await, [4, 5, 6]);
    assert_eq!(prune(None, None).await, 2);
    assert_eq!(executions(h, "i").await, [6]);
}

/// Bulk pruning obeys the limit on instances.
pub async fn bulk_pruning_obeys_the_limit(h: &Harness) {
    let store = h.store();
    for i in 0..5 {
        continued_to(&*store, &format!("i{i}"), 3).await;
    }
    let limited = |limit| InstanceFilter {
        limit: Some(limit),
        ..InstanceFilter::default()
    };
    let (processed, deleted) = bulk_prune(h, limited(2), PruneOptions::default()).await;
    assert_eq!((processed, deleted), (2, 4));
    let mut kept = 0;
    for i in 0..5 {
        kept += executions(h, &format!("i{i}")).await.len();
    }
    assert_eq!(kept, 3 * 3 + 2);
    assert_eq!(
        bulk_prune(h, InstanceFilter::default(), PruneOptions::default()).await,
        (5, 6)
    );
}

/// Bulk pruning obeys the time: on instances that of their end, on executions that of each.
pub async fn bulk_pruning_obeys_the_time(h: &Harness) {
    let store = h.store();
    continued_to(&*store, "ended", 3).await;
    send(&*store, raised("ended", "end")).await;
    let (_, token, _) = turn_of(&*store, "ended").await;
    let mut end = Ack::empty().status("Completed");
    end.execution = 3;
    end.send(&*store, &token).await.unwrap();
    continued_to(&*store, "busy", 3).await;
    let time = moment().await;
    let options = |completed_before| PruneOptions {
        keep_last: None,
        completed_before,
    };
    assert_eq!(bulk_prune(h, before(time - 60_000), options(None)).await, (0, 0));
    assert_eq!(
        bulk_prune(h, InstanceFilter::default(), options(Some(time - 60_000)))
            .await
            .1,
        0
    );
    assert_eq!(
        bulk_prune(h, before(time), options(None)).await,
        (1, 2),
        "a running instance has no end"
    );
    assert_eq!(executions(h, "ended").await, [3]);
    assert_eq!(bulk_prune(h, InstanceFilter::default(), options(Some(time))).await.1, 2);
    assert_eq!(executions(h, "busy").await, [3]);
}

/// Pruning takes nothing that a running instance needs.
pub async fn pruning_takes_nothing_that_is_needed(h: &Harness) {
    let store = h.store();
    continued_to(&*store, "i", 2).await;
    send(&*store, raised("i", "waiting")).await;
    let mut late = routed("i", 7, None, None);
    if let duroxide::providers::WorkItem::ActivityExecute { execution_id, .. } = &mut late {
        *execution_id = 2;
    }
    push(&*store, late.clone()).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    let pruned = h
        .admin(async |a| a.prune_executions("i", PruneOptions::default()).await)
        .await
        .unwrap();
    assert_eq!(pruned.executions_deleted, 1);
    let mut ack = Ack::empty();
    ack.execution = 2;
    ack.events([event("i", 2, 2, noted("i", 2).kind)])
        .send(&*store, &token)
        .await
        .expect("the turn is untouched");
    assert_eq!(work(&*store).await.0, late);
    assert_eq!(store.read("i").await.unwrap().len(), 2);
}

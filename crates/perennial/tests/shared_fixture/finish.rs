//! A process of today that finds such a store.

use crate::dump::Dump;
use crate::support::Virtual;
use crate::write::{LARGE, TIMER};
use duroxide::EventKind;
use duroxide::providers::{OrchestrationItem, Provider, ProviderAdmin, TagFilter, WorkItem};
use perennial_scenarios::calls::{Ack, LEASE, NOW, completed, noted, owner, raised, send};
use perennial_store::Clock;
use perennial_workflow::{Settings, Workflows};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// All leases of the process that died have ended, and the timer is not due.
const LATER: Duration = Duration::from_secs(600);
/// Longer than chores are put off.
const LONG: Duration = Duration::from_secs(4 * 3600);

/// Finishes every workflow of the store, and checks what is handed out on the way and what is stored at the end.
pub async fn finish(dump: &Dump) {
    let database = dump.load().await;
    let clock: Arc<dyn Clock> = Virtual::at(dump.at_ms + LATER.as_millis() as u64);
    let store = Workflows::open_with_clock(database.open(), Settings::default(), clock.clone())
        .await
        .unwrap();
    check_ended(&store).await;
    // These two wait for a client.
    send(&store, raised("continued", "event")).await;
    send(&store, raised("large", "event")).await;
    work(&store).await;
    let turns = turns(&store, LEASE).await;
    let all: Vec<&str> = turns.keys().map(String::as_str).collect();
    assert_eq!(
        all,
        ["activities", "continued", "inline", "large", "receiver", "running"]
    );
    check_turns(&turns);

    assert!(clock.now_ms() < dump.at_ms + LATER.as_millis() as u64 * 2);
    let timer = self::turns(&store, TIMER).await;
    assert_eq!(timer.len(), 1);
    let fired = timer.get("timer").unwrap().messages.as_slice();
    let [WorkItem::TimerFired { id: 2, fire_at_ms, .. }] = fired else {
        panic!("{fired:?}");
    };
    assert!(clock.now_ms() >= *fire_at_ms);

    send(&store, raised("sender", "event")).await;
    assert_eq!(self::turns(&store, LEASE).await.len(), 1);
    let nothing = store.fetch_orchestration_item(LEASE, LONG, None).await.unwrap();
    assert!(nothing.is_none(), "{nothing:?}");
    check_end(&store).await;
    // Nothing is left to do: no message, activity, intent, tombstone or session.
    let left = Dump::of(&database, clock.now_ms()).await;
    let queued = left.records.iter().filter(|record| record.place.is_some());
    let queued = queued.filter(|record| !record.partition.starts_with("mem:") && !record.id.starts_with("part/"));
    let queued: Vec<String> = queued
        .map(|record| format!("{} {}", record.partition, record.id))
        .collect();
    assert_eq!(queued, Vec::<String>::new());
    store.close().await.unwrap();
}

/// What had ended before is as it was.
async fn check_ended(store: &Workflows) {
    let info = store.get_instance_info("finished").await.unwrap();
    assert_eq!(
        (&*info.status, info.output.as_deref()),
        ("Completed", Some("output of Completed"))
    );
    assert_eq!(store.read("finished").await.unwrap().len(), 2);
    assert_eq!(
        store.get_kv_value("finished", "key").await.unwrap().as_deref(),
        Some("old")
    );
    let value = store.get_kv_value("running", "key").await.unwrap();
    assert_eq!(value.as_deref(), Some("value"));
    let value = store.get_kv_value("large", "key").await.unwrap();
    assert!(value == Some("x".repeat(LARGE)));
    assert_eq!(store.list_executions("continued").await.unwrap(), [1, 2]);
    let first = store.read_with_execution("continued", 1).await.unwrap();
    assert!(matches!(
        first.last().map(|event| &event.kind),
        Some(EventKind::OrchestrationContinuedAsNew { .. })
    ));
    let info = store.get_execution_info("continued", 1).await.unwrap();
    assert_eq!(info.status, "ContinuedAsNew");
    let metrics = store.get_system_metrics().await.unwrap();
    assert_eq!((metrics.total_instances, metrics.completed_instances), (8, 1));
}

/// Runs every activity; returns when there is none.
async fn work(store: &Workflows) {
    let worker = owner("worker");
    let mut ids = Vec::new();
    while let Some((item, token, _)) = store
        .fetch_work_item(LEASE, LEASE, Some(&worker), &TagFilter::Any)
        .await
        .unwrap()
    {
        let WorkItem::ActivityExecute { id, input, .. } = item else {
            panic!("{item:?} is no activity");
        };
        assert_eq!(input, format!("input {id}"));
        ids.push(id);
        let result = completed("activities", id);
        store.ack_work_item(&token, Some(result)).await.unwrap();
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
}

/// Takes every turn that comes within this time of the one before, and ends its workflow.
async fn turns(store: &Workflows, within: Duration) -> BTreeMap<String, OrchestrationItem> {
    let mut turns = BTreeMap::new();
    while let Some((item, token, _)) = store.fetch_orchestration_item(LEASE, within, None).await.unwrap() {
        assert_eq!(item.history_error, None);
        let ack = match item.history.is_empty() {
            true => Ack::first(&item.instance),
            false => Ack::empty().events([noted(&item.instance, item.history.len() as u64 + 1)]),
        };
        let ack = Ack {
            execution: item.execution_id,
            ..ack.status("Completed")
        };
        ack.send(store, &token).await.unwrap();
        let twice = turns.insert(item.instance.clone(), item);
        assert!(twice.is_none(), "{twice:?}");
    }
    turns
}

fn check_turns(turns: &BTreeMap<String, OrchestrationItem>) {
    let events = |instance: &str| turns[instance].history.len();
    let told = |instance: &str| -> Vec<String> {
        let messages = turns[instance].messages.iter();
        let data = messages.map(|message| match message {
            WorkItem::ExternalRaised { data, .. } => data.clone(),
            WorkItem::ActivityCompleted { result, .. } => result.clone(),
            WorkItem::StartOrchestration { input, .. } => input.clone(),
            other => panic!("{other:?}"),
        });
        data.collect()
    };
    assert_eq!((events("running"), told("running")), (2, vec!["a record".to_owned()]));
    assert_eq!((events("inline"), told("inline")), (1, vec!["to the head".to_owned()]));
    assert_eq!((events("receiver"), told("receiver")), (0, vec!["in".to_owned()]));
    assert_eq!((events("large"), told("large")), (2, vec!["event".to_owned()]));
    assert_eq!((events("continued"), told("continued")), (1, vec!["event".to_owned()]));
    assert_eq!(turns["continued"].execution_id, 2);
    let mut results = told("activities");
    results.sort();
    assert_eq!(
        (events("activities"), results),
        (1, (1..=3).map(|id| format!("result {id}")).collect())
    );
}

async fn check_end(store: &Workflows) {
    for instance in store.list_instances().await.unwrap() {
        let info = store.get_instance_info(&instance).await.unwrap();
        assert_eq!(info.status, "Completed", "{instance}");
    }
    let metrics = store.get_system_metrics().await.unwrap();
    assert_eq!(
        (
            metrics.total_instances,
            metrics.completed_instances,
            metrics.running_instances
        ),
        (9, 9, 0)
    );
    assert_eq!(metrics.total_executions, 10);
    let work = store.fetch_work_item(LEASE, NOW, None, &TagFilter::Any).await.unwrap();
    assert!(work.is_none(), "{work:?}");
}

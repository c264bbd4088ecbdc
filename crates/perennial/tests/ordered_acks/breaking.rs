//! A store that breaks between the return of an acknowledgement and the sync of its commit.

use crate::breaking_acks::BreakingAcks;
use crate::calls::{all_work, at_work, is_dead, results, soon};
use crate::gated::{GatedDisk, Held};
use duroxide::providers::{Provider, ProviderAdmin, ProviderError};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{ActivityContext, Client, Event, EventKind, OrchestrationContext, OrchestrationRegistry};
use perennial_interpose::Interposed;
use perennial_scenarios::calls::{
    Ack, LEASE, NOW, activity, completed, noted, raised, send, start, turn_of_within, turn_within,
};
use perennial_store::{Health, Opener, SystemClock};
use perennial_workflow::{Settings, Workflows};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WHY: &str = "No space left on device";

/// Workflows on a disk that can fail.
async fn fixed() -> (GatedDisk, Workflows) {
    let disk = GatedDisk::default();
    let store = Workflows::open(disk.open().unwrap(), Settings::default())
        .await
        .unwrap();
    (disk, store)
}

/// The same, opened again after it broke.
async fn reopening() -> (GatedDisk, Workflows) {
    let disk = GatedDisk::default();
    let opener: Opener = {
        let disk = disk.clone();
        Box::new(move || {
            let opened = disk.open();
            Box::pin(async move { opened })
        })
    };
    let store = disk.open().unwrap();
    let store = Workflows::open_reopening(store, opener, Settings::default(), SystemClock::shared()).await;
    (disk, store.unwrap())
}

/// The disk is full when the syncs go on that were held back.
async fn fail(disk: &GatedDisk, held: Held, store: &Workflows) {
    held.reached(1).await;
    disk.memory.fail_writes(WHY);
    drop(held);
    let health = soon(store.closed()).await;
    assert!(
        matches!(&health, Health::Broken(outage) if outage.why.contains(WHY)),
        "{health:?}"
    );
    soon(store.flush()).await;
}

fn says_why(outcome: Result<(), ProviderError>) -> bool {
    outcome.is_err_and(|error| error.is_retryable() && error.message.contains(WHY))
}

#[tokio::test]
async fn every_later_call_says_that_the_store_broke() {
    let (disk, store) = fixed().await;
    let work = at_work(&store, "i", 2).await;
    send(&store, start("j")).await;
    let (_, turn, _) = turn_of_within(&store, "j", LEASE).await;
    let held = disk.hold();
    let (id, lost, _) = &work[0];
    store.ack_work_item(lost, Some(completed("i", *id))).await.unwrap();
    fail(&disk, held, &store).await;

    assert!(store.is_closed() && matches!(store.health(), Health::Broken(_)));
    let (id, other, _) = &work[1];
    assert!(says_why(store.ack_work_item(other, Some(completed("i", *id))).await));
    assert!(says_why(Ack::first("j").send(&store, &turn).await));
    assert!(says_why(
        store.enqueue_for_orchestrator(raised("i", "event"), None).await
    ));
    assert!(says_why(store.enqueue_for_worker(activity("i", 9)).await));
    assert!(says_why(store.append_with_execution("i", 1, vec![noted("i", 9)]).await));
    assert!(says_why(store.delete_instance("i", true).await.map(drop)));
    assert!(
        says_why(store.ack_work_item(lost, None).await),
        "the ack that was given, too"
    );
    // The activity of the lost ack is not handed out here again, as long as its lease lasts.
    assert!(all_work(&store).await.is_empty());
    // Nothing is seen of what was lost.
    assert!(turn_within(&store, NOW).await.is_none());
    assert!(store.close().await.is_err(), "closing says so, too");
}

#[tokio::test]
async fn an_activity_whose_ack_was_lost_runs_again_and_its_result_is_recorded_once() {
    let (disk, store) = reopening().await;
    let work = at_work(&store, "i", 2).await;
    // One result is durable, the other one is not.
    store.ack_work_item(&work[0].1, Some(completed("i", 1))).await.unwrap();
    soon(store.flush()).await;
    let held = disk.hold();
    let lost = &work[1].1;
    store.ack_work_item(lost, Some(completed("i", 2))).await.unwrap();
    fail(&disk, held, &store).await;
    disk.memory.crash();
    soon(store.reopen()).await.unwrap();

    let again = all_work(&store).await;
    assert_eq!(again.len(), 1, "only what was not durable");
    let (id, token, attempt) = &again[0];
    assert_eq!((*id, *attempt), (2, 2), "it was handed out before");
    assert!(is_dead(store.ack_work_item(lost, Some(completed("i", 2))).await));
    store.ack_work_item(token, Some(completed("i", 2))).await.unwrap();
    let mut brought = Vec::new();
    while let Some((item, token, _)) = turn_within(&store, NOW).await {
        brought.extend(results(&item));
        Ack::empty().send(&store, &token).await.unwrap();
    }
    brought.sort_unstable();
    assert_eq!(brought, [1, 2]);
    assert!(all_work(&store).await.is_empty());
}

#[tokio::test]
async fn a_turn_whose_ack_was_lost_is_taken_again_and_recorded_once() {
    let (disk, store) = reopening().await;
    at_work(&store, "i", 1).await;
    send(&store, raised("i", "event")).await;
    let (_, lost, _) = turn_of_within(&store, "i", LEASE).await;
    let held = disk.hold();
    let ack = || {
        Ack::empty()
            .events([noted("i", 2)])
            .work([activity("i", 5)])
            .messages([start("child")])
    };
    ack().send(&store, &lost).await.unwrap();
    fail(&disk, held, &store).await;
    disk.memory.crash();
    soon(store.reopen()).await.unwrap();

    assert_eq!(store.read("i").await.unwrap().len(), 1, "the lost turn is not seen");
    let (item, token, attempt) = turn_of_within(&store, "i", LEASE).await;
    assert_eq!((item.messages.len(), attempt), (1, 2));
    assert!(is_dead(ack().send(&store, &lost).await));
    ack().send(&store, &token).await.unwrap();
    assert_eq!(store.read("i").await.unwrap().len(), 2);
    let mut work: Vec<u64> = all_work(&store).await.into_iter().map(|(id, ..)| id).collect();
    work.sort_unstable();
    assert_eq!(
        work,
        [1, 5],
        "the activity of the lost turn comes once, from the turn that was recorded"
    );
    assert_eq!(turn_of_within(&store, "child", LEASE).await.2, 1);
}

const FLOWS: usize = 3;
const STEPS: usize = 2;

fn is_failure(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::OrchestrationFailed { .. } | EventKind::ActivityFailed { .. }
    )
}

/// Runs workflows on a store that breaks right after an ack has returned; `false` if there are fewer acks.
async fn run_over_break(before: usize) -> bool {
    let (disk, workflows) = reopening().await;
    let store = Arc::new(Interposed::new(BreakingAcks {
        inner: workflows.clone(),
        disk: disk.clone(),
        before: AtomicUsize::new(before),
        refused: AtomicUsize::new(0),
    }));
    let runs: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let step = {
        let runs = Arc::clone(&runs);
        move |_: ActivityContext, input: String| {
            *runs.lock().unwrap().entry(input.clone()).or_default() += 1;
            async move { Ok(input) }
        }
    };
    let flow = |ctx: OrchestrationContext, name: String| async move {
        for number in 0..STEPS {
            ctx.schedule_activity("Step", format!("{name}-{number}")).await?;
        }
        Ok(name)
    };
    let activities = ActivityRegistry::builder().register("Step", step).build();
    let orchestrations = OrchestrationRegistry::builder().register("Flow", flow).build();
    // Starts are durable when they return, so that the store is whole when the runtime begins.
    let client = Client::new(Arc::new(workflows.clone()));
    for number in 0..FLOWS {
        let id = format!("flow-{number}");
        client
            .start_orchestration(&id, "Flow", number.to_string())
            .await
            .unwrap();
    }
    let provider: Arc<dyn Provider> = store.clone();
    let runtime = Runtime::start_with_store(provider, activities, orchestrations).await;
    let ended = async {
        for number in 0..FLOWS {
            workflows
                .wait(&format!("flow-{number}"), Duration::from_secs(60))
                .await
                .ok();
        }
    };
    let broke = tokio::select! {
        health = workflows.closed() => {
            assert!(matches!(health, Health::Broken(_)), "{health:?}");
            disk.memory.crash();
            true
        }
        () = soon(ended) => false,
    };
    for number in 0..FLOWS {
        let id = format!("flow-{number}");
        match client
            .wait_for_orchestration(&id, Duration::from_secs(60))
            .await
            .unwrap()
        {
            OrchestrationStatus::Completed { output, .. } => assert_eq!(output, number.to_string()),
            other => panic!("before {before}: {id} is {other:?}"),
        }
        let history = workflows.read(&id).await.unwrap();
        let mut ids: Vec<u64> = history.iter().map(|event| event.event_id).collect();
        ids.dedup();
        assert_eq!(
            (ids.len(), history.len()),
            (2 + 2 * STEPS, 2 + 2 * STEPS),
            "{history:?}"
        );
        assert!(!history.iter().any(is_failure), "{history:?}");
    }
    runtime.shutdown(None).await;
    let depths = workflows.get_queue_depths().await.unwrap();
    assert_eq!((depths.worker_queue, depths.orchestrator_queue), (0, 0));
    let runs = runs.lock().unwrap();
    assert_eq!(runs.len(), FLOWS * STEPS);
    // An activity runs again only if it was under way, or its ack was lost.
    let again: usize = runs.values().map(|times| times - 1).sum();
    assert!(again <= FLOWS, "{again} activities ran again: {runs:?}");
    broke
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_workflow_fails_whichever_ack_was_lost() {
    let mut before = 0;
    while run_over_break(before).await {
        before += 1;
    }
    // Each workflow has a turn at its start, and a turn and an activity for each step.
    assert!(before >= FLOWS * (1 + STEPS), "only {before} acks were made");
    println!("the store broke after each of {before} acks");
}

//! What must hold when everything is done.

use crate::clock::pause;
use crate::scene::Scene;
use duroxide::providers::{Provider, ProviderAdmin, ProviderError};
use duroxide::{Event, EventKind};
use perennial_kv::{MemoryDisk, MemoryStore, Table};
use perennial_workflow::{Workflows, testing};
use std::collections::{BTreeMap, BTreeSet};

/// Waits, with no more faults, until everything that is under way has ended: longer than any lease and session.
pub async fn when_idle(scene: &Scene, workflows: &Workflows, raw: &MemoryStore) {
    scene.calm_down();
    pause(1_200_000).await;
    let instances = workflows.list_instances().await.unwrap_or_default();
    for instance in &instances {
        if let Err(why) = testing::compare_cached(workflows, raw, instance, true).await {
            scene.blame(why);
        }
    }
    let residue = testing::residue(workflows);
    if residue != testing::Residue::default() {
        scene.blame(format!("when all was done there were {residue:?}"));
    }
    match workflows.get_queue_depths().await {
        Ok(depths) if depths.orchestrator_queue + depths.worker_queue + depths.timer_queue == 0 => {}
        other => scene.blame(format!("the queues are not empty: {other:?}")),
    }
}

/// Checks what is stored of every instance.
pub async fn at_the_end(scene: &Scene, workflows: &Workflows) {
    if let Err(why) = inspect(scene, workflows).await {
        scene.blame(format!("the store could not be inspected: {why}"));
    }
}

type Histories = BTreeMap<(String, u64), Vec<Event>>;

async fn inspect(scene: &Scene, workflows: &Workflows) -> Result<(), ProviderError> {
    let mut histories = Histories::new();
    let mut statuses: BTreeMap<String, u64> = BTreeMap::new();
    let instances = workflows.list_instances().await?;
    for instance in &instances {
        for execution in workflows.list_executions(instance).await? {
            let history = workflows.read_with_execution(instance, execution).await?;
            histories.insert((instance.clone(), execution), history);
        }
        let info = workflows.get_instance_info(instance).await?;
        *statuses.entry(info.status).or_default() += 1;
    }
    check_instances(scene, &instances);
    for ((instance, execution), history) in &histories {
        check_history(scene, instance, *execution, history);
    }
    check_turns(scene, &histories);
    let metrics = workflows.get_system_metrics().await?;
    let events: usize = histories.values().map(Vec::len).sum();
    let status = |name: &str| statuses.get(name).copied().unwrap_or_default();
    let counted = [
        instances.len() as u64,
        histories.len() as u64,
        events as u64,
        status("Running"),
        status("Completed"),
        status("Failed"),
    ];
    let told = [
        metrics.total_instances,
        metrics.total_executions,
        metrics.total_events,
        metrics.running_instances,
        metrics.completed_instances,
        metrics.failed_instances,
    ];
    if counted != told {
        scene.blame(format!(
            "instances, executions, events, running, completed, failed are {counted:?}, and the totals {told:?}"
        ));
    }
    Ok(())
}

/// The root instance of a workflow that the runtime named.
pub fn root_of(instance: &str) -> &str {
    instance.split("::").next().unwrap_or(instance)
}

fn check_instances(scene: &Scene, instances: &[String]) {
    let mut expected = BTreeSet::new();
    for flow in &scene.config.flows {
        expected.extend(
            flow.fates()
                .into_iter()
                .filter(|(_, fate)| !fate.deleted)
                .map(|(name, _)| name),
        );
    }
    for missing in expected.iter().filter(|name| !instances.contains(name)) {
        scene.blame(format!("{missing} is gone"));
    }
    for left in instances.iter().filter(|name| !expected.contains(root_of(name))) {
        scene.blame(format!("{left} is there and must not"));
    }
}

/// Checks that a history has no gap, no event twice, and one end.
fn check_history(scene: &Scene, instance: &str, execution: u64, history: &[Event]) {
    let place = format!("{instance}/{execution}");
    let ids: Vec<u64> = history.iter().map(|event| event.event_id).collect();
    let expected: Vec<u64> = (1..=history.len() as u64).collect();
    if ids != expected {
        scene.blame(format!("the history of {place} has the events {ids:?}"));
    }
    let mut seen = BTreeSet::new();
    for event in history {
        let once = match &event.kind {
            EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. } => format!("the end of {:?}", event.source_event_id),
            EventKind::QueueEventDelivered { name, data } => format!("the message {name} {data}"),
            EventKind::OrchestrationStarted { .. } => "the start".to_owned(),
            _ => continue,
        };
        if !seen.insert(once.clone()) {
            scene.blame(format!("the history of {place} has {once} twice"));
        }
    }
    let ends = history.iter().filter(|event| event.is_terminal()).count();
    if ends != 1 {
        scene.blame(format!("the history of {place} has {ends} ends"));
    }
}

/// Checks that every acknowledged turn is stored.
fn check_turns(scene: &Scene, histories: &Histories) {
    let mut blames = Vec::new();
    {
        let facts = scene.facts.lock();
        let told = |event: &Event| serde_json::to_string(event).unwrap_or_default();
        let stored: BTreeMap<_, BTreeSet<String>> = histories
            .iter()
            .map(|(place, history)| (place, history.iter().map(told).collect()))
            .collect();
        for (instance, execution, events) in &facts.turns {
            // Executions that are gone were deleted or pruned, which is checked elsewhere.
            let Some(stored) = stored.get(&(instance.clone(), *execution)) else {
                continue;
            };
            for event in events.iter().filter(|event| !stored.contains(*event)) {
                blames.push(format!(
                    "an acknowledged event of {instance}/{execution} is lost: {event}"
                ));
            }
        }
    }
    blames.into_iter().for_each(|blame| scene.blame(blame));
}

/// Checks that nothing is stored but what instances own, and that nothing is queued.
pub fn left_behind(scene: &Scene, disk: &MemoryDisk) {
    for (key, _) in disk.entries(Table::Queue) {
        scene.blame(format!("{} was left behind in a queue", String::from_utf8_lossy(&key)));
    }
    let facts = scene.facts.lock();
    let deleted = facts.deleted.clone();
    drop(facts);
    for table in [Table::Records, Table::Listed] {
        for (key, _) in disk.entries(table) {
            let text = String::from_utf8_lossy(&key).into_owned();
            let owner = text.split('\0').next().unwrap_or_default();
            let instance = owner.strip_prefix("wf:").map(root_of);
            if instance.is_some_and(|instance| deleted.contains(instance)) {
                scene.blame(format!("{text:?} of a deleted instance was left behind"));
            }
        }
    }
}

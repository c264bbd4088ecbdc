//! An execution with more pages than a commit holds is pruned, in the end, whatever happens.

use crate::store::{FAULTS, Fault};
use crate::turns::*;
use crate::world::World;
use duroxide::providers::{Provider, ProviderAdmin, PruneOptions};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(60);

/// An instance with this many turns in its first execution, and two in its second.
async fn grown(turns: u64) -> World {
    let world = World::new().await;
    let store = &world.workflows;
    for turn in 0..turns + 2 {
        let (execution, of_execution) = if turn < turns { (1, turn) } else { (2, turn - turns) };
        let message = if turn == 0 { start("i") } else { raised("i", "go") };
        store.enqueue_for_orchestrator(message, None).await.unwrap();
        let (_, token, _) = store
            .fetch_orchestration_item(LEASE, Duration::ZERO, None)
            .await
            .unwrap()
            .unwrap();
        let status = match turn {
            last if last + 1 == turns => Some("ContinuedAsNew"),
            last if last == turns + 1 => Some("Completed"),
            _ => None,
        };
        let event = duroxide::Event::with_event_id(of_execution + 1, "i", execution, None, set(turn));
        store
            .ack_orchestration_item(
                &token,
                execution,
                vec![event],
                vec![],
                vec![],
                metadata(status, None),
                vec![],
            )
            .await
            .unwrap();
    }
    world
}

async fn prune(world: &World) -> Result<u64, String> {
    let options = PruneOptions::default();
    let pruned = world.call(world.workflows.prune_executions("i", options)).await;
    let pruned = pruned.map_err(|_| "died".to_owned())?;
    pruned
        .map(|pruned| pruned.executions_deleted)
        .map_err(|why| why.to_string())
}

async fn with(fault: Option<(usize, Fault)>) -> usize {
    let mut world = grown(250).await;
    world.meet(fault).await;
    let store = world.store.clone();
    let first = prune(&world).await;
    let commits = store.commits();
    if store.is_dead() || store.hung() {
        world.restart().await;
    }
    world.clock.sleep(Duration::from_secs(60)).await;
    let second = prune(&world).await.unwrap();
    if let Ok(first) = first {
        assert_eq!(first + second, 1, "the execution is counted once");
    }
    assert_eq!(world.workflows.list_executions("i").await.unwrap(), [2]);
    assert_eq!(world.workflows.read_with_execution("i", 1).await.unwrap(), []);
    assert_eq!(world.workflows.read("i").await.unwrap().len(), 2);
    let metrics = world.workflows.get_system_metrics().await.unwrap();
    assert_eq!((metrics.total_executions, metrics.total_events), (1, 2));
    commits
}

#[tokio::test(start_paused = true)]
async fn a_long_execution_is_pruned_whatever_commit_goes_wrong() {
    let commits = with(None).await;
    assert_eq!(commits, 3, "two hundred and fifty pages and a record");
    for fault in FAULTS {
        for at in 0..commits {
            with(Some((at, fault))).await;
        }
    }
}

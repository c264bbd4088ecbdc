//! Deletions that are larger than a commit happen as a whole or not at all.

use crate::store::{FAULTS, Fault};
use crate::turns::*;
use crate::world::World;
use duroxide::providers::{OrchestrationItem, Provider, ProviderAdmin};
use perennial_kv::Table;

const IDS: [&str; 3] = ["root", "root::a", "root::b"];

/// A family, each with more records than a commit holds.
pub fn family(item: &OrchestrationItem) -> Reply {
    let messages = match item.instance.as_str() {
        "root" => vec![start("root::a"), start("root::b")],
        _ => Vec::new(),
    };
    Reply {
        kinds: (0..130).map(set).collect(),
        messages,
        status: Some("Completed"),
        ..Reply::default()
    }
}

fn ids() -> Vec<String> {
    IDS.iter().map(|id| (*id).to_owned()).collect()
}

/// Checks that all or none is there, and that nothing is left of none.
async fn judge(world: &World) -> Result<bool, String> {
    let mut listed = world.workflows.list_instances().await.unwrap();
    listed.sort_unstable();
    let metrics = world.workflows.get_system_metrics().await.unwrap();
    if listed == IDS {
        for id in IDS {
            let values = world.workflows.get_kv_all_values(id).await.unwrap();
            let history = world.workflows.read(id).await.unwrap();
            if (values.len(), history.len()) != (130, 131) {
                return Err(format!("{id} is partly gone"));
            }
        }
        let total = (metrics.total_instances, metrics.total_executions, metrics.total_events);
        return if total == (3, 3, 393) {
            Ok(true)
        } else {
            Err(format!("the totals are {metrics:?}"))
        };
    }
    let mut left = Vec::new();
    for table in [Table::Records, Table::Listed, Table::Queue] {
        for (key, _) in world.disk.entries(table) {
            left.push(String::from_utf8_lossy(&key).into_owned());
        }
    }
    let total = (metrics.total_instances, metrics.total_executions, metrics.total_events);
    if listed.is_empty() && left.is_empty() && total == (0, 0, 0) {
        return Ok(false);
    }
    Err(format!(
        "{listed:?} are listed, {left:?} is stored, and the totals are {total:?}"
    ))
}

async fn with_family() -> World {
    let world = World::new().await;
    world
        .workflows
        .enqueue_for_orchestrator(start("root"), None)
        .await
        .unwrap();
    assert!(world.tell(family).await.is_ok());
    world
}

/// Deletes a family while a commit fails.
pub async fn try_with(fault: Option<(usize, Fault)>) -> (usize, Result<(), String>) {
    let mut world = with_family().await;
    world.meet(fault).await;
    let store = world.store.clone();
    let outcome = world.call(world.workflows.delete_instances_atomic(&ids(), false)).await;
    let commits = store.commits();
    let deleted = matches!(outcome, Ok(Ok(_)));
    if outcome.is_err() || store.hung() {
        world.restart().await;
    }
    let left = world.leftovers().await;
    let verdict = async {
        if !left.is_empty() {
            return Err(format!("{left:?} is still queued"));
        }
        let there = judge(&world).await?;
        if there && deleted {
            return Err("a deleted instance is there".to_owned());
        }
        if there {
            let again = world.workflows.delete_instances_atomic(&ids(), false).await;
            again.map_err(|why| why.to_string())?;
            if judge(&world).await? {
                return Err("a deleted instance is there".to_owned());
            }
        }
        // The names are free again.
        world
            .workflows
            .enqueue_for_orchestrator(start("root"), None)
            .await
            .unwrap();
        world.tell(family).await.map_err(|_| "died".to_owned())?;
        match judge(&world).await? {
            true => Ok(()),
            false => Err("the recreated instance is gone".to_owned()),
        }
    };
    (commits, verdict.await)
}

#[tokio::test(start_paused = true)]
async fn a_large_deletion_is_all_or_nothing_whatever_commit_goes_wrong() {
    let (commits, verdict) = try_with(None).await;
    assert_eq!(verdict, Ok(()));
    assert!(
        commits > 8,
        "three marks, a decision and six removals, not {commits} commits"
    );
    for fault in FAULTS {
        for at in 0..commits {
            let (_, verdict) = try_with(Some((at, fault))).await;
            assert_eq!(verdict, Ok(()), "{fault:?} at commit {at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_refused_leaves_everything_as_it_was() {
    let mut world = with_family().await;
    world.meet(None).await;
    let ids = vec!["root".to_owned(), "root::a".to_owned()];
    let refused = world.workflows.delete_instances_atomic(&ids, false).await.unwrap_err();
    assert!(refused.to_string().contains("root::b"), "{refused}");
    assert_eq!(judge(&world).await, Ok(true));
    assert_eq!(world.leftovers().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_large_deletion_reports_what_it_deleted() {
    let world = with_family().await;
    let taken = world.workflows.delete_instances_atomic(&ids(), false).await.unwrap();
    assert_eq!(
        (taken.instances_deleted, taken.executions_deleted, taken.events_deleted),
        (3, 3, 393)
    );
    assert_eq!(judge(&world).await, Ok(false));
}

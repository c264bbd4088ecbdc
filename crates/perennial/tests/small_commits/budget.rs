//! The cost of messages between instances, counted.

use crate::turns::*;
use crate::world::World;
use duroxide::providers::{OrchestrationItem, Provider};

/// A parent starts a child, which replies and ends; then the parent ends.
fn parent_and_child(item: &OrchestrationItem) -> Reply {
    let messages = match item.instance.as_str() {
        "parent" if item.history.is_empty() => vec![start("child")],
        "child" => vec![raised("parent", "done")],
        _ => Vec::new(),
    };
    Reply {
        status: messages.is_empty().then_some("Completed"),
        messages,
        ..Reply::default()
    }
}

/// Three turns, and for each of two messages its delivery and the removal of its intent.
#[tokio::test(start_paused = true)]
async fn a_child_takes_seven_commits() {
    let world = World::new().await;
    world
        .workflows
        .enqueue_for_orchestrator(start("parent"), None)
        .await
        .unwrap();
    world.store.expect(None);
    let before = world.store.calls();
    assert!(world.tell(parent_and_child).await.is_ok());
    // Every commit of this store checks twice whether it is alive; the child is looked up once, as the engine does not
    // know it.
    assert_eq!((world.store.commits(), world.store.calls() - before), (7, 7 * 2 + 1));
}

fn wide(item: &OrchestrationItem) -> Reply {
    match item.history.len() {
        0 => Reply {
            work: (0..500).map(|id| activity("wide", 10 + id)).collect(),
            ..Reply::default()
        },
        _ => Reply::default(),
    }
}

/// A fan-out of five hundred: a first commit and five to roll forward, then five hundred results in turns of 92.
#[tokio::test(start_paused = true)]
async fn a_wide_fan_out_takes_few_commits() {
    let world = World::new().await;
    world
        .workflows
        .enqueue_for_orchestrator(start("wide"), None)
        .await
        .unwrap();
    world.store.expect(None);
    assert!(world.tell(wide).await.is_ok());
    let heard = world.histories(&["wide"]).await.remove("wide").unwrap();
    assert_eq!(heard.len(), 501);
    let turns = 500_usize.div_ceil(92);
    assert_eq!(world.store.commits(), 6 + 500 + turns);
}

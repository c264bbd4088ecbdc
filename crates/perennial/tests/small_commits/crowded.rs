//! Mailboxes that hold more than a turn can take.

use crate::store::{FAULTS, Fault};
use crate::turns::*;
use crate::world::World;
use duroxide::providers::{OrchestrationItem, Provider};

fn listen(_: &OrchestrationItem) -> Reply {
    Reply::default()
}

async fn with(fault: Option<(usize, Fault)>, messages: Vec<duroxide::providers::WorkItem>) -> Vec<String> {
    let mut world = World::new().await;
    for message in messages {
        world.workflows.enqueue_for_orchestrator(message, None).await.unwrap();
    }
    world.meet(fault).await;
    world.tell_on(listen).await;
    assert_eq!(world.leftovers().await, Vec::<String>::new());
    world.histories(&["i"]).await.remove("i").unwrap()
}

/// The messages of an instance come in turns of as many as a commit can take, in order.
#[tokio::test(start_paused = true)]
async fn a_full_mailbox_is_emptied_in_order() {
    let messages = || std::iter::once(start("i")).chain((0..250).map(|n| raised("i", &format!("{n:03}"))));
    let expected: Vec<String> = messages().map(|message| told(&message)).collect();
    assert_eq!(with(None, messages().collect()).await, expected);
    for fault in FAULTS {
        for at in 0..6 {
            assert_eq!(
                with(Some((at, fault)), messages().collect()).await,
                expected,
                "{fault:?} at commit {at}"
            );
        }
    }
}

/// A start is found behind everything that arrived before it.
#[tokio::test(start_paused = true)]
async fn a_start_behind_a_crowd_is_found() {
    let messages = (0..250).map(|n| raised("i", &format!("{n:03}"))).chain([start("i")]);
    let heard = with(None, messages.collect()).await;
    let mut sorted = heard.clone();
    sorted.sort_unstable();
    let mut expected: Vec<String> = (0..250).map(|n| format!("{n:03}")).collect();
    expected.push("start i".to_owned());
    assert_eq!(sorted, expected);
    let events: Vec<&String> = heard.iter().filter(|heard| *heard != "start i").collect();
    assert!(events.is_sorted(), "the events are out of order");
}

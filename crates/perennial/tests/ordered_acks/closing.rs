//! Closing a store waits for the acknowledgements that have returned.

use crate::calls::{all_work, at_once, at_work, results, soon};
use crate::gated::GatedDisk;
use duroxide::providers::Provider;
use perennial_scenarios::calls::{Ack, LEASE, activity, completed, kv_set, send, start, turn_of_within, turn_within};
use perennial_workflow::{Settings, Workflows};

/// How many activities end.
const ENDED: u64 = 20;

/// Makes acks that return at once: of the results of `i`, and of a first turn of `j` that schedules an activity.
pub async fn ack_both(store: &Workflows, hold: impl FnOnce()) {
    let work = at_work(store, "i", ENDED).await;
    send(store, start("j")).await;
    let (_, turn, _) = turn_of_within(store, "j", LEASE).await;
    hold();
    for (id, token, _) in work {
        store.ack_work_item(&token, Some(completed("i", id))).await.unwrap();
    }
    let ack = Ack::first("j").events([kv_set("j", 2, "key", "value")]);
    let ack = ack.work([activity("j", 77)]);
    ack.send(store, &turn).await.unwrap();
}

/// Everything that was acknowledged is there: each result once, and nothing is left to be done twice.
pub async fn check_both(store: &Workflows) {
    let (item, ..) = soon(turn_within(store, LEASE)).await.unwrap();
    assert_eq!(item.instance, "i");
    let mut brought = results(&item);
    brought.sort_unstable();
    assert_eq!(brought, (1..=ENDED).collect::<Vec<_>>());
    assert_eq!(store.read("j").await.unwrap().len(), 2);
    assert_eq!(store.get_kv_value("j", "key").await.unwrap().as_deref(), Some("value"));
    let work: Vec<u64> = all_work(store).await.into_iter().map(|(id, ..)| id).collect();
    assert_eq!(work, [77]);
}

#[tokio::test]
async fn closing_waits_until_what_was_acknowledged_is_durable() {
    let disk = GatedDisk::default();
    let store = Workflows::open(disk.open().unwrap(), Settings::default())
        .await
        .unwrap();
    let mut held = None;
    ack_both(&store, || held = Some(disk.hold())).await;
    let held = held.unwrap();
    held.reached(1).await;
    let mut closing = Box::pin(store.close());
    assert!(at_once(&mut closing).is_none(), "nothing is durable yet");
    drop(held);
    soon(closing).await.unwrap();
    // A power cut takes what was not synced.
    disk.memory.crash();
    let again = Workflows::open(disk.open().unwrap(), Settings::default())
        .await
        .unwrap();
    check_both(&again).await;
}

/// The store itself, below the engine: a program may close it in any order.
#[tokio::test]
async fn closing_the_store_alone_waits_as_well() {
    let disk = GatedDisk::default();
    let below = disk.open().unwrap();
    let store = Workflows::open(below.clone(), Settings::default()).await.unwrap();
    let mut held = None;
    ack_both(&store, || held = Some(disk.hold())).await;
    let mut closing = below.close();
    assert!(at_once(&mut closing).is_none(), "nothing is durable yet");
    drop(held);
    soon(closing).await.unwrap();
    disk.memory.crash();
    let again = Workflows::open(disk.open().unwrap(), Settings::default())
        .await
        .unwrap();
    check_both(&again).await;
}

#[tokio::test]
async fn closing_a_directory_keeps_what_was_acknowledged() {
    for _ in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file://{}", directory.path().join("store").display());
        let store = perennial::open(&url).await.unwrap();
        ack_both(&store, || {}).await;
        store.close().await.unwrap();
        check_both(&perennial::open(&url).await.unwrap()).await;
    }
}

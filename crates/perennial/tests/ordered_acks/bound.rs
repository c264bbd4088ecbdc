//! The bound: at most 256 acknowledgements and 8 MiB are outstanding, none older than two syncs.

use crate::calls::{Running, at_once, at_work, soon};
use crate::gated::GatedDisk;
use duroxide::providers::{Provider, ProviderAdmin, ProviderError, WorkItem};
use futures::future::BoxFuture;
use perennial_scenarios::calls::{Ack, LEASE, completed, send, start, turn_within};
use perennial_workflow::{Settings, Workflows};

/// As `crates/workflow/src/tuning.rs` has them.
const MAX_ACKS: usize = 256;
const MAX_BYTES: usize = 8 * 1024 * 1024;

type Acking<'a> = BoxFuture<'a, Result<(), ProviderError>>;

async fn fresh() -> (GatedDisk, Workflows) {
    let disk = GatedDisk::default();
    let store = Workflows::open(disk.open().unwrap(), Settings::default())
        .await
        .unwrap();
    (disk, store)
}

/// The result of an activity, of this size.
fn result_of(id: u64, bytes: usize) -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: "i".to_owned(),
        execution_id: 1,
        id,
        result: "x".repeat(bytes),
    }
}

fn ack_work<'a>(store: &'a Workflows, (id, token, _): &'a Running, bytes: usize) -> Acking<'a> {
    store.ack_work_item(token, Some(result_of(*id, bytes)))
}

/// Turns and activities that are handed out, one of each after the other, as acks of them.
async fn mixed(store: &Workflows, each: usize) -> Vec<Acking<'_>> {
    let mut turns = Vec::new();
    for number in 0..each {
        send(store, start(&format!("turn-{number}"))).await;
        let (item, token, _) = turn_within(store, LEASE).await.unwrap();
        turns.push((item.instance, token));
    }
    let work = at_work(store, "i", each as u64).await;
    let mut acks: Vec<Acking<'_>> = Vec::new();
    for ((instance, turn), (id, activity, _)) in turns.into_iter().zip(work) {
        acks.push(Box::pin(async move { Ack::first(&instance).send(store, &turn).await }));
        acks.push(Box::pin(async move {
            store.ack_work_item(&activity, Some(completed("i", id))).await
        }));
    }
    acks
}

#[tokio::test]
async fn acks_return_before_they_are_durable_as_long_as_there_are_not_too_many() {
    let (disk, store) = fresh().await;
    // Again, when all of the first ones are durable.
    for _ in 0..2 {
        let mut acks = mixed(&store, MAX_ACKS / 2 + 1).await;
        let held = disk.hold();
        let mut beyond = acks.split_off(MAX_ACKS);
        assert_eq!(beyond.len(), 2, "a turn and an activity");
        for (number, ack) in acks.into_iter().enumerate() {
            let outcome = at_once(ack).unwrap_or_else(|| panic!("ack {number} waits"));
            outcome.unwrap();
        }
        held.reached(1).await;
        for ack in &mut beyond {
            assert!(at_once(ack).is_none(), "it returned before there was room");
        }
        let flushed = store.flush();
        assert!(at_once(flushed).is_none(), "nothing is durable");
        drop(held);
        for ack in beyond {
            soon(ack).await.unwrap();
        }
        soon(store.flush()).await;
        // The instances have the same names in the next round.
        for instance in store.list_instances().await.unwrap() {
            store.delete_instance(&instance, true).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_ack_beyond_the_bound_returns_once_there_is_room() {
    let (disk, store) = fresh().await;
    let mut acks = mixed(&store, MAX_ACKS / 2 + 1).await;
    let beyond = acks.split_off(MAX_ACKS);
    let held = disk.hold();
    let mut acks = acks.into_iter();
    at_once(acks.next().unwrap()).unwrap().unwrap();
    // The first sync is of one ack alone.
    held.reached(1).await;
    for ack in acks {
        at_once(ack).unwrap().unwrap();
    }
    let [mut first, mut second] = <[Acking<'_>; 2]>::try_from(beyond).ok().unwrap();
    assert!(at_once(&mut first).is_none());
    held.let_one_through();
    held.reached(2).await;
    at_once(first).expect("one of 257 is durable").unwrap();
    assert!(at_once(&mut second).is_none(), "there was room for one");
    drop(held);
    soon(second).await.unwrap();
}

#[tokio::test]
async fn acks_return_before_they_are_durable_as_long_as_they_are_not_too_large() {
    const LARGE: usize = 1_000_000;
    let (disk, store) = fresh().await;
    let fitting = MAX_BYTES / LARGE;
    let work = at_work(&store, "i", 2 * (fitting as u64 + 3)).await;
    // Again, when all of the first ones are durable.
    for work in work.chunks(fitting + 3) {
        let held = disk.hold();
        for running in &work[..fitting] {
            at_once(ack_work(&store, running, LARGE)).unwrap().unwrap();
        }
        // Few bytes are left: enough for a small one.
        at_once(ack_work(&store, &work[fitting], 10)).unwrap().unwrap();
        held.reached(1).await;
        let mut beyond = ack_work(&store, &work[fitting + 1], LARGE);
        assert!(at_once(&mut beyond).is_none());
        // What comes after it waits, too, however small.
        let mut small = ack_work(&store, &work[fitting + 2], 10);
        assert!(at_once(&mut small).is_none());
        drop(held);
        soon(beyond).await.unwrap();
        soon(small).await.unwrap();
        soon(store.flush()).await;
    }
}

#[tokio::test]
async fn an_ack_that_is_too_large_alone_returns_when_it_is_durable() {
    let (disk, store) = fresh().await;
    let work = at_work(&store, "i", 1).await;
    let held = disk.hold();
    let mut large = ack_work(&store, &work[0], MAX_BYTES);
    assert!(at_once(&mut large).is_none());
    held.reached(1).await;
    assert!(at_once(&mut large).is_none());
    drop(held);
    soon(large).await.unwrap();
}

/// An ack that is made during one sync is durable with the next one, however many there are.
#[tokio::test]
async fn no_ack_is_older_than_two_syncs() {
    let (disk, store) = fresh().await;
    let mut acks = mixed(&store, 50).await.into_iter();
    let held = disk.hold();
    let mut sync = 0;
    for ack in acks.by_ref().take(1) {
        at_once(ack).unwrap().unwrap();
    }
    for _ in 0..3 {
        sync += 1;
        held.reached(sync).await;
        let mut earlier = Box::pin(store.flush());
        assert!(at_once(&mut earlier).is_none(), "sync {sync} is under way");
        for ack in acks.by_ref().take(33) {
            at_once(ack).unwrap().unwrap();
        }
        let mut during = Box::pin(store.flush());
        assert!(at_once(&mut during).is_none());
        held.let_one_through();
        held.reached(sync + 1).await;
        assert!(at_once(&mut earlier).is_some(), "made before sync {sync}");
        assert!(at_once(&mut during).is_none(), "made during sync {sync}");
    }
    assert!(acks.next().is_none());
    let mut last = Box::pin(store.flush());
    assert!(at_once(&mut last).is_none());
    held.let_one_through();
    soon(last).await;
}

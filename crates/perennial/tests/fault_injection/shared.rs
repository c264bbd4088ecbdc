//! Several processes on one store, and a fault in one of them.

use crate::calls::*;
use crate::clock::Wrong;
use crate::gate::{Door, Gate};
use duroxide::providers::{Provider, TagFilter};
use perennial_kv::SharedMemory;
use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId, Store};
use perennial_workflow::{Settings, Workflows, testing};
use std::sync::Arc;
use std::time::Duration;

/// Longer than it takes until another process may take over what was leased for `lock`.
fn after(lock: Duration) -> Duration {
    lock + ms(1_100)
}

pub fn database() -> SharedMemory {
    SharedMemory::new(perennial_kv::Settings::CLOUD_LIMITS).unwrap()
}

pub async fn process(database: &SharedMemory, settings: Settings) -> (Arc<Workflows>, Arc<Gate>) {
    let gate = Gate::shared(database);
    let store: Arc<dyn perennial_store::Store> = gate.clone();
    (Arc::new(Workflows::open(store, settings).await.unwrap()), gate)
}

/// The records of an instance, without its history.
fn records(database: &SharedMemory, instance: &str) -> Vec<String> {
    let partition = format!("wf:{instance}");
    let keys = database.disk().keys().into_iter();
    let ours = keys.filter(|key| key.partition.as_str() == partition);
    let kinds = ours.map(|key| key.id.as_str().split('/').next().unwrap_or_default().to_owned());
    kinds.filter(|kind| !matches!(kind.as_str(), "page" | "exec")).collect()
}

/// The turn of a start that arrives while a dispatcher waits.
async fn started_here(store: &Arc<Workflows>, instance: &str, lock: Duration) -> Turn {
    let waiting = tokio::spawn({
        let store = Arc::clone(store);
        async move { store.fetch_orchestration_item(lock, LEASE, None).await }
    });
    pause(ms(100)).await;
    send(&**store, start(instance)).await;
    soon(waiting).await.unwrap().unwrap().expect("a turn is ready")
}

pub async fn next_turn(store: &Workflows) -> Turn {
    let fetched = soon(store.fetch_orchestration_item(LEASE, LEASE, None)).await;
    fetched.unwrap().expect("a turn is ready")
}

#[tokio::test]
async fn a_small_message_that_comes_with_its_claim_is_in_the_head_until_its_turn() {
    let database = database();
    let (here, _) = process(&database, Settings::default()).await;
    let (item, token, _) = started_here(&here, "i", LEASE).await;
    assert_eq!(
        (item.messages.len(), records(&database, "i")),
        (1, vec!["head".to_owned()])
    );
    let events = vec![started("i", 1)];
    ack(&*here, &token, 1, events, vec![], Some("Completed")).await.unwrap();
    assert_eq!(records(&database, "i"), ["head"]);
    assert!(turn_within(&*here, ms(300)).await.is_none());
}

#[tokio::test]
async fn a_message_in_the_head_outlives_its_process() {
    let database = database();
    let (here, _) = process(&database, Settings::default()).await;
    let lock = ms(500);
    started_here(&here, "i", lock).await;
    testing::let_go(&here).await;
    let (there, _) = process(&database, Settings::default()).await;
    assert!(try_turn(&*there).await.is_none(), "it is still held");
    pause(after(lock)).await;
    let (item, token, attempt) = next_turn(&there).await;
    assert_eq!((item.instance.as_str(), item.messages.len(), attempt), ("i", 1, 2));
    let events = vec![started("i", 1)];
    ack(&*there, &token, 1, events, vec![], Some("Completed"))
        .await
        .unwrap();
    assert_eq!(records(&database, "i"), ["head"]);
}

#[tokio::test]
async fn a_damaged_head_with_an_inline_message_blocks_no_other_instance() {
    let database = database();
    let (here, gate) = process(&database, Settings::default()).await;
    let lock = ms(300);
    started_here(&here, "broken", lock).await;
    let head = Key::new(Partition::new("wf:broken"), RecordId::of("head"));
    let place = gate.get(&head).await.unwrap().unwrap().place.unwrap();
    let damaged = Draft::new(head.clone(), "no head").placed(place);
    gate.commit(Commit::new(vec![Op::Put(damaged)])).await.unwrap();
    testing::let_go(&here).await;
    let (there, gate) = process(&database, Settings::default()).await;
    pause(after(lock)).await;
    let (elsewhere, _) = process(&database, Settings::default()).await;
    send(&*elsewhere, start("other")).await;
    assert_eq!(next_turn(&there).await.0.instance, "other");
    assert!(turn_within(&*there, ms(300)).await.is_none());
    let kept = gate.get(&head).await.unwrap().expect("it is kept");
    assert_eq!(kept.body, "no head");
}

#[tokio::test]
async fn a_message_in_the_head_is_given_back_now_and_for_later() {
    for delay in [None, Some(ms(400))] {
        let database = database();
        let (here, _) = process(&database, Settings::default()).await;
        let (there, _) = process(&database, Settings::default()).await;
        let (_, token, _) = started_here(&here, "i", LEASE).await;
        here.abandon_orchestration_item(&token, delay, false).await.unwrap();
        if delay.is_some() {
            assert!(try_turn(&*here).await.is_none() && try_turn(&*there).await.is_none());
            pause(ms(400)).await;
        }
        let (item, token, attempt) = next_turn(&there).await;
        assert_eq!((item.messages.len(), attempt), (1, 2));
        let events = vec![started("i", 1)];
        ack(&*there, &token, 1, events, vec![], Some("Completed"))
            .await
            .unwrap();
        assert_eq!(records(&database, "i"), ["head"]);
        assert!(turn_within(&*here, ms(300)).await.is_none());
    }
}

#[tokio::test]
async fn a_process_that_leaves_releases_what_it_has_not_handed_out() {
    let database = database();
    let (here, _) = process(&database, Settings::default()).await;
    let waiting = tokio::spawn({
        let here = Arc::clone(&here);
        async move { here.fetch_orchestration_item(LEASE, ms(300), None).await }
    });
    pause(ms(100)).await;
    // One dispatcher waits, and both starts arrive with a claim for it.
    let (one, other) = (start("i"), start("j"));
    tokio::join!(send(&*here, one), send(&*here, other));
    let (taken, token, _) = soon(waiting).await.unwrap().unwrap().unwrap();
    let left = if taken.instance == "i" { "j" } else { "i" };
    assert_eq!(records(&database, left), ["head"]);
    ack(
        &*here,
        &token,
        1,
        vec![started(&taken.instance, 1)],
        vec![],
        Some("Completed"),
    )
    .await
    .unwrap();
    here.close().await.unwrap();
    let (there, _) = process(&database, Settings::default()).await;
    let (item, _, attempt) = next_turn(&there).await;
    assert_eq!((item.instance.as_str(), item.messages.len(), attempt), (left, 1, 1));
}

#[tokio::test]
async fn a_fetch_whose_lease_ran_out_does_not_disturb_the_one_that_came_after() {
    let database = database();
    let (here, gate) = process(&database, no_cache()).await;
    let (there, _) = process(&database, Settings::default()).await;
    let (_, token, _) = started_here(&there, "i", LEASE).await;
    ack(&*there, &token, 1, vec![started("i", 1)], vec![], None)
        .await
        .unwrap();
    send(&*there, raised("i", "x")).await;
    // The head is read, and the reply takes longer than the lease.
    let lock = ms(300);
    let mut door = gate.stop_next(Door::Get);
    let slow = tokio::spawn({
        let here = Arc::clone(&here);
        async move { here.fetch_orchestration_item(lock, ms(2_000), None).await }
    });
    soon(door.came()).await;
    pause(lock).await;
    let (item, token, _) = next_turn(&here).await;
    assert_eq!(item.instance, "i");
    door.go();
    assert!(soon(slow).await.unwrap().unwrap().is_none());
    assert!(try_turn(&*there).await.is_none(), "it is held");
    ack(&*here, &token, 1, vec![], vec![], None).await.unwrap();
}

#[tokio::test]
async fn a_claim_that_lapsed_and_was_overwritten_does_not_come_back_when_the_clock_is_put_back() {
    let database = database();
    let (gate, clock) = (Gate::shared(&database), Arc::new(Wrong::default()));
    let here = Workflows::open_with_clock(gate.clone(), Settings::default(), clock.clone()).await;
    let here = Arc::new(here.unwrap());
    let lock = ms(300);
    let (_, token, _) = started_here(&here, "i", lock).await;
    ack(&*here, &token, 1, vec![started("i", 1)], vec![], None)
        .await
        .unwrap();
    send(&*here, raised("i", "x")).await;
    // The claim is written, and the reply takes longer than the lease.
    let mut door = gate.stop_next(Door::Reply);
    let slow = tokio::spawn({
        let here = Arc::clone(&here);
        async move { here.fetch_orchestration_item(lock, LEASE, None).await }
    });
    soon(door.came()).await;
    pause(after(lock)).await;
    assert!(work_as(&*here, "a").await.is_none());
    // What is known of the instance is old enough to be read again, and another message arrives with a claim of its own.
    assert_eq!(here.read("i").await.unwrap().len(), 1);
    send(&*here, raised("i", "y")).await;
    assert_eq!(
        records(&database, "i"),
        ["head", "msg"],
        "the second message is in the head"
    );
    clock.put_back_an_hour();
    door.go();
    let (item, token, _) = soon(slow).await.unwrap().unwrap().expect("a turn is ready");
    assert_eq!(item.messages.len(), 2);
    ack(&*here, &token, 1, vec![], vec![], None).await.unwrap();
}

#[tokio::test]
async fn what_another_process_finished_and_claimed_counts_as_handed_out() {
    let database = database();
    let (here, gate) = process(&database, Settings::default()).await;
    let (there, _) = process(&database, Settings::default()).await;
    let (_, token, _) = started_here(&here, "i", LEASE).await;
    // The turn is durable, and most of its activities are not there yet.
    let many = (0..150).map(|id| activity("i", 10 + id)).collect();
    let mut door = gate.stop_next(Door::Reply);
    let turn = tokio::spawn({
        let here = Arc::clone(&here);
        async move { ack(&*here, &token, 1, vec![started("i", 1)], many, None).await }
    });
    soon(door.came()).await;
    gate.set_down(true);
    door.go();
    soon(turn).await.unwrap().unwrap();
    assert_eq!(there.read("i").await.unwrap().len(), 1);
    let lock = ms(300);
    let tags = TagFilter::DefaultOnly;
    let mut claimed = None;
    for _ in 0..150 {
        let (item, _, attempt) = there.fetch_work_item(lock, NOW, None, &tags).await.unwrap().unwrap();
        assert_eq!(attempt, 1);
        claimed = Some(item);
    }
    let claimed = claimed.unwrap();
    gate.set_down(false);
    pause(after(lock)).await;
    for _ in 0..150 {
        let (item, _, attempt) = here.fetch_work_item(LEASE, LEASE, None, &tags).await.unwrap().unwrap();
        assert_eq!(attempt, 2, "{item:?}");
        if item == claimed {
            return;
        }
    }
    panic!("it does not come again");
}

#[tokio::test]
async fn a_message_that_another_process_took_out_of_the_head_is_not_handed_out_again() {
    let database = database();
    let (here, gate) = process(&database, Settings::default()).await;
    let (there, _) = process(&database, Settings::default()).await;
    let lock = ms(300);
    let fetch = |lock: Duration, wait: Duration| {
        let here = Arc::clone(&here);
        tokio::spawn(async move { here.fetch_orchestration_item(lock, wait, None).await })
    };
    let waiting = fetch(lock, ms(2_500));
    pause(ms(100)).await;
    // The start is stored with its claim, and the reply comes after another process has done the work.
    let mut door = gate.stop_next(Door::Reply);
    let sent = tokio::spawn({
        let here = Arc::clone(&here);
        async move { send(&*here, start("i")).await }
    });
    soon(door.came()).await;
    // Nor does a poll return it.
    let due = gate.stop_next(Door::Due);
    pause(after(lock)).await;
    let (_, token, _) = next_turn(&there).await;
    ack(&*there, &token, 1, vec![started("i", 1)], vec![], None)
        .await
        .unwrap();
    // The claim is repeated, and its lease ends while the messages are read.
    let mut scan = gate.stop_next(Door::Scan);
    let mut late = gate.stop_next(Door::Scan);
    door.go();
    soon(sent).await.unwrap();
    soon(scan.came()).await;
    scan.go();
    soon(late.came()).await;
    pause(lock).await;
    let found = soon(fetch(LEASE, ms(500))).await.unwrap().unwrap();
    assert!(found.is_none(), "{found:?}");
    late.go();
    due.go();
    assert!(soon(waiting).await.unwrap().unwrap().is_none());
}

/// The next execution starts with a message that arrives behind one of another process: it is not left behind.
#[tokio::test]
async fn what_waits_for_an_execution_comes_with_its_start() {
    let database = database();
    let (here, _) = process(&database, Settings::default()).await;
    let (there, _) = process(&database, Settings::default()).await;
    let (_, token, _) = started_here(&here, "i", LEASE).await;
    send(&*here, queued("i", "b")).await;
    pause(ms(5)).await;
    send(&*there, queued("i", "c")).await;
    // A poll returns it while the turn is under way.
    assert!(turn_within(&*here, ms(300)).await.is_none());
    let next = vec![continued("i")];
    let events = vec![started("i", 1)];
    let acked = here.ack_orchestration_item(&token, 1, events, vec![], next, named(Some("ContinuedAsNew")), vec![]);
    acked.await.unwrap();
    let (item, _, _) = next_turn(&here).await;
    let expected = [queued("i", "b"), queued("i", "c"), continued("i")];
    assert_eq!(item.messages, expected);
}

/// The claim of one process is lost, and another process takes the same message out of the same head: its record is the
/// same, under the same key, and is no evidence of a claim.
#[tokio::test]
async fn a_claim_that_was_lost_is_not_proven_by_the_message_that_another_process_took_out_of_the_head() {
    let database = database();
    let (dead, _) = process(&database, Settings::default()).await;
    let lock = ms(500);
    started_here(&dead, "i", lock).await;
    testing::let_go(&dead).await;
    let (here, gate) = process(&database, Settings::default()).await;
    let (there, _) = process(&database, Settings::default()).await;
    let waiting = tokio::spawn({
        let here = Arc::clone(&here);
        async move { here.fetch_orchestration_item(LEASE, ms(4_000), None).await }
    });
    pause(ms(100)).await;
    // No poll returns the message in the head, but it has one of its own for the instance.
    let due = gate.stop_next(Door::Due);
    pause(after(lock)).await;
    let (sent, mut claim) = (gate.stop_next(Door::Commit), gate.stop_next(Door::Commit));
    sent.go();
    send(&*here, queued("i", "b")).await;
    soon(claim.came()).await;
    let (item, token, attempt) = next_turn(&there).await;
    assert_eq!((item.messages.len(), attempt), (2, 2));
    claim.lose();
    let found = soon(waiting).await.unwrap().unwrap();
    assert!(found.is_none(), "two hold the same turn: {found:?}");
    due.go();
    ack(&*there, &token, 1, vec![started("i", 1)], vec![], Some("Completed"))
        .await
        .unwrap();
}

/// A process deletes an instance that it has seen, and does not see yet that another process has queued a second start.
#[tokio::test]
async fn a_deletion_removes_a_start_that_its_reads_do_not_show_yet() {
    let database = database();
    let (here, gate) = process(&database, Settings::default()).await;
    let (there, _) = process(&database, Settings::default()).await;
    let (_, token, _) = started_here(&here, "i", LEASE).await;
    let events = vec![started("i", 1)];
    ack(&*here, &token, 1, events, vec![], Some("Completed")).await.unwrap();
    gate.lag(Partition::new("wf:i")).await;
    send(&*there, start("i")).await;
    let deleted = here
        .as_management_capability()
        .unwrap()
        .delete_instance("i", false)
        .await
        .unwrap();
    assert_eq!((deleted.instances_deleted, deleted.queue_messages_deleted), (1, 1));
    assert_eq!(records(&database, "i"), Vec::<String>::new());
    assert!(turn_within(&*there, ms(500)).await.is_none());
}

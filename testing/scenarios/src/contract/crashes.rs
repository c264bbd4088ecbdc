//! A crash must keep everything acknowledged, and the count of attempts.

use duroxide::providers::{Provider, TagFilter};

use super::kit::*;
use crate::Harness;

/// A lease so short that a crash does not make anyone wait.
const BRIEF: u64 = 100;

async fn brief_turn(store: &dyn Provider) -> Turn {
    store
        .fetch_orchestration_item(ms(BRIEF), SOON, None)
        .await
        .unwrap()
        .expect("a turn is ready")
}

/// The next turn, if need be after the leases of dead processes have ended.
async fn after_leases(store: &dyn Provider) -> duroxide::providers::OrchestrationItem {
    let fetched = store.fetch_orchestration_item(LEASE, ms(10_000), None).await.unwrap();
    fetched.expect("a turn is ready").0
}

async fn brief_work(store: &dyn Provider) -> Work {
    store
        .fetch_work_item(ms(BRIEF), SOON, None, &TagFilter::DefaultOnly)
        .await
        .unwrap()
        .expect("work is ready")
}

/// Delivers both a turn and work `times` times, crashes, and checks that the next attempt is known to be a later one.
async fn deliver_and_crash(h: &Harness, times: u32) {
    let store = h.store();
    send(&*store, start("i")).await;
    push(&*store, activity("i", 1)).await;
    for attempt in 1..=times {
        let (turn, work) = tokio::join!(brief_turn(&*store), brief_work(&*store));
        assert_eq!((turn.2, work.2), (attempt, attempt));
        if attempt < times {
            tokio::time::sleep(ms(BRIEF)).await;
        }
    }
    drop(store);
    h.crash_and_reopen().await;
    let store = h.store();
    let (turn, work) = tokio::join!(brief_turn(&*store), brief_work(&*store));
    assert!(
        turn.2 > times,
        "after {times} deliveries and a crash the turn is at attempt {}",
        turn.2
    );
    assert!(
        work.2 > times,
        "after {times} deliveries and a crash the work is at attempt {}",
        work.2
    );
}

/// One delivery and a crash: the next attempt is at least the second.
pub async fn one_delivery_is_remembered(h: &Harness) {
    deliver_and_crash(h, 1).await;
}

/// Three deliveries and a crash: the next attempt is at least the fourth.
pub async fn three_deliveries_are_remembered(h: &Harness) {
    deliver_and_crash(h, 3).await;
}

/// A message that brings the process down each time ends as poison, not as an endless loop.
pub async fn crashing_again_and_again_ends(h: &Harness) {
    send(&*h.store(), start("i")).await;
    push(&*h.store(), activity("i", 1)).await;
    for round in 1..=5 {
        let store = h.store();
        let (turn, work) = tokio::join!(brief_turn(&*store), brief_work(&*store));
        assert!(
            turn.2 >= round && work.2 >= round,
            "round {round}: attempts {} and {}",
            turn.2,
            work.2
        );
        drop(store);
        h.crash_and_reopen().await;
    }
}

/// A delivery that was abandoned without counting as an attempt does not count after a crash either.
pub async fn a_forgiven_attempt_stays_forgiven(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    for _ in 0..3 {
        let (_, token, attempt) = turn(&*store).await;
        assert_eq!(attempt, 1);
        store.abandon_orchestration_item(&token, None, true).await.unwrap();
    }
    drop(store);
    h.restart().await;
    assert_eq!(brief_turn(&*h.store()).await.2, 1);
}

/// Everything an ack wrote is there after a crash, and what it consumed is not.
pub async fn an_acknowledged_turn_survives(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    send(&*store, queued("i", "consumed")).await;
    push(&*store, activity("i", 8)).await;
    // A claim may outlive a crash, where others can see it, but not for longer than its lease.
    let fetched = store.fetch_orchestration_item(ms(1_000), SOON, None).await.unwrap();
    let (_, token, _) = fetched.expect("a turn is ready");
    send(&*store, queued("i", "meanwhile")).await;
    let status = duroxide::EventKind::CustomStatusUpdated {
        status: Some("set".to_owned()),
    };
    let ack = Ack::first("i")
        .events([kv_set("i", 2, "k", "v"), event("i", 1, 3, status)])
        .work([activity("i", 9)])
        .messages([start("child")])
        .cancelled([identity("i", 8)]);
    ack.send(&*store, &token).await.unwrap();
    let history = store.read("i").await.unwrap();
    drop(store);
    h.crash_and_reopen().await;
    let store = h.store();
    assert_eq!(store.read("i").await.unwrap(), history);
    assert_eq!(history.len(), 3);
    assert_eq!(store.get_kv_value("i", "k").await.unwrap().as_deref(), Some("v"));
    assert_eq!(
        store.get_custom_status("i", 0).await.unwrap(),
        Some((Some("set".to_owned()), 1))
    );
    assert_eq!(id_of(&work(&*store).await.0), 9);
    assert!(try_work(&*store).await.is_none());
    let mut turns = [after_leases(&*store).await, after_leases(&*store).await];
    turns.sort_by(|a, b| a.instance.cmp(&b.instance));
    assert_eq!(
        (turns[0].instance.as_str(), &turns[0].messages[..]),
        ("child", &[start("child")][..])
    );
    assert_eq!(
        (turns[1].instance.as_str(), &turns[1].messages[..]),
        ("i", &[queued("i", "meanwhile")][..])
    );
}

/// A completed activity is not done again, and its result is there once.
pub async fn completed_work_stays_completed(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    for id in 2..12 {
        push(&*store, activity("i", id)).await;
    }
    // A worker that ends an activity may have claimed the next one, where others can see it: such a claim outlives a crash.
    let brief = ms(2_000);
    for id in 2..7 {
        let fetched = store.fetch_work_item(brief, SOON, None, &TagFilter::DefaultOnly).await;
        let (_, token, _) = fetched.unwrap().expect("work is ready");
        store.ack_work_item(&token, Some(completed("i", id))).await.unwrap();
    }
    drop(store);
    h.crash_and_reopen().await;
    let store = h.store();
    let mut left = Vec::new();
    for _ in 0..10 {
        let fetched = store.fetch_work_item(LEASE, SOON, None, &TagFilter::DefaultOnly).await;
        left.extend(fetched.unwrap().map(|(item, ..)| id_of(&item)));
        if left.len() == 5 {
            break;
        }
    }
    left.sort_unstable();
    assert_eq!(left, (7..12).collect::<Vec<_>>());
    assert!(try_work(&*store).await.is_none(), "completed work came again");
    let (item, ..) = turn(&*store).await;
    assert_eq!(item.messages, (2..7).map(|id| completed("i", id)).collect::<Vec<_>>());
}

/// Whatever an enqueue has accepted is there after a crash, due when it was due.
pub async fn an_accepted_message_survives(h: &Harness) {
    let store = h.store();
    for n in 0..30 {
        send(&*store, start(&format!("i{n}"))).await;
        push(&*store, activity("i", n)).await;
    }
    store
        .enqueue_for_orchestrator(start("later"), Some(LEASE))
        .await
        .unwrap();
    drop(store);
    h.crash_and_reopen().await;
    let store = h.store();
    for n in 0..30 {
        turn_of(&*store, &format!("i{n}")).await;
        assert_eq!(id_of(&work(&*store).await.0), n);
    }
    assert!(try_turn(&*store).await.is_none());
    assert!(try_work(&*store).await.is_none());
}

/// A deleted instance stays deleted.
pub async fn a_deleted_instance_stays_deleted(h: &Harness) {
    let store = h.store();
    for instance in ["gone", "kept"] {
        ended(&*store, instance).await;
    }
    h.admin(async |a| a.delete_instance("gone", false).await).await.unwrap();
    drop(store);
    h.crash_and_reopen().await;
    assert_eq!(instances(&*h.store()).await, ["kept"]);
    assert!(h.store().read("gone").await.unwrap().is_empty());
}

/// A turn or work that was held when the process died is there again, at the latest when its lease has ended.
pub async fn what_was_held_comes_back(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    push(&*store, routed("i", 1, Some("s"), None)).await;
    let brief = duroxide::providers::SessionFetchConfig {
        owner_id: "dead".to_owned(),
        lock_timeout: ms(BRIEF),
    };
    brief_turn(&*store).await;
    store
        .fetch_work_item(ms(BRIEF), NOW, Some(&brief), &TagFilter::DefaultOnly)
        .await
        .unwrap()
        .unwrap();
    drop(store);
    h.crash_and_reopen().await;
    let store = h.store();
    assert_eq!(brief_turn(&*store).await.0.instance, "i");
    let heir = owner("heir");
    let fetched = store
        .fetch_work_item(LEASE, SOON, Some(&heir), &TagFilter::DefaultOnly)
        .await
        .unwrap();
    assert_eq!(id_of(&fetched.expect("the session's work").0), 1);
}

//! Work that is cancelled, kept, or given back.

use duroxide::providers::TagFilter;

use super::kit::*;
use crate::Harness;

/// Cancelled work disappears, also while a worker holds it: the worker learns of it and can complete nothing.
pub async fn cancelled_work_is_taken_from_its_holder(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn(&*store).await;
    Ack::first("i")
        .work([activity("i", 2), activity("i", 3), activity("i", 4)])
        .send(&*store, &token)
        .await
        .unwrap();
    let (_, held, _) = work(&*store).await;
    send(&*store, raised("i", "go")).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    let ack = Ack::empty().cancelled([identity("i", 2), identity("i", 3), identity("i", 99)]);
    ack.send(&*store, &token).await.unwrap();
    assert!(
        !store
            .renew_work_item_lock(&held, LEASE)
            .await
            .unwrap_err()
            .is_retryable()
    );
    assert!(
        !store
            .ack_work_item(&held, Some(completed("i", 2)))
            .await
            .unwrap_err()
            .is_retryable()
    );
    let _ = store.abandon_work_item(&held, None, false).await;
    assert_eq!(id_of(&work(&*store).await.0), 4);
    assert!(try_work(&*store).await.is_none(), "cancelled work came back");
    assert!(try_turn(&*store).await.is_none(), "cancelled work was completed");
}

/// Only the named work of the named instance and execution is cancelled.
pub async fn only_the_named_work_is_cancelled(h: &Harness) {
    let store = h.store();
    for instance in ["i", "j"] {
        send(&*store, start(instance)).await;
        let (_, token, _) = turn_of(&*store, instance).await;
        Ack::first(instance)
            .work([activity(instance, 2)])
            .send(&*store, &token)
            .await
            .unwrap();
    }
    send(&*store, raised("i", "go")).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    let mut later = identity("i", 2);
    later.execution_id = 2;
    Ack::empty().cancelled([later]).send(&*store, &token).await.unwrap();
    assert_eq!(work(&*store).await.0, activity("i", 2));
    assert_eq!(work(&*store).await.0, activity("j", 2));
}

/// Work that was cancelled and scheduled anew is not completed by the old holder.
pub async fn an_old_holder_does_not_complete_the_new_work(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn(&*store).await;
    Ack::first("i")
        .work([activity("i", 2)])
        .send(&*store, &token)
        .await
        .unwrap();
    let (_, old, _) = work(&*store).await;
    send(&*store, raised("i", "go")).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    Ack::empty()
        .cancelled([identity("i", 2)])
        .send(&*store, &token)
        .await
        .unwrap();
    push(&*store, activity("i", 2)).await;
    assert!(store.ack_work_item(&old, Some(completed("i", 2))).await.is_err());
    let (_, new, attempt) = work(&*store).await;
    assert_eq!(attempt, 1);
    store.ack_work_item(&new, Some(completed("i", 2))).await.unwrap();
    assert_eq!(turn_of(&*store, "i").await.0.messages, [completed("i", 2)]);
}

/// The attempt is counted for each delivery, and taken back when the giver says so, but never below zero.
pub async fn attempts_are_counted_and_taken_back(h: &Harness) {
    let store = h.store();
    push(&*store, activity("i", 1)).await;
    for (expected, ignore) in [(1, false), (2, false), (3, true), (3, true), (3, false), (4, false)] {
        let (_, token, attempt) = work(&*store).await;
        assert_eq!(attempt, expected);
        store.abandon_work_item(&token, None, ignore).await.unwrap();
    }
    send(&*store, start("i")).await;
    for (expected, ignore) in [(1, false), (2, false), (3, true), (3, true), (3, false), (4, false)] {
        let (_, token, attempt) = turn(&*store).await;
        assert_eq!(attempt, expected);
        store.abandon_orchestration_item(&token, None, ignore).await.unwrap();
    }
}

/// Work of the same id in two instances, or scheduled twice, is all done.
pub async fn work_is_not_merged(h: &Harness) {
    let store = h.store();
    for instance in ["i", "j", "i"] {
        push(&*store, activity(instance, 2)).await;
    }
    for instance in ["i", "j", "i"] {
        let (item, token, _) = work(&*store).await;
        assert_eq!(item, activity(instance, 2));
        store.ack_work_item(&token, None).await.unwrap();
    }
    assert!(try_work(&*store).await.is_none());
}

/// Work comes back with all it was sent with, through both ways in.
pub async fn work_comes_back_as_it_was_sent(h: &Harness) {
    let store = h.store();
    let items = [
        routed("i", 2, Some("s"), Some("t")),
        routed("i", 3, None, Some("t")),
        routed("i", 4, Some("u"), None),
    ];
    send(&*store, start("i")).await;
    let (_, token, _) = turn(&*store).await;
    Ack::first("i").work(items.clone()).send(&*store, &token).await.unwrap();
    for item in items.clone() {
        push(&*store, item).await;
    }
    let mine = owner("mine");
    for item in items.iter().chain(&items) {
        let fetched = store
            .fetch_work_item(LEASE, NOW, Some(&mine), &TagFilter::Any)
            .await
            .unwrap();
        assert_eq!(fetched.unwrap().0, *item);
    }
}

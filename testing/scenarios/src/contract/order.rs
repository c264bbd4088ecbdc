//! The order in which things are handed out: that of arrival.

use std::collections::HashSet;

use duroxide::providers::WorkItem;

use super::kit::*;
use crate::Harness;

/// Instances are served in the order in which their messages arrived, also within one millisecond.
pub async fn instances_are_served_in_order_of_arrival(h: &Harness) {
    let store = h.store();
    let names: Vec<_> = (0..60).map(|i| format!("{:x}-{i}", (i * 7919) % 97)).collect();
    for name in &names {
        send(&*store, start(name)).await;
    }
    for name in &names {
        turn_of(&*store, name).await;
    }
    assert!(try_turn(&*store).await.is_none());
}

/// Three hundred messages of one instance come in one turn, in order.
pub async fn three_hundred_messages_come_in_one_turn_in_order(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    for n in 0..300 {
        send(&*store, queued("i", &n.to_string())).await;
    }
    let (messages, (_, token, attempt)) = all_of(h, "i", 301, Some(Ack::first("i"))).await;
    assert_eq!((&messages[0], attempt), (&start("i"), 1));
    let data: Vec<_> = messages[1..].iter().map(data_of).map(str::to_owned).collect();
    assert_eq!(data, (0..300).map(|n| n.to_string()).collect::<Vec<_>>());
    Ack::empty().send(&*store, &token).await.unwrap();
    assert!(try_turn(&*store).await.is_none(), "an acknowledged message came again");
}

/// Work is served in the order of arrival, whether sent one by one or by one ack, and for whichever instance.
pub async fn work_is_served_in_order_of_arrival(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    for id in 0..50 {
        push(&*store, activity(&format!("other-{}", (id * 31) % 17), id)).await;
    }
    send(&*store, raised("i", "go")).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    Ack::empty()
        .work((50..100).map(|id| activity("i", id)))
        .send(&*store, &token)
        .await
        .unwrap();
    for id in 0..100 {
        assert_eq!(id_of(&work(&*store).await.0), id);
    }
}

/// A turn brings all that waits for its instance, and leaves the other instances their places.
pub async fn a_turn_brings_all_that_waits(h: &Harness) {
    let store = h.store();
    for instance in ["a", "b", "c"] {
        running(&*store, instance).await;
    }
    for (instance, data) in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", "5")] {
        send(&*store, raised(instance, data)).await;
    }
    for (instance, expected) in [("a", vec!["1", "3"]), ("b", vec!["2", "5"]), ("c", vec!["4"])] {
        let (item, ..) = turn_of(&*store, instance).await;
        assert_eq!(item.messages.iter().map(data_of).collect::<Vec<_>>(), expected);
    }
}

/// Work that is abandoned without a delay returns to its old place.
pub async fn what_is_given_back_keeps_its_place(h: &Harness) {
    let store = h.store();
    for instance in ["a", "b"] {
        send(&*store, start(instance)).await;
    }
    for id in 1..=2 {
        push(&*store, activity("i", id)).await;
    }
    let (_, token, _) = turn_of(&*store, "a").await;
    store.abandon_orchestration_item(&token, None, false).await.unwrap();
    turn_of(&*store, "a").await;
    turn_of(&*store, "b").await;
    let (_, token, _) = work(&*store).await;
    store.abandon_work_item(&token, None, false).await.unwrap();
    assert_eq!(id_of(&work(&*store).await.0), 1);
    assert_eq!(id_of(&work(&*store).await.0), 2);
}

/// A message that is not due yet does not block other instances.
pub async fn a_delayed_head_blocks_no_other(h: &Harness) {
    let store = h.store();
    store
        .enqueue_for_orchestrator(start("later"), Some(LEASE))
        .await
        .unwrap();
    send(&*store, start("now")).await;
    turn_of(&*store, "now").await;
    assert!(try_turn(&*store).await.is_none());
    push(&*store, activity("i", 1)).await;
    push(&*store, activity("i", 2)).await;
    let (_, token, _) = work(&*store).await;
    store.abandon_work_item(&token, Some(LEASE), false).await.unwrap();
    assert_eq!(id_of(&work(&*store).await.0), 2);
    assert!(try_work(&*store).await.is_none());
}

/// A delayed message of an instance does not hold back its other messages.
pub async fn a_delayed_message_does_not_hold_back_the_others(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    store
        .enqueue_for_orchestrator(raised("i", "later"), Some(ms(150)))
        .await
        .unwrap();
    send(&*store, raised("i", "now")).await;
    let (item, token, _) = turn_of(&*store, "i").await;
    assert_eq!(item.messages, [raised("i", "now")]);
    Ack::empty().send(&*store, &token).await.unwrap();
    let (item, ..) = store
        .fetch_orchestration_item(LEASE, LONG, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(item.messages, [raised("i", "later")]);
}

/// Due work is served in order of arrival, not of due time.
pub async fn due_things_are_served_by_arrival(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    store
        .enqueue_for_orchestrator(start("first"), Some(ms(60)))
        .await
        .unwrap();
    send(&*store, start("second")).await;
    store
        .enqueue_for_orchestrator(raised("i", "a"), Some(ms(60)))
        .await
        .unwrap();
    store
        .enqueue_for_orchestrator(raised("i", "b"), Some(ms(20)))
        .await
        .unwrap();
    send(&*store, raised("i", "c")).await;
    tokio::time::sleep(ms(120)).await;
    turn_of(&*store, "first").await;
    turn_of(&*store, "second").await;
    let (item, ..) = turn_of(&*store, "i").await;
    assert_eq!(item.messages.iter().map(data_of).collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// The order survives a restart, and what comes later stands behind.
pub async fn the_order_survives_a_restart(h: &Harness) {
    for i in 0..40 {
        send(&*h.store(), start(&format!("{}-{i}", (i * 37) % 11))).await;
        push(&*h.store(), activity("i", i)).await;
    }
    h.restart().await;
    // Processes order arrivals by their clocks, to the millisecond.
    tokio::time::sleep(ms(2)).await;
    let store = h.store();
    for i in 40..50 {
        send(&*store, start(&format!("{}-{i}", (i * 37) % 11))).await;
        push(&*store, activity("i", i)).await;
    }
    for i in 0..50 {
        turn_of(&*store, &format!("{}-{i}", (i * 37) % 11)).await;
        assert_eq!(id_of(&work(&*store).await.0), i);
    }
}

/// Fetchers at once get different things, and among them everything.
pub async fn fetchers_at_once_get_different_things(h: &Harness) {
    let store = h.store();
    for i in 0..20 {
        send(&*store, start(&format!("i{i}"))).await;
        push(&*store, activity("x", i)).await;
    }
    let fetchers: Vec<_> = (0..20)
        .map(|_| {
            let store = h.store();
            tokio::spawn(async move { (turn(&*store).await.0.instance, id_of(&work(&*store).await.0)) })
        })
        .collect();
    let (mut turns, mut works) = (HashSet::new(), HashSet::new());
    for fetcher in fetchers {
        let (instance, id) = fetcher.await.unwrap();
        assert!(turns.insert(instance), "a turn was handed out twice");
        assert!(works.insert(id), "work was handed out twice");
    }
    assert!(try_turn(&*store).await.is_none());
    assert!(try_work(&*store).await.is_none());
}

/// Senders at once lose nothing, and each one's messages stay in order.
pub async fn senders_at_once_lose_nothing(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    let senders: Vec<_> = (0..8)
        .map(|sender| {
            let store = h.store();
            tokio::spawn(async move {
                for n in 0..40 {
                    send(&*store, queued("i", &format!("{sender} {n:02}"))).await;
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    let (messages, _) = all_of(h, "i", 320, None).await;
    for sender in 0..8 {
        let own = |item: &&WorkItem| data_of(item).starts_with(&format!("{sender} "));
        let data: Vec<_> = messages.iter().filter(own).map(data_of).collect();
        assert_eq!(data, (0..40).map(|n| format!("{sender} {n:02}")).collect::<Vec<_>>());
    }
}

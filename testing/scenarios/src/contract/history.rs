//! An acknowledgement writes all of its changes or none.

use duroxide::EventKind;

use super::kit::*;
use crate::Harness;

async fn ids(h: &Harness, instance: &str) -> Vec<u64> {
    h.store()
        .read(instance)
        .await
        .unwrap()
        .iter()
        .map(|e| e.event_id)
        .collect()
}

/// An event id that is taken is refused, with gaps before it too; a free one below the highest is accepted.
pub async fn a_taken_event_id_is_refused_and_a_free_one_accepted(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn(&*store).await;
    Ack::first("i")
        .events([5, 9].map(|id| noted("i", id)))
        .send(&*store, &token)
        .await
        .unwrap();
    for (events, accepted) in [
        (vec![5], false),
        (vec![9], false),
        (vec![1], false),
        (vec![7], true),
        (vec![7], false),
        (vec![3, 100], true),
        (vec![3], false),
        (vec![2, 9], false),
        (vec![2], true),
        (vec![100], false),
        (vec![50, 50], false),
    ] {
        send(&*store, raised("i", "go")).await;
        let (_, token, _) = turn_of(&*store, "i").await;
        let ack = Ack::empty().events(events.iter().map(|id| noted("i", *id)));
        let outcome = ack.send(&*store, &token).await;
        assert_eq!(outcome.is_ok(), accepted, "{events:?}: {outcome:?}");
        if !accepted {
            Ack::empty()
                .send(&*store, &token)
                .await
                .expect("the lease outlives a refused ack");
        }
    }
    assert_eq!(ids(h, "i").await, [1, 2, 3, 5, 7, 9, 100]);
    h.restart().await;
    assert_eq!(ids(h, "i").await, [1, 2, 3, 5, 7, 9, 100]);
}

/// A refused ack leaves no trace, and its turn is still held.
pub async fn a_refused_ack_leaves_no_trace(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    push(&*store, activity("i", 8)).await;
    send(&*store, raised("i", "go")).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    let status = EventKind::CustomStatusUpdated {
        status: Some("set".to_owned()),
    };
    let bad = Ack::empty()
        .events([
            noted("i", 2),
            kv_set("i", 3, "k", "v"),
            event("i", 1, 4, status),
            noted("i", 1),
        ])
        .work([activity("i", 9)])
        .messages([start("child"), raised("i", "own")])
        .cancelled([identity("i", 8)])
        .status("Completed");
    assert!(bad.send(&*store, &token).await.is_err());
    assert_eq!(ids(h, "i").await, [1]);
    assert_eq!(store.get_kv_value("i", "k").await.unwrap(), None);
    assert_eq!(store.get_custom_status("i", 0).await.unwrap(), None);
    assert_eq!(
        id_of(&work(&*store).await.0),
        8,
        "the cancelled work must still be there"
    );
    assert!(try_work(&*store).await.is_none());
    assert!(
        try_turn(&*store).await.is_none(),
        "the turn was released, or a message was sent"
    );
    let info = h.admin(async |a| a.get_instance_info("i").await).await.unwrap();
    assert_eq!(info.status, "Running");
    Ack::empty()
        .events([noted("i", 2)])
        .send(&*store, &token)
        .await
        .unwrap();
    assert_eq!(ids(h, "i").await, [1, 2]);
}

/// An ack whose instance was deleted by force fails, and leaves nothing behind, not even a restart later.
pub async fn an_ack_after_a_forced_deletion_leaves_nothing(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    send(&*store, raised("i", "go")).await;
    push(&*store, activity("i", 8)).await;
    let (_, turn, _) = turn_of(&*store, "i").await;
    let (_, held, _) = work(&*store).await;
    h.admin(async |a| a.delete_instance("i", true).await).await.unwrap();
    let late = Ack::first("i")
        .events([kv_set("i", 2, "k", "v")])
        .work([activity("i", 9)])
        .messages([start("child")]);
    assert!(!late.send(&*store, &turn).await.unwrap_err().is_retryable());
    assert!(store.ack_work_item(&held, Some(completed("i", 8))).await.is_err());
    assert!(store.renew_work_item_lock(&held, LEASE).await.is_err());
    drop(store);
    for restarted in [false, true] {
        if restarted {
            h.restart().await;
        }
        let store = h.store();
        assert!(instances(&*store).await.is_empty());
        assert!(store.read("i").await.unwrap().is_empty());
        assert!(store.get_kv_all_values("i").await.unwrap().is_empty());
        assert!(try_work(&*store).await.is_none());
        assert!(try_turn(&*store).await.is_none());
    }
    running(&*h.store(), "i").await;
    assert_eq!(ids(h, "i").await, [1]);
}

/// The same for an instance whose very first turn was in flight.
pub async fn a_first_ack_after_deletion_and_rebirth_is_refused(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    send(&*store, raised("i", "old")).await;
    let (_, old, _) = turn_of(&*store, "i").await;
    h.admin(async |a| a.delete_instance("i", true).await).await.unwrap();
    running(&*store, "i").await;
    assert!(Ack::empty().events([noted("i", 2)]).send(&*store, &old).await.is_err());
    assert!(store.renew_orchestration_item_lock(&old, LEASE).await.is_err());
    let _ = store.abandon_orchestration_item(&old, None, false).await;
    send(&*store, raised("i", "new")).await;
    let (item, token, _) = turn_of(&*store, "i").await;
    assert_eq!(item.messages, [raised("i", "new")]);
    Ack::empty()
        .events([noted("i", 2)])
        .send(&*store, &token)
        .await
        .unwrap();
    assert_eq!(ids(h, "i").await, [1, 2]);
}

/// A turn sees the history and values of its instance as they are, and messages only once.
pub async fn a_turn_sees_what_earlier_turns_wrote(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    for n in 2..40 {
        send(&*store, raised("i", &n.to_string())).await;
        let (item, token, attempt) = turn_of(&*store, "i").await;
        assert_eq!(attempt, 1);
        assert_eq!(item.messages, [raised("i", &n.to_string())]);
        assert_eq!(
            item.history.iter().map(|e| e.event_id).collect::<Vec<_>>(),
            (1..n).collect::<Vec<_>>()
        );
        assert_eq!(item.history, store.read("i").await.unwrap());
        Ack::empty()
            .events([noted("i", n)])
            .send(&*store, &token)
            .await
            .unwrap();
    }
}

/// An ack of nothing but messages from other instances leaves the history alone.
pub async fn an_empty_ack_only_consumes(h: &Harness) {
    let store = h.store();
    ended(&*store, "i").await;
    let before = store.read("i").await.unwrap();
    send(&*store, raised("i", "late")).await;
    let (item, token, _) = turn_of(&*store, "i").await;
    assert_eq!(item.messages, [raised("i", "late")]);
    Ack::empty().send(&*store, &token).await.unwrap();
    assert!(try_turn(&*store).await.is_none());
    assert_eq!(store.read("i").await.unwrap(), before);
    let info = h.admin(async |a| a.get_instance_info("i").await).await.unwrap();
    assert_eq!(
        (info.status.as_str(), info.output.as_deref()),
        ("Completed", Some("output of Completed"))
    );
}

//! Tokens and leases: when they live, when they are dead.

use duroxide::providers::TagFilter;

use super::kit::*;
use crate::{Harness, awkward};

const SHORT: u64 = 60;

/// After its lease a turn's token is dead, even if no other worker wanted the turn: nothing of the ack is stored.
pub async fn an_expired_turn_token_is_dead(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = store
        .fetch_orchestration_item(ms(SHORT), NOW, None)
        .await
        .unwrap()
        .unwrap();
    tokio::time::sleep(ms(SHORT + 40)).await;
    assert!(
        !store
            .renew_orchestration_item_lock(&token, LEASE)
            .await
            .unwrap_err()
            .is_retryable()
    );
    let late = Ack::first("i").work([activity("i", 2)]).messages([raised("i", "x")]);
    assert!(!late.send(&*store, &token).await.unwrap_err().is_retryable());
    assert!(store.read("i").await.unwrap().is_empty());
    assert!(try_work(&*store).await.is_none());
    let (item, _, attempt) = turn_of(&*store, "i").await;
    assert_eq!((item.messages, attempt), (vec![start("i")], 2));
}

/// After its lease a work token is dead, even if no other worker wanted the work.
pub async fn an_expired_work_token_is_dead(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    push(&*store, activity("i", 2)).await;
    let fetched = store
        .fetch_work_item(ms(SHORT), NOW, None, &TagFilter::DefaultOnly)
        .await
        .unwrap();
    let (_, token, _) = fetched.unwrap();
    tokio::time::sleep(ms(SHORT + 40)).await;
    assert!(
        !store
            .renew_work_item_lock(&token, LEASE)
            .await
            .unwrap_err()
            .is_retryable()
    );
    assert!(
        !store
            .ack_work_item(&token, Some(completed("i", 2)))
            .await
            .unwrap_err()
            .is_retryable()
    );
    assert!(try_turn(&*store).await.is_none(), "a dead token completed its work");
    assert_eq!(work(&*store).await.2, 2);
}

/// A turn that another worker holds by now cannot be touched with the old token.
pub async fn a_turn_taken_over_is_out_of_reach(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, old, _) = store
        .fetch_orchestration_item(ms(SHORT), NOW, None)
        .await
        .unwrap()
        .unwrap();
    tokio::time::sleep(ms(SHORT + 40)).await;
    let (_, new, _) = turn_of(&*store, "i").await;
    assert_ne!(old, new);
    assert!(
        Ack::first("i")
            .work([activity("i", 9)])
            .send(&*store, &old)
            .await
            .is_err()
    );
    assert!(store.renew_orchestration_item_lock(&old, LEASE).await.is_err());
    let _ = store.abandon_orchestration_item(&old, None, true).await;
    send(&*store, raised("i", "later")).await;
    assert!(
        try_turn(&*store).await.is_none(),
        "the old token released the new owner's lease"
    );
    Ack::first("i")
        .work([activity("i", 2)])
        .send(&*store, &new)
        .await
        .unwrap();
    assert_eq!(id_of(&work(&*store).await.0), 2);
    assert!(try_work(&*store).await.is_none());
}

/// Work that another worker holds by now cannot be touched with the old token.
pub async fn work_taken_over_is_out_of_reach(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    push(&*store, activity("i", 2)).await;
    let fetched = store
        .fetch_work_item(ms(SHORT), NOW, None, &TagFilter::DefaultOnly)
        .await
        .unwrap();
    let old = fetched.unwrap().1;
    tokio::time::sleep(ms(SHORT + 40)).await;
    let (_, new, attempt) = work(&*store).await;
    assert_eq!(attempt, 2);
    assert!(store.ack_work_item(&old, Some(completed("i", 2))).await.is_err());
    assert!(store.renew_work_item_lock(&old, LEASE).await.is_err());
    let _ = store.abandon_work_item(&old, None, true).await;
    assert!(
        try_work(&*store).await.is_none(),
        "the old token released the new owner's lease"
    );
    store.ack_work_item(&new, Some(completed("i", 2))).await.unwrap();
    assert_eq!(turn_of(&*store, "i").await.0.messages, [completed("i", 2)]);
}

/// An expired but untaken turn may still be given back, and is there again.
pub async fn an_expired_turn_may_be_given_back(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = store
        .fetch_orchestration_item(ms(SHORT), NOW, None)
        .await
        .unwrap()
        .unwrap();
    tokio::time::sleep(ms(SHORT + 40)).await;
    store.abandon_orchestration_item(&token, None, false).await.unwrap();
    assert_eq!(turn_of(&*store, "i").await.2, 2);
}

/// A lease begins when the work is handed out, not when the waiting began.
pub async fn a_lease_begins_at_the_hand_out(h: &Harness) {
    let store = h.store();
    let waiter = h.store();
    let wait = tokio::spawn(async move {
        let turn = waiter
            .fetch_orchestration_item(ms(400), LONG, None)
            .await
            .unwrap()
            .unwrap();
        Ack::first("i").work([activity("i", 2)]).send(&*waiter, &turn.1).await
    });
    let waiter = h.store();
    let work = tokio::spawn(async move {
        let fetched = waiter
            .fetch_work_item(ms(400), LONG, None, &TagFilter::DefaultOnly)
            .await
            .unwrap();
        waiter.ack_work_item(&fetched.unwrap().1, None).await
    });
    tokio::time::sleep(ms(600)).await;
    send(&*store, start("i")).await;
    wait.await.unwrap().expect("the turn was handed out with a dead lease");
    work.await.unwrap().expect("the work was handed out with a dead lease");
}

/// A renewed lease counts from the renewal, for the time that the renewal gives.
pub async fn a_renewed_lease_lives_from_the_renewal(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    push(&*store, activity("x", 1)).await;
    let (_, turn, _) = store
        .fetch_orchestration_item(ms(300), NOW, None)
        .await
        .unwrap()
        .unwrap();
    let fetched = store
        .fetch_work_item(ms(300), NOW, None, &TagFilter::DefaultOnly)
        .await
        .unwrap();
    let work = fetched.unwrap().1;
    store.renew_orchestration_item_lock(&turn, LEASE).await.unwrap();
    store.renew_work_item_lock(&work, LEASE).await.unwrap();
    tokio::time::sleep(ms(400)).await;
    assert!(try_turn(&*store).await.is_none());
    assert!(try_work(&*store).await.is_none());
    store.renew_orchestration_item_lock(&turn, ms(SHORT)).await.unwrap();
    store.renew_work_item_lock(&work, ms(SHORT)).await.unwrap();
    tokio::time::sleep(ms(SHORT + 40)).await;
    assert!(
        Ack::first("i").send(&*store, &turn).await.is_err(),
        "a renewal may also shorten"
    );
    assert!(
        store.ack_work_item(&work, None).await.is_err(),
        "a renewal may also shorten"
    );
}

/// A token works once.
pub async fn a_token_works_once(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn(&*store).await;
    Ack::first("i")
        .work([activity("i", 2)])
        .send(&*store, &token)
        .await
        .unwrap();
    assert!(
        Ack::empty()
            .work([activity("i", 3)])
            .send(&*store, &token)
            .await
            .is_err()
    );
    assert!(store.abandon_orchestration_item(&token, None, false).await.is_err());
    assert!(store.renew_orchestration_item_lock(&token, LEASE).await.is_err());
    let (_, token, _) = work(&*store).await;
    store.ack_work_item(&token, Some(completed("i", 2))).await.unwrap();
    assert!(
        !store
            .ack_work_item(&token, Some(completed("i", 2)))
            .await
            .unwrap_err()
            .is_retryable()
    );
    assert!(store.renew_work_item_lock(&token, LEASE).await.is_err());
    assert!(store.abandon_work_item(&token, None, false).await.is_err());
    assert!(try_work(&*store).await.is_none());
    assert_eq!(turn(&*store).await.0.messages, [completed("i", 2)]);
}

/// A token that was never given out is an error everywhere, whatever it looks like.
pub async fn an_invented_token_is_an_error(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    push(&*store, activity("i", 1)).await;
    let (_, turn, _) = turn(&*store).await;
    let (_, work, _) = work(&*store).await;
    let mut invented = awkward::keys();
    invented.extend([
        String::new(),
        format!("{turn}x"),
        format!("{work}0"),
        turn[..turn.len() - 1].to_owned(),
    ]);
    for token in &invented {
        assert!(Ack::empty().send(&*store, token).await.is_err(), "{token:?}");
        assert!(
            store.renew_orchestration_item_lock(token, LEASE).await.is_err(),
            "{token:?}"
        );
        assert!(
            store.abandon_orchestration_item(token, None, false).await.is_err(),
            "{token:?}"
        );
        assert!(store.ack_work_item(token, None).await.is_err(), "{token:?}");
        assert!(store.renew_work_item_lock(token, LEASE).await.is_err(), "{token:?}");
        let error = store.abandon_work_item(token, None, false).await.unwrap_err();
        assert!(!error.is_retryable(), "{token:?}");
    }
    assert!(
        Ack::empty().send(&*store, &work).await.is_err(),
        "a work token acknowledged a turn"
    );
    assert!(
        store.ack_work_item(&turn, None).await.is_err(),
        "a turn token acknowledged work"
    );
    Ack::first("i").send(&*store, &turn).await.unwrap();
    store.ack_work_item(&work, None).await.unwrap();
}

/// Of two acknowledgements at once with one token, one counts.
pub async fn of_two_acks_at_once_one_counts(h: &Harness) {
    let store = h.store();
    for round in 0..20 {
        let instance = format!("i{round}");
        send(&*store, start(&instance)).await;
        let (_, token, _) = turn(&*store).await;
        let one = Ack::first(&instance).work([activity(&instance, 2)]);
        let (a, b) = tokio::join!(one.clone().send(&*store, &token), one.send(&*store, &token));
        assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
        let (_, token, _) = work(&*store).await;
        assert!(try_work(&*store).await.is_none(), "the work was created twice");
        let done = || store.ack_work_item(&token, Some(completed(&instance, 2)));
        let (a, b) = tokio::join!(done(), done());
        assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
        let (item, token, _) = turn(&*store).await;
        assert_eq!(item.messages, [completed(&instance, 2)]);
        Ack::empty().status("Completed").send(&*store, &token).await.unwrap();
    }
}

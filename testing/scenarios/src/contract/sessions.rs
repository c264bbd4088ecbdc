//! Sessions beyond one instance, and slots without room for them.

use std::time::Instant;

use duroxide::providers::{SessionFetchConfig, TagFilter};

use super::kit::*;
use crate::Harness;

const UNTAGGED: TagFilter = TagFilter::DefaultOnly;

/// A session belongs to one owner, whichever instances use it.
pub async fn a_session_is_global_across_instances(h: &Harness) {
    let store = h.store();
    for (instance, id) in [("a", 1), ("b", 2), ("c", 3)] {
        push(&*store, routed(instance, id, Some("s"), None)).await;
    }
    let (mine, other) = (owner("mine"), owner("other"));
    let first = store
        .fetch_work_item(LEASE, NOW, Some(&mine), &UNTAGGED)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(id_of(&first.0), 1);
    assert!(
        store
            .fetch_work_item(LEASE, NOW, Some(&other), &UNTAGGED)
            .await
            .unwrap()
            .is_none()
    );
    for id in [2, 3] {
        let next = store
            .fetch_work_item(LEASE, NOW, Some(&mine), &UNTAGGED)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(id_of(&next.0), id);
    }
    assert_eq!(
        store.renew_session_lock(&["mine"], LEASE, LEASE).await.unwrap(),
        1,
        "one session, counted once"
    );
}

/// Work of a foreign session does not block other work.
pub async fn a_foreign_session_blocks_no_other(h: &Harness) {
    let store = h.store();
    push(&*store, routed("i", 1, Some("s"), None)).await;
    store
        .fetch_work_item(LEASE, NOW, Some(&owner("mine")), &UNTAGGED)
        .await
        .unwrap()
        .unwrap();
    for id in 2..50 {
        push(&*store, routed("i", id, Some("s"), None)).await;
    }
    push(&*store, routed("i", 50, Some("t"), None)).await;
    push(&*store, activity("i", 51)).await;
    let other = owner("other");
    for id in [50, 51] {
        let next = store
            .fetch_work_item(LEASE, NOW, Some(&other), &UNTAGGED)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(id_of(&next.0), id);
    }
    assert_eq!(store.fetch_work_item(LEASE, NOW, None, &UNTAGGED).await.unwrap(), None);
}

/// A slot that waits without sessions hides no session work from one that takes sessions.
pub async fn a_parked_slot_hides_no_session_work(h: &Harness) {
    let store = h.store();
    let mut parked = Vec::new();
    for _ in 0..3 {
        let store = h.store();
        parked.push(tokio::spawn(async move {
            store.fetch_work_item(LEASE, LONG, None, &UNTAGGED).await
        }));
    }
    tokio::time::sleep(ms(30)).await;
    push(&*store, routed("i", 1, Some("s"), None)).await;
    let mine = owner("mine");
    let begun = Instant::now();
    let (item, ..) = store
        .fetch_work_item(LEASE, LONG, Some(&mine), &UNTAGGED)
        .await
        .unwrap()
        .expect("session work");
    assert_eq!(id_of(&item), 1);
    assert!(
        begun.elapsed() < SOON,
        "the session work was hidden for {:?}",
        begun.elapsed()
    );
    for waiter in parked {
        waiter.abort();
        if let Ok(fetched) = waiter.await {
            assert_eq!(
                fetched.unwrap(),
                None,
                "session work was handed to a slot without sessions"
            );
        }
    }
}

/// A fetch without sessions returns early, so that its slot can fetch again with sessions.
pub async fn a_fetch_without_sessions_comes_back_early(h: &Harness) {
    let store = h.store();
    let begun = Instant::now();
    assert_eq!(store.fetch_work_item(LEASE, LONG, None, &UNTAGGED).await.unwrap(), None);
    assert!(
        begun.elapsed() < ms(5_000),
        "the slot was parked for {:?}",
        begun.elapsed()
    );
    assert!(begun.elapsed() >= ms(500), "the fetch did not wait at all");
}

/// The end of the item's lease gives it back to the session's owner, not to others.
pub async fn an_expired_item_stays_with_its_session(h: &Harness) {
    let store = h.store();
    push(&*store, routed("i", 1, Some("s"), None)).await;
    let mine = owner("mine");
    store
        .fetch_work_item(ms(50), NOW, Some(&mine), &UNTAGGED)
        .await
        .unwrap()
        .unwrap();
    tokio::time::sleep(ms(90)).await;
    assert!(
        store
            .fetch_work_item(LEASE, NOW, Some(&owner("other")), &UNTAGGED)
            .await
            .unwrap()
            .is_none()
    );
    let (.., attempt) = store
        .fetch_work_item(LEASE, NOW, Some(&mine), &UNTAGGED)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(attempt, 2);
}

/// A session whose lease has ended goes to the first worker that fetches, with all of its waiting items.
pub async fn an_expired_session_moves_as_a_whole(h: &Harness) {
    let store = h.store();
    for id in 1..=3 {
        push(&*store, routed(&format!("i{id}"), id, Some("s"), None)).await;
    }
    let brief = SessionFetchConfig {
        owner_id: "first".to_owned(),
        lock_timeout: ms(50),
    };
    let (_, token, _) = store
        .fetch_work_item(LEASE, NOW, Some(&brief), &UNTAGGED)
        .await
        .unwrap()
        .unwrap();
    tokio::time::sleep(ms(90)).await;
    let heir = owner("heir");
    for id in [2, 3] {
        let next = store
            .fetch_work_item(LEASE, NOW, Some(&heir), &UNTAGGED)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(id_of(&next.0), id);
    }
    push(&*store, routed("i4", 4, Some("s"), None)).await;
    assert!(
        store
            .fetch_work_item(LEASE, NOW, Some(&brief), &UNTAGGED)
            .await
            .unwrap()
            .is_none()
    );
    store
        .ack_work_item(&token, None)
        .await
        .expect("the first item's own lease is alive");
}

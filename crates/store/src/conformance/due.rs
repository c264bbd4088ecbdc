//! Queues.

use super::StoreFactory;
use super::helpers::*;
use crate::{DueQuery, Lane, Op, Order, Sharing, Slot, SlotSet, Store, Topics};
use std::sync::Arc;

/// Asserts what is ready and, where the store is exclusive, when the next record is due.
async fn expect(store: &Arc<dyn Store>, until_ms: u64, ready: &[&str], next: Option<u64>) {
    let (ids, next_due_ms) = due_at(&**store, until_ms).await;
    assert_eq!(ids, ready, "at {until_ms}");
    if store.sharing() == Sharing::Exclusive || next_due_ms.is_some() {
        assert_eq!(next_due_ms, next, "at {until_ms}");
    }
}

/// Not by due time, not by key, not by the order of writing.
pub async fn records_come_in_order_of_arrival(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(
        &*store,
        [
            queued("p", "third", 30, 1),
            queued("q", "first", 10, 3),
            queued("a", "second", 20, 2),
        ],
    )
    .await;
    expect(&store, 5, &["first", "second", "third"], None).await;
    let page = due(&*store, &DueQuery::new(&WORK, 5, 10)).await;
    assert_eq!(page.records[0].body, "first", "records come with their bodies");
    assert_eq!(page.records[0].place, Some(place(None, 10, 3)));
}

/// Ready from the due time on, that moment included.
pub async fn hidden_records_wait_for_their_time(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(
        &*store,
        [
            queued("p", "later", 1, 200),
            queued("p", "soon", 2, 100),
            queued("p", "now", 3, 0),
        ],
    )
    .await;
    expect(&store, 0, &["now"], Some(100)).await;
    expect(&store, 99, &["now"], Some(100)).await;
    expect(&store, 100, &["soon", "now"], Some(200)).await;
    expect(&store, 200, &["later", "soon", "now"], None).await;
}

/// Clocks differ, and are set back.
pub async fn time_may_be_asked_for_in_any_order(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, [queued("p", "a", 1, 100), queued("p", "b", 2, 50)]).await;
    for _ in 0..2 {
        expect(&store, 100, &["a", "b"], None).await;
        expect(&store, 60, &["b"], Some(100)).await;
        expect(&store, 10, &[], Some(50)).await;
    }
}

/// `u64::MAX` also matches records that are not due.
pub async fn the_end_of_time_takes_everything(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, [queued("p", "a", 1, u64::MAX / 2), queued("p", "b", 2, 0)]).await;
    expect(&store, 10, &["b"], Some(u64::MAX / 2)).await;
    expect(&store, u64::MAX, &["a", "b"], None).await;
    expect(&store, 10, &["b"], Some(u64::MAX / 2)).await;
}

/// All topics, the default one, or those that were named.
pub async fn topics_are_chosen(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for (id, topic, order, due_ms) in [
        ("none", None, 1, 0),
        ("a", Some("a"), 2, 0),
        ("b", Some("b"), 3, 0),
        ("A", Some("A"), 4, 70),
    ] {
        put(&*store, draft("p", id, "").placed(place(topic, order, due_ms))).await;
    }
    let these = |names: &[&str], default| Topics::These {
        topics: names.iter().map(|name| Arc::from(*name)).collect(),
        default,
    };
    for (topics, expected, next) in [
        (Topics::All, vec!["none", "a", "b"], Some(70)),
        (Topics::Default, vec!["none"], None),
        (these(&["a"], false), vec!["a"], None),
        (these(&["b", "a"], true), vec!["none", "a", "b"], None),
        (these(&["A"], false), vec![], Some(70)),
        (these(&[], true), vec!["none"], None),
        (these(&["unknown"], false), vec![], None),
    ] {
        let mut query = DueQuery::new(&WORK, 50, 10);
        query.topics = topics.clone();
        let page = due(&*store, &query).await;
        assert_eq!(ids(&page.records), expected, "{topics:?}");
        if store.sharing() == Sharing::Exclusive {
            assert_eq!(page.next_due_ms, next, "{topics:?}");
        }
    }
}

/// The slots of two processes that share the work hold everything, and nothing twice.
pub async fn slots_are_chosen(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for n in 0..40 {
        put(&*store, queued(&format!("p{n}"), &format!("{n:02}"), n, 0)).await;
    }
    let half = (0..128).fold(SlotSet::none(), |set, n| set.with(Slot(n)));
    let other = (128..=255).fold(SlotSet::none(), |set, n| set.with(Slot(n)));
    let mut seen = Vec::new();
    for slots in [half, other, SlotSet::none()] {
        let mut query = DueQuery::new(&WORK, 0, 100);
        query.slots = slots;
        for record in due(&*store, &query).await.records {
            assert!(slots.contains(Slot::of(&record.key.partition)));
            seen.push(record.key.id.as_str().to_owned());
        }
    }
    seen.sort();
    assert_eq!(seen, (0..40).map(|n| format!("{n:02}")).collect::<Vec<_>>());
}

/// A reader that cannot use the first records pages past them.
pub async fn pages_go_on_after_an_order(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for n in 0..10 {
        let topic = [None, Some("a"), Some("b")][n as usize % 3];
        put(&*store, draft("p", &n.to_string(), "").placed(place(topic, n, 0))).await;
    }
    let mut query = DueQuery::new(&WORK, 0, 4);
    let mut seen = Vec::new();
    loop {
        let page = due(&*store, &query).await;
        query.after = page.end();
        seen.extend(page.records.into_iter().map(|record| record.key.id.as_str().to_owned()));
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, (0..10).map(|n: u32| n.to_string()).collect::<Vec<_>>());
}

/// `more` counts matching, ready records only.
pub async fn more_says_that_the_limit_left_something_out(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(
        &*store,
        [
            queued("p", "a", 1, 0),
            queued("p", "b", 2, 0),
            queued("p", "hidden", 3, 90),
        ],
    )
    .await;
    for (limit, count, more) in [(1, 1, true), (2, 2, false), (3, 2, false)] {
        let page = due(&*store, &DueQuery::new(&WORK, 0, limit)).await;
        assert_eq!((page.records.len(), page.more), (count, more), "limit {limit}");
    }
}

/// A claim is a rewrite with a later due time; an abandoned record comes back where it stood.
pub async fn rewriting_keeps_the_place_and_may_hide_it(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put(&*store, queued("p", "second", 2, 0)).await;
    let version = put(&*store, queued("p", "first", 1, 0)).await;
    let claimed = one(&*store, Op::Replace(queued("p", "first", 1, 500), version))
        .await
        .unwrap();
    expect(&store, 100, &["second"], Some(500)).await;
    one(&*store, Op::Replace(queued("p", "first", 1, 0), claimed.unwrap()))
        .await
        .unwrap();
    expect(&store, 100, &["first", "second"], None).await;
}

/// Deleted, or written without a place: gone from the queue.
pub async fn a_record_leaves_the_queue_when_it_is_deleted_or_loses_its_place(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(
        &*store,
        [queued("p", "a", 1, 0), queued("p", "b", 2, 0), queued("p", "c", 3, 60)],
    )
    .await;
    remove(&*store, key("p", "a")).await;
    put(&*store, draft("p", "b", "no longer queued")).await;
    expect(&store, 0, &[], Some(60)).await;
    remove(&*store, key("p", "c")).await;
    expect(&store, u64::MAX, &[], None).await;
    assert_eq!(all_ids(&*store, "p").await, ["b"]);
    put(&*store, queued("p", "b", 9, 0)).await;
    expect(&store, 0, &["b"], None).await;
}

/// A record stands in one lane, and may change to another.
pub async fn lanes_do_not_mix(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let other = Lane::new("timers");
    put_all(&*store, [queued("p", "a", 1, 0), queued("p", "b", 2, 0)]).await;
    let mut moved = place(None, 2, 0);
    moved.lane = other.clone();
    put(&*store, draft("p", "b", "").placed(moved)).await;
    expect(&store, 0, &["a"], None).await;
    let page = due(&*store, &DueQuery::new(&other, 0, 10)).await;
    assert_eq!(ids(&page.records), ["b"]);
    assert!(
        due(&*store, &DueQuery::new(&Lane::new("unknown"), 0, 10))
            .await
            .records
            .is_empty()
    );
}

/// What stood in the queue stands there after a restart, in the same order, and what had left stays gone.
pub async fn the_queue_survives_reopening(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for n in 0..30_u64 {
        put(
            &*store,
            queued(
                &format!("p{n}"),
                &format!("{n:02}"),
                100 - n,
                if n % 5 == 0 { 1000 + n } else { 0 },
            ),
        )
        .await;
    }
    remove(&*store, key("p29", "29")).await;
    put(&*store, draft("p28", "28", "")).await;
    let before = due(&*store, &DueQuery::new(&WORK, 10, 100)).await;
    let store = factory.reopen(store).await;
    let after = due(&*store, &DueQuery::new(&WORK, 10, 100)).await;
    assert_eq!(before, after);
    assert_eq!(after.records.len(), 22);
    let mut query = DueQuery::new(&WORK, 10, 100);
    query.after = Some(Order(90));
    assert!(
        due(&*store, &query)
            .await
            .records
            .iter()
            .all(|record| record.place.as_ref().unwrap().order > Order(90))
    );
}

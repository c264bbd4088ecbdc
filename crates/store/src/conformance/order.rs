//! Ordered commits: accepted and with a fixed place before they are durable.

use super::StoreFactory;
use super::helpers::*;
use crate::{
    Commit, Committed, ConflictReason::*, Counter, DueQuery, Error, ListFilter, OnDurable, Op, Refused, Result,
    Sharing, Store, Version,
};
use futures::FutureExt;
use futures::future::join_all;
use std::sync::Arc;
use tokio::sync::watch;

const COUNTER: Counter = Counter::new("ordered");

/// The calls that were made, in their order, each with the number that its commit has in the test.
#[derive(Clone, Default)]
struct Calls(watch::Sender<Vec<(usize, Result<Committed>)>>);

impl Calls {
    /// The call of a commit.
    fn of(&self, number: usize) -> OnDurable {
        let calls = self.0.clone();
        Box::new(move |outcome| calls.send_modify(|made| made.push((number, outcome))))
    }

    /// The numbers of the commits whose calls were made.
    fn made(&self) -> Vec<usize> {
        self.0.borrow().iter().map(|(number, _)| *number).collect()
    }

    /// Waits for the call of a commit, and returns what it was called with.
    async fn call(&self, number: usize) -> Committed {
        let mut made = self.0.subscribe();
        let is_made = |made: &Vec<(usize, _)>| made.iter().any(|(at, _)| *at == number);
        let made = made.wait_for(is_made).await.unwrap();
        let (_, outcome) = made.iter().find(|(at, _)| *at == number).unwrap();
        outcome.clone().unwrap()
    }
}

/// Orders one operation.
async fn order(store: &dyn Store, op: Op, on_durable: OnDurable) -> std::result::Result<(), Refused> {
    store.order(Commit::new(vec![op]), on_durable).await
}

/// Orders one operation that must be refused, and returns why.
async fn refusal(store: &dyn Store, op: Op, calls: &Calls) -> Error {
    order(store, op, calls.of(usize::MAX)).await.unwrap_err().error
}

/// One version for each operation, as `commit` returns them.
pub async fn the_call_is_made_once_with_the_versions_of_the_commit(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    let old = put(&*store, draft("p", "old", "1")).await;
    let ops = vec![
        Op::Create(draft("p", "new", "1")),
        Op::Replace(draft("p", "old", "2"), old),
        Op::Remove(key("p", "nothing")),
        Op::Put(queued("p", "job", 1, 0)),
        Op::Absent(key("p", "absent")),
    ];
    store.order(Commit::new(ops), calls.of(1)).await.unwrap();
    let committed = calls.call(1).await;
    let mut expected = Vec::new();
    for (id, is_written) in [
        ("new", true),
        ("old", true),
        ("nothing", false),
        ("job", true),
        ("absent", false),
    ] {
        let found = get(&*store, &key("p", id)).await.map(|record| record.version);
        assert_eq!(found.is_some(), is_written, "{id}");
        expected.push(found);
    }
    assert_eq!(committed, Committed::of(expected));
    put(&*store, draft("p", "later", "")).await;
    store.close().await.unwrap();
    assert_eq!(calls.made(), [1], "once, whatever happens later");
}

/// Those of one caller, with and without commits in between.
pub async fn calls_are_made_in_the_order_of_the_commits(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    for number in 0..60 {
        let op = Op::Put(draft("p", &format!("{}", number % 7), &number.to_string()));
        order(&*store, op, calls.of(number)).await.unwrap();
        if number % 9 == 0 {
            put(&*store, draft("p", "other", "")).await;
        }
    }
    put(&*store, draft("p", "end", "")).await;
    assert_eq!(calls.made(), (0..60).collect::<Vec<_>>());
}

/// Callers on several threads write one record: the last call is of the write that stays. Where the store is shared, such
/// commits have no order, and each has its call all the same.
pub async fn calls_of_commits_that_race_are_made_in_their_order(factory: &dyn StoreFactory) {
    const RACERS: usize = 8;
    const EACH: usize = 20;
    let (store, calls) = (factory.create().await, Calls::default());
    let racers = (0..RACERS).map(|racer| {
        let (store, calls) = (Arc::clone(&store), calls.clone());
        tokio::spawn(async move {
            for number in racer * EACH..(racer + 1) * EACH {
                let op = Op::Put(draft("p", "a", &number.to_string()));
                order(&*store, op, calls.of(number)).await.unwrap();
            }
        })
    });
    let racers: Vec<_> = racers.collect();
    join_all(racers).await.into_iter().for_each(|racer| racer.unwrap());
    put(&*store, draft("p", "end", "")).await;
    let mut numbers = calls.made();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..RACERS * EACH).collect::<Vec<_>>());
    if store.sharing() == Sharing::Shared {
        return;
    }
    let made = calls.0.borrow().clone();
    let versions: Vec<Version> = made
        .into_iter()
        .map(|(_, outcome)| outcome.unwrap().version(0).unwrap().clone())
        .collect();
    let found = get(&*store, &key("p", "a")).await.unwrap();
    assert_eq!(versions.last(), Some(&found.version));
    for pair in versions.windows(2) {
        assert!(!pair[1].is_older_than(&pair[0]), "{pair:?}");
    }
}

/// Whichever thread made the earlier commit, and however long its call takes.
pub async fn a_commit_returns_after_the_calls_of_the_commits_before_it(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    for number in 0..20 {
        let id = number.to_string();
        let call = calls.of(number);
        let slow: OnDurable = Box::new(move |outcome| {
            (0..1_000).for_each(|_| std::thread::yield_now());
            call(outcome);
        });
        let ordering = tokio::spawn({
            let (store, op) = (Arc::clone(&store), Op::Create(draft("p", &id, "1")));
            async move { order(&*store, op, slow).await.unwrap() }
        });
        let version = loop {
            match get(&*store, &key("p", &id)).await {
                Some(record) => break record.version,
                None => tokio::task::yield_now().await,
            }
        };
        one(&*store, Op::Delete(key("p", &id), version)).await.unwrap();
        if store.sharing() == Sharing::Exclusive {
            assert!(calls.made().contains(&number), "the call of commit {number}");
        }
        ordering.await.unwrap();
        calls.call(number).await;
    }
}

/// By key, in scans, in queues, in listings and in totals.
pub async fn when_its_call_is_made_a_commit_can_be_read(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    let seen = watch::Sender::new(None);
    let call = calls.of(1);
    let on_durable: OnDurable = Box::new({
        let (store, seen) = (Arc::clone(&store), seen.clone());
        move |outcome| {
            // A read that must wait for a reply cannot be made in a call.
            let record = store.get(&key("p", "job")).now_or_never();
            let work = store.due(&DueQuery::new(&WORK, 0, 10)).now_or_never();
            seen.send_replace(record.zip(work));
            drop(store);
            call(outcome);
        }
    });
    let ops = vec![Op::Create(queued("p", "job", 1, 0)), Op::Create(listed("p", "new"))];
    let commit = Commit::new(ops).count(COUNTER, 3);
    store.order(commit, on_durable).await.unwrap();
    calls.call(1).await;
    if let Some((record, work)) = seen.send_replace(None) {
        assert!(record.unwrap().is_some(), "a read in the call");
        assert_eq!(ids(&work.unwrap().records), ["job"], "a query in the call");
    }
    assert_eq!(body(&*store, &key("p", "job")).await.as_deref(), Some("job"));
    assert_eq!(all_ids(&*store, "p").await, ["head", "job"]);
    assert_eq!(due_at(&*store, 0).await.0, ["job"]);
    assert_eq!(found(&*store, &ListFilter::kind("instance"), 10).await, ["p"]);
    assert_eq!(store.counters().await.unwrap(), [(COUNTER, 3)]);
}

/// A call finds no lock of the store held, so that it may begin another commit.
pub async fn a_call_may_order_the_next_commit(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    let (first, second) = (calls.of(1), calls.of(2));
    let on_durable: OnDurable = Box::new({
        let store = Arc::clone(&store);
        move |outcome| {
            // One poll; the rest does not depend on the future.
            drop(order(&*store, Op::Create(draft("p", "b", "2")), second).now_or_never());
            drop(store);
            first(outcome);
        }
    });
    order(&*store, Op::Create(draft("p", "a", "1")), on_durable)
        .await
        .unwrap();
    calls.call(2).await;
    assert_eq!(all_ids(&*store, "p").await, ["a", "b"]);
}

/// Where the store can be held: it is ordered, and neither read nor counted, and its call is not made.
pub async fn nothing_is_seen_of_an_ordered_commit_before_it_is_durable(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    let old = put(&*store, draft("p", "old", "1")).await;
    let Some(held) = factory.hold() else {
        return;
    };
    let ops = vec![
        Op::Create(queued("p", "job", 1, 0)),
        Op::Create(listed("p", "new")),
        Op::Delete(key("p", "old"), old.clone()),
    ];
    let commit = Commit::new(ops).count(COUNTER, 3);
    store.order(commit, calls.of(1)).await.unwrap();
    assert_eq!(get(&*store, &key("p", "job")).await, None);
    assert_eq!(get(&*store, &key("p", "old")).await.unwrap().version, old);
    assert_eq!(all_ids(&*store, "p").await, ["old"]);
    assert!(due_at(&*store, 0).await.0.is_empty());
    assert!(found(&*store, &ListFilter::kind("instance"), 10).await.is_empty());
    assert!(store.counters().await.unwrap().is_empty());
    // Later commits build on it all the same.
    let create = Op::Create(queued("p", "job", 2, 0));
    assert_eq!(refusal(&*store, create, &calls).await, conflict(0, Exists));
    let replace = Op::Replace(draft("p", "old", "2"), old);
    assert_eq!(refusal(&*store, replace, &calls).await, conflict(0, Missing));
    order(&*store, Op::Create(draft("p", "old", "3")), calls.of(2))
        .await
        .unwrap();
    assert!(calls.made().is_empty());
    drop(held);
    calls.call(2).await;
    assert_eq!(calls.made(), [1, 2]);
    assert_eq!(due_at(&*store, 0).await.0, ["job"]);
    assert_eq!(body(&*store, &key("p", "old")).await.as_deref(), Some("3"));
}

/// Its conditions are checked against everything that was ordered before it.
pub async fn a_later_commit_builds_on_an_ordered_one(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    let create = |body: &str| Op::Create(draft("p", "a", body));
    order(&*store, create("1"), calls.of(1)).await.unwrap();
    assert_eq!(refusal(&*store, create("2"), &calls).await, conflict(0, Exists));
    assert_eq!(one(&*store, create("2")).await, Err(conflict(0, Exists)));
    // Its version is known when its call is made.
    let first = calls.call(1).await.version(0).unwrap().clone();
    let replace = Op::Replace(draft("p", "a", "2"), first.clone());
    order(&*store, replace.clone(), calls.of(2)).await.unwrap();
    assert_eq!(refusal(&*store, replace, &calls).await, conflict(0, Changed));
    let delete = Op::Delete(key("p", "a"), first);
    assert_eq!(refusal(&*store, delete, &calls).await, conflict(0, Changed));
    order(&*store, Op::Remove(key("p", "a")), calls.of(3)).await.unwrap();
    order(&*store, create("3"), calls.of(4)).await.unwrap();
    put(&*store, draft("p", "end", "")).await;
    assert_eq!(calls.made(), [1, 2, 3, 4], "no call for a refused commit");
    assert_eq!(body(&*store, &key("p", "a")).await.as_deref(), Some("3"));
}

/// The very call that was given, for another try; until then it is not made.
pub async fn a_refused_commit_gives_its_call_back(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    put(&*store, draft("p", "a", "1")).await;
    let twice = vec![Op::Put(draft("p", "b", "1")), Op::Remove(key("p", "b"))];
    let refused = store.order(Commit::new(twice), calls.of(1)).await.unwrap_err();
    assert!(matches!(refused.error, Error::Invalid(_)), "{refused:?}");
    let op = Op::Create(draft("p", "a", "2"));
    let refused = order(&*store, op, refused.on_durable).await.unwrap_err();
    assert_eq!(refused.error, conflict(0, Exists));
    put(&*store, draft("p", "end", "")).await;
    assert!(calls.made().is_empty());
    assert_eq!(all_ids(&*store, "p").await, ["a", "end"]);
    let op = Op::Put(draft("p", "a", "2"));
    order(&*store, op, refused.on_durable).await.unwrap();
    let committed = calls.call(1).await;
    let found = get(&*store, &key("p", "a")).await.unwrap();
    assert_eq!(committed.version(0), Some(&found.version));
}

/// It gives the call back, too.
pub async fn a_closed_store_orders_nothing(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    store.close().await.unwrap();
    let refused = order(&*store, Op::Put(draft("p", "a", "1")), calls.of(1))
        .await
        .unwrap_err();
    assert!(matches!(refused.error, Error::Closed(_)), "{refused:?}");
    let store = factory.reopen(store).await;
    assert!(all_ids(&*store, "p").await.is_empty() && calls.made().is_empty());
}

/// Nothing that was ordered is lost by closing, and no call is left out.
pub async fn closing_makes_ordered_commits_durable_and_their_calls(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    for number in 0..50 {
        let op = Op::Create(draft("p", &format!("{number:02}"), ""));
        order(&*store, op, calls.of(number)).await.unwrap();
    }
    store.close().await.unwrap();
    assert_eq!(calls.made(), (0..50).collect::<Vec<_>>());
    let store = factory.reopen(store).await;
    assert_eq!(all_ids(&*store, "p").await.len(), 50);
}

/// The runtime drops futures at shutdown: a commit that happens has its call, whoever waits for it.
pub async fn dropping_the_future_loses_no_call(factory: &dyn StoreFactory) {
    let (mut store, calls) = (factory.create().await, Calls::default());
    drop(order(&*store, Op::Create(draft("p", "unpolled", "")), calls.of(1_000)));
    for number in 0..50 {
        let op = Op::Create(draft("p", &format!("{number:02}"), ""));
        // One poll, then the future is gone.
        drop(order(&*store, op, calls.of(number)).now_or_never());
    }
    match store.sharing() {
        // Whatever is ordered later finds everything before it finished.
        Sharing::Exclusive => drop(put(&*store, draft("end", "a", "1")).await),
        // Closing waits for what was accepted.
        Sharing::Shared => {
            store.close().await.unwrap();
            store = factory.reopen(store).await;
        }
    }
    let mut made = calls.made();
    made.sort_unstable();
    let called: Vec<String> = made.into_iter().map(|number| format!("{number:02}")).collect();
    assert_eq!(called, all_ids(&*store, "p").await);
    assert!(!called.is_empty(), "one poll is enough for some");
}

/// Neither the store nor the caller of a commit.
pub async fn a_call_that_panics_ends_nothing(factory: &dyn StoreFactory) {
    let (store, calls) = (factory.create().await, Calls::default());
    for number in 0..3 {
        let panics: OnDurable = Box::new(|_| panic!("on purpose"));
        let op = Op::Create(draft("p", &format!("panics-{number}"), ""));
        order(&*store, op, panics).await.unwrap();
        let op = Op::Create(draft("p", &format!("returns-{number}"), ""));
        order(&*store, op, calls.of(number)).await.unwrap();
        calls.call(number).await;
    }
    put(&*store, draft("p", "end", "")).await;
    assert_eq!(all_ids(&*store, "p").await.len(), 7);
    let store = factory.reopen(store).await;
    assert_eq!(all_ids(&*store, "p").await.len(), 7);
}

//! Totals.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, Counter, Op, Store};

const STARTED: Counter = Counter::new("started");
const OPEN: Counter = Counter::new("open");

async fn total(store: &dyn Store, counter: &Counter) -> i64 {
    let totals = store.counters().await.unwrap();
    totals
        .into_iter()
        .find(|(name, _)| name == counter)
        .map_or(0, |(_, total)| total)
}

/// Up and down, several in one commit, with and without operations.
pub async fn totals_add_up(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    assert_eq!(total(&*store, &STARTED).await, 0);
    for n in 0..5 {
        let commit = Commit::new(vec![Op::Put(draft("p", &n.to_string(), ""))])
            .count(STARTED, 1)
            .count(OPEN, 1);
        store.commit(commit).await.unwrap();
    }
    let op = Op::Remove(key("p", "0"));
    store.commit(Commit::new(vec![op]).count(OPEN, -2)).await.unwrap();
    assert_eq!((total(&*store, &STARTED).await, total(&*store, &OPEN).await), (5, 3));
    store
        .commit(Commit::new(vec![Op::Remove(key("p", "1"))]).count(OPEN, 4).relaxed())
        .await
        .unwrap();
    assert_eq!(
        total(&*store, &OPEN).await,
        7,
        "a relaxed commit counts once it is answered"
    );
}

/// All or nothing holds for totals.
pub async fn a_failed_commit_adds_nothing(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put(&*store, draft("p", "a", "")).await;
    let commit = Commit::new(vec![Op::Absent(key("p", "a"))]).count(STARTED, 1);
    assert!(store.commit(commit).await.is_err());
    assert_eq!(total(&*store, &STARTED).await, 0);
}

/// Totals are part of the commit that changed them.
pub async fn totals_survive_reopening(factory: &dyn StoreFactory) {
    let mut store = factory.create().await;
    for round in 1..=3 {
        store
            .commit(
                Commit::new(vec![Op::Put(draft("p", "a", ""))])
                    .count(STARTED, 2)
                    .count(OPEN, -1),
            )
            .await
            .unwrap();
        store = factory.reopen(store).await;
        assert_eq!(
            (total(&*store, &STARTED).await, total(&*store, &OPEN).await),
            (2 * round, -round)
        );
    }
}

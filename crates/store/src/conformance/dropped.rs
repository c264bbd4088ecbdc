//! Dropped callers: the runtime drops futures at shutdown.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, Op, Sharing};
use futures::FutureExt;

/// Futures are lazy.
pub async fn a_future_that_was_never_polled_does_nothing(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    drop(store.commit(Commit::new(vec![Op::Put(draft("p", "a", "1"))])));
    put(&*store, draft("p", "b", "1")).await;
    assert_eq!(all_ids(&*store, "p").await, ["b"]);
}

/// A commit that was polled once and dropped happens whole or not at all, and memory and disk agree on which.
pub async fn dropping_a_polled_commit_neither_undoes_nor_tears_it(factory: &dyn StoreFactory) {
    let mut store = factory.create().await;
    for n in 0..100_u64 {
        let partition = format!("p{n}");
        let ops = vec![
            Op::Create(draft(&partition, "a", "1")),
            Op::Create(queued(&partition, "b", n, 0)),
            Op::Create(listed(&partition, "new")),
        ];
        // One poll, then the future is gone.
        drop(store.commit(Commit::new(ops)).now_or_never());
    }
    match store.sharing() {
        // A commit that names the same record is decided after it, and one that is made then is durable after both.
        Sharing::Exclusive => {
            for n in 0..100 {
                let same = Op::Absent(key(&format!("p{n}"), "a"));
                store.commit(Commit::new(vec![same])).await.ok();
            }
            put(&*store, draft("end", "a", "1")).await;
        }
        // Closing waits for what was accepted.
        Sharing::Shared => {
            store.close().await.unwrap();
            store = factory.reopen(store).await;
        }
    }
    let mut outcomes = Vec::new();
    for n in 0..100 {
        let count = all_ids(&*store, &format!("p{n}")).await.len();
        assert!(count == 0 || count == 3, "a torn commit: {count} of 3 records");
        outcomes.push(count);
    }
    let queued = due_at(&*store, 0).await.0.len();
    assert_eq!(queued, outcomes.iter().filter(|count| **count == 3).count());
    let store = factory.reopen(store).await;
    for (n, before) in outcomes.into_iter().enumerate() {
        assert_eq!(all_ids(&*store, &format!("p{n}")).await.len(), before);
    }
}

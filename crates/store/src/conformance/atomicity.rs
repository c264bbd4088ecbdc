//! All or nothing.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, ConflictReason::*, Counter, ListFilter, Op};

/// Whatever the position of the failing condition, the commit changes nothing.
pub async fn one_failed_condition_undoes_everything(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let kept = put(&*store, draft("p", "kept", "1")).await;
    for position in 0..5 {
        let mut ops = vec![
            Op::Put(draft("p", "kept", "2")),
            Op::Create(queued("p", "job", 1, 0)),
            Op::Put(draft("p", "head", "{}").listed(listing("new", "n"))),
            Op::Remove(key("p", "nothing")),
        ];
        ops.insert(position, Op::Delete(key("p", "absent"), kept.clone()));
        let commit = Commit::new(ops).count(Counter::new("jobs"), 1);
        assert_eq!(store.commit(commit).await, Err(conflict(position, Missing)));
        assert_eq!(get(&*store, &key("p", "kept")).await.unwrap().version, kept);
        assert_eq!(all_ids(&*store, "p").await, ["kept"]);
        assert_eq!(due_at(&*store, u64::MAX).await, (vec![], None));
        assert!(found(&*store, &ListFilter::kind("instance"), 10).await.is_empty());
        assert!(store.counters().await.unwrap().iter().all(|(_, total)| *total == 0));
    }
}

/// Creation, replacement and deletion of one commit are all visible after it.
pub async fn all_operations_appear_together(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let old = put(&*store, draft("p", "old", "1")).await;
    put(&*store, queued("p", "message", 1, 0)).await;
    let committed = store
        .commit(Commit::new(vec![
            Op::Replace(draft("p", "old", "2"), old),
            Op::Remove(key("p", "message")),
            Op::Create(queued("p", "work", 2, 0)),
            Op::Create(draft("p", "page", "3")),
        ]))
        .await
        .unwrap();
    let wrote: Vec<bool> = committed.versions.iter().map(Option::is_some).collect();
    assert_eq!(wrote, [true, false, true, true]);
    assert_eq!(all_ids(&*store, "p").await, ["old", "page", "work"]);
    assert_eq!(due_at(&*store, 0).await.0, ["work"]);
}

/// Where the limits allow several partitions, they change together or not at all.
pub async fn several_partitions_are_atomic_where_the_limits_allow(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let ops = || vec![Op::Create(draft("p", "a", "1")), Op::Create(draft("q", "a", "1"))];
    if store.limits().partitions_per_commit < 2 {
        assert!(store.commit(Commit::new(ops())).await.is_err());
        return;
    }
    store.commit(Commit::new(ops())).await.unwrap();
    remove(&*store, key("p", "a")).await;
    assert_eq!(store.commit(Commit::new(ops())).await, Err(conflict(1, Exists)));
    assert_eq!(get(&*store, &key("p", "a")).await, None);
}

//! Relaxed commits: ordered and visible, but not yet durable.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, ConflictReason::*, ListFilter, Op, Store, Version};

async fn relaxed(store: &dyn Store, op: Op) -> Result<Option<Version>, crate::Error> {
    let committed = store.commit(Commit::new(vec![op]).relaxed()).await?;
    Ok(committed.versions[0].clone())
}

/// By key, in scans, in queues, in listings.
pub async fn a_relaxed_commit_is_seen_once_it_is_answered(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(
        &*store,
        [draft("p", "z", "durable"), queued("p", "old", 1, 0), listed("q", "new")],
    )
    .await;
    for round in 0..20_u64 {
        let text = round.to_string();
        relaxed(&*store, Op::Put(draft("p", "a", &text))).await.unwrap();
        assert_eq!(body(&*store, &key("p", "a")).await, Some(text));
        relaxed(&*store, Op::Put(queued("p", "job", 2, round))).await.unwrap();
        relaxed(&*store, Op::Remove(key("p", "z"))).await.unwrap();
        assert_eq!(all_ids(&*store, "p").await, ["a", "job", "old"]);
        assert_eq!(due_at(&*store, round).await.0, ["old", "job"]);
        let status = ["even", "odd"][(round % 2) as usize];
        relaxed(&*store, Op::Put(listed("q", status))).await.unwrap();
        let filter = ListFilter {
            status: Some(status.into()),
            ..ListFilter::kind("instance")
        };
        assert_eq!(found(&*store, &filter, 10).await, ["q"]);
        relaxed(&*store, Op::Remove(key("p", "job"))).await.unwrap();
        relaxed(&*store, Op::Put(draft("p", "z", "back"))).await.unwrap();
        assert_eq!(due_at(&*store, round).await.0, ["old"]);
        assert_eq!(all_ids(&*store, "p").await, ["a", "old", "z"]);
    }
}

/// Each commit sees the one before it, whatever their durability.
pub async fn relaxed_and_durable_commits_take_effect_in_order(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let mut version = put(&*store, queued("p", "job", 1, 0)).await;
    for round in 1..60_u64 {
        let op = Op::Replace(queued("p", "job", 1, round), version);
        version = match round % 3 {
            0 => one(&*store, op).await.unwrap().unwrap(),
            _ => relaxed(&*store, op).await.unwrap().unwrap(),
        };
        assert_eq!(get(&*store, &key("p", "job")).await.unwrap().version, version);
        assert!(due_at(&*store, round - 1).await.0.is_empty());
        assert_eq!(due_at(&*store, round).await.0, ["job"]);
    }
    one(&*store, Op::Delete(key("p", "job"), version)).await.unwrap();
    assert!(due_at(&*store, u64::MAX).await.0.is_empty());
    assert_eq!(get(&*store, &key("p", "job")).await, None);
}

/// Conditions hold for relaxed commits too.
pub async fn a_relaxed_commit_is_checked_like_any_other(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let first = relaxed(&*store, Op::Create(draft("p", "a", "1")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        relaxed(&*store, Op::Create(draft("p", "a", "2"))).await,
        Err(conflict(0, Exists))
    );
    relaxed(&*store, Op::Replace(draft("p", "a", "2"), first.clone()))
        .await
        .unwrap();
    assert_eq!(
        one(&*store, Op::Delete(key("p", "a"), first)).await,
        Err(conflict(0, Changed))
    );
    relaxed(&*store, Op::Remove(key("p", "a"))).await.unwrap();
    one(&*store, Op::Create(draft("p", "a", "3"))).await.unwrap();
    assert_eq!(body(&*store, &key("p", "a")).await.as_deref(), Some("3"));
}

/// A store that is closed properly loses nothing.
pub async fn closing_makes_relaxed_commits_durable(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    relaxed(&*store, Op::Create(queued("p", "job", 1, 0))).await.unwrap();
    relaxed(&*store, Op::Create(listed("q", "new"))).await.unwrap();
    store.close().await.unwrap();
    let store = factory.reopen(store).await;
    assert_eq!(due_at(&*store, 0).await.0, ["job"]);
    assert_eq!(found(&*store, &ListFilter::kind("instance"), 10).await, ["q"]);
}

/// A burst of rewrites of few records, then a durable commit, then a restart.
pub async fn many_relaxed_rewrites_end_in_the_last(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for n in 0..500_u64 {
        relaxed(&*store, Op::Put(queued("p", &format!("{}", n % 7), n % 7, n)))
            .await
            .unwrap();
    }
    let last = put(&*store, draft("p", "end", "")).await;
    let before = due_at(&*store, u64::MAX).await;
    let store = factory.reopen(store).await;
    assert_eq!(due_at(&*store, u64::MAX).await, before);
    assert_eq!(before.0.len(), 7);
    for id in 0..7_u64 {
        let record = get(&*store, &key("p", &id.to_string())).await.unwrap();
        let last_round = (0..500).rev().find(|n| n % 7 == id).unwrap();
        assert_eq!(record.place.unwrap().due_ms, last_round);
    }
    assert_eq!(get(&*store, &key("p", "end")).await.unwrap().version, last);
}

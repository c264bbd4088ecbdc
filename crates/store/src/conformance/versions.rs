//! Versions change with every write and are never reused.

use super::StoreFactory;
use super::helpers::*;
use crate::{ConflictReason::*, Op, Sharing, Version};
use std::collections::HashSet;

/// Even if the same bytes are written again.
pub async fn every_write_has_a_new_version(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let mut seen = HashSet::new();
    for _ in 0..50 {
        assert!(seen.insert(put(&*store, draft("p", "a", "same")).await));
    }
}

/// A record that is deleted and created again is another one.
pub async fn a_version_never_returns_after_deletion(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let mut seen = HashSet::new();
    for _ in 0..20 {
        let version = one(&*store, Op::Create(draft("p", "a", "same"))).await.unwrap();
        assert!(seen.insert(version.clone().unwrap()));
        one(&*store, Op::Delete(key("p", "a"), version.unwrap())).await.unwrap();
    }
}

/// Reopening does not restart the numbering.
pub async fn a_version_never_returns_after_reopening(factory: &dyn StoreFactory) {
    let mut store = factory.create().await;
    let mut seen = HashSet::new();
    for _ in 0..4 {
        for _ in 0..5 {
            assert!(seen.insert(put(&*store, draft("p", "a", "same")).await));
        }
        remove(&*store, key("p", "a")).await;
        store = factory.reopen(store).await;
    }
}

/// A version that was overwritten before the store was reopened is still not the current one.
pub async fn a_stale_version_is_refused_for_ever(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let stale = put(&*store, draft("p", "a", "1")).await;
    let current = put(&*store, draft("p", "a", "2")).await;
    let store = factory.reopen(store).await;
    let replace = |version: &Version| Op::Replace(draft("p", "a", "3"), version.clone());
    assert_eq!(one(&*store, replace(&stale)).await, Err(conflict(0, Changed)));
    assert!(
        one(&*store, replace(&current)).await.is_ok(),
        "a version outlives its handle"
    );
}

/// Versions are opaque; one that this store cannot have returned matches nothing.
pub async fn a_version_of_another_kind_of_store_matches_nothing(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put(&*store, draft("p", "a", "1")).await;
    for foreign in [Version::number(u64::MAX), Version::text("no such tag")] {
        let outcome = one(&*store, Op::Replace(draft("p", "a", "2"), foreign)).await;
        assert_eq!(outcome, Err(conflict(0, Changed)));
    }
}

/// An exclusive store counts its openings.
pub async fn the_epoch_grows_with_every_opening(factory: &dyn StoreFactory) {
    let mut store = factory.create().await;
    for _ in 0..3 {
        let before = store.epoch();
        let is_exclusive = store.sharing() == Sharing::Exclusive;
        store = factory.reopen(store).await;
        match is_exclusive {
            true => assert!(store.epoch() > before),
            false => assert_eq!(store.epoch(), 0),
        }
    }
}

//! Notifications of new work.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, Op, Sharing, Signal};
use futures::FutureExt;

/// An exclusive store signals at once, and only for placed records.
pub async fn a_placed_record_is_told_of(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    if store.sharing() == Sharing::Shared {
        return;
    }
    let mut signals = store.signals();
    put(&*store, draft("p", "plain", "")).await;
    assert_eq!(signals.next().now_or_never(), None);
    put(&*store, draft("p", "a", "").placed(place(Some("gpu"), 1, 0))).await;
    assert_eq!(
        signals.next().now_or_never(),
        Some(Signal::Placed(place(Some("gpu"), 1, 0).lane))
    );
    store
        .commit(Commit::new(vec![Op::Put(queued("p", "b", 2, 0))]).relaxed())
        .await
        .unwrap();
    assert_eq!(signals.next().now_or_never(), Some(Signal::Placed(WORK)));
    remove(&*store, key("p", "b")).await;
    assert_eq!(signals.next().now_or_never(), None);
}

//! Records that cannot be decoded.

use super::StoreFactory;
use super::helpers::*;
use crate::{Error, ListFilter, Op};

/// The store opens, queues and listings leave the record out, and only a read by its key fails.
pub async fn a_damaged_record_stands_in_nobodys_way(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(
        &*store,
        [
            queued("p", "first", 1, 0),
            queued("q", "broken-job", 2, 0),
            queued("r", "last", 3, 0),
        ],
    )
    .await;
    let Some(store) = factory.damage(store, &key("q", "broken-job")).await else {
        return;
    };
    assert_eq!(due_at(&*store, 0).await, (vec!["first".into(), "last".into()], None));
    let outcome = store.get(&key("q", "broken-job")).await;
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");

    let head = |partition: &str, id: &str| draft(partition, id, "{}").listed(listing("new", "n"));
    put_all(
        &*store,
        [head("a", "head"), head("b", "broken-head"), head("c", "head")],
    )
    .await;
    let store = factory.damage(store, &key("b", "broken-head")).await.unwrap();
    for status in [None, Some("new".into())] {
        let filter = ListFilter {
            status,
            ..ListFilter::kind("instance")
        };
        assert_eq!(found(&*store, &filter, 1).await, ["a", "c"]);
    }
    assert!(matches!(
        store.get(&key("b", "broken-head")).await,
        Err(Error::Corrupt(_))
    ));
    put(&*store, queued("s", "more", 4, 0)).await;
    assert_eq!(due_at(&*store, 0).await.0, ["first", "last", "more"]);
}

/// It exists, so it cannot be created; it can be overwritten and removed.
pub async fn a_damaged_record_can_be_replaced_or_removed(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, [queued("p", "broken-1", 1, 0), queued("p", "broken-2", 2, 0)]).await;
    let Some(store) = factory.damage(store, &key("p", "broken-1")).await else {
        return;
    };
    let store = factory.damage(store, &key("p", "broken-2")).await.unwrap();
    assert!(one(&*store, Op::Create(draft("p", "broken-1", ""))).await.is_err());
    put(&*store, draft("p", "broken-1", "mended")).await;
    remove(&*store, key("p", "broken-2")).await;
    assert_eq!(all_ids(&*store, "p").await, ["broken-1"]);
    let store = factory.reopen(store).await;
    assert_eq!(all_ids(&*store, "p").await, ["broken-1"]);
    assert!(due_at(&*store, u64::MAX).await.0.is_empty());
}

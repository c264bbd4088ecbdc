//! What a commit has confirmed stays.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, DueQuery, Error, ListFilter, Op, Partition, ScanQuery};

/// The same records, versions included.
pub async fn what_was_answered_is_there_after_reopening(factory: &dyn StoreFactory) {
    let mut store = factory.create().await;
    for n in 0..50 {
        put(
            &*store,
            draft(&format!("p{}", n % 3), &format!("{n:02}"), &n.to_string()),
        )
        .await;
    }
    put_all(&*store, [queued("p0", "job", 1, 0), listed("p1", "new")]).await;
    for _ in 0..2 {
        let mut before = Vec::new();
        for partition in ["p0", "p1", "p2"] {
            before.push(scan(&*store, &ScanQuery::all(Partition::new(partition), 100)).await);
        }
        store = factory.reopen(store).await;
        for (partition, before) in ["p0", "p1", "p2"].into_iter().zip(before) {
            assert_eq!(
                scan(&*store, &ScanQuery::all(Partition::new(partition), 100)).await,
                before
            );
        }
    }
}

/// Nothing comes back, neither by key nor in a queue nor in a listing.
pub async fn deleted_records_stay_deleted_after_reopening(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let full = listed("p", "new").placed(place(None, 1, 0));
    put_all(&*store, [full.clone(), draft("p", "plain", "")]).await;
    store
        .commit(Commit::new(vec![
            Op::Remove(full.key.clone()),
            Op::Remove(key("p", "plain")),
        ]))
        .await
        .unwrap();
    let store = factory.reopen(store).await;
    assert!(all_ids(&*store, "p").await.is_empty());
    assert!(due_at(&*store, u64::MAX).await.0.is_empty());
    assert!(found(&*store, &ListFilter::kind("instance"), 10).await.is_empty());
    one(&*store, Op::Create(full)).await.unwrap();
}

/// As large as the limits allow, up to 10 MB.
pub async fn large_bodies_survive_reopening(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let size = store.limits().bytes_per_record.min(10_000_000);
    let text: String = (0..size).map(|n| char::from(b' ' + (n % 89) as u8)).collect();
    put_all(
        &*store,
        [
            draft("p", "plain", &text),
            draft("p", "queued", &text).placed(place(None, 1, 0)),
        ],
    )
    .await;
    let store = factory.reopen(store).await;
    assert_eq!(body(&*store, &key("p", "plain")).await.as_deref(), Some(text.as_str()));
    let page = due(&*store, &DueQuery::new(&WORK, 0, 1)).await;
    assert_eq!(page.records[0].body, text);
}

/// Closing twice is allowed; using a closed store is not.
pub async fn a_closed_store_refuses_everything(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put(&*store, draft("p", "a", "1")).await;
    store.close().await.unwrap();
    let outcome = one(&*store, Op::Put(draft("p", "a", "2"))).await;
    assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
    assert!(store.get(&key("p", "a")).await.is_err());
    assert!(store.scan(&ScanQuery::all(Partition::new("p"), 1)).await.is_err());
    assert!(store.due(&DueQuery::new(&WORK, 0, 1)).await.is_err());
    assert!(store.list(&ListFilter::kind("instance"), None, 1).await.is_err());
    store.close().await.unwrap();
    let store = factory.reopen(store).await;
    assert_eq!(body(&*store, &key("p", "a")).await.as_deref(), Some("1"));
}

//! Reading a partition in order.

use super::StoreFactory;
use super::helpers::*;
use crate::{Partition, RecordId, ScanQuery};

fn all(limit: usize) -> ScanQuery {
    ScanQuery::all(Partition::new("p"), limit)
}

/// By bytes, whatever the order of writing.
pub async fn records_come_in_order_of_their_ids(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let page = RecordId::of("page");
    for number in [10, 9, 255, 256, 0] {
        put(&*store, draft("p", page.number(number).as_str(), "")).await;
    }
    put_all(&*store, ["b", "B", "a", "é", "a/b"].map(|id| draft("p", id, ""))).await;
    let mut expected: Vec<String> = [0, 9, 10, 255, 256].map(|n| page.number(n).as_str().to_owned()).into();
    expected.extend(["b", "B", "a", "é", "a/b"].map(str::to_owned));
    expected.sort();
    assert_eq!(all_ids(&*store, "p").await, expected);
}

/// Pages of any size cover everything once, and the last one says that it is the last.
pub async fn a_scan_goes_on_where_the_page_ended(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for n in 0..20 {
        let draft = draft("p", &format!("{n:02}"), "");
        // Spread over all tables that a store may have.
        let draft = match n % 3 {
            0 => draft,
            1 => draft.placed(place(None, n, 0)),
            _ => draft.listed(listing("new", "n")),
        };
        put(&*store, draft).await;
    }
    put(&*store, draft("q", "other", "")).await;
    for limit in [1, 3, 7, 19, 20, 21, 1000] {
        let mut query = all(limit);
        let mut seen = Vec::new();
        loop {
            let page = scan(&*store, &query).await;
            assert!(page.records.len() <= limit);
            seen.extend(page.records.into_iter().map(|record| record.key.id));
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        let expected: Vec<_> = (0..20).map(|n| RecordId::from_raw(format!("{n:02}"))).collect();
        assert_eq!(seen, expected, "in pages of {limit}");
    }
}

/// `under` is about whole names: `job` is under `job`, `job/1` too, `jobs` and `job-1` are not.
pub async fn under_takes_an_id_and_what_is_below_it(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(
        &*store,
        ["job", "job!", "job-1", "job/", "job/1", "job/1/2", "job0", "jobs", "jo"].map(|id| draft("p", id, "")),
    )
    .await;
    let mut query = ScanQuery::under(Partition::new("p"), RecordId::of("job"), 100);
    assert_eq!(
        ids(&scan(&*store, &query).await.records),
        ["job", "job/", "job/1", "job/1/2"]
    );
    query.limit = 2;
    let page = scan(&*store, &query).await;
    assert_eq!(
        (ids(&page.records), page.next.clone().unwrap().as_str()),
        (vec!["job", "job/"], "job/")
    );
    query.after = page.next;
    let page = scan(&*store, &query).await;
    assert_eq!((ids(&page.records), page.next), (vec!["job/1", "job/1/2"], None));
}

/// A caller may delete what a page returned and page on from there.
pub async fn after_need_not_exist(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, ["a", "c"].map(|id| draft("p", id, ""))).await;
    let mut query = all(10);
    query.after = Some(RecordId::of("b"));
    assert_eq!(ids(&scan(&*store, &query).await.records), ["c"]);
    query.after = Some(RecordId::of("z"));
    assert!(scan(&*store, &query).await.records.is_empty());
}

/// Versions and attributes come without the bodies.
pub async fn keys_only_leaves_the_bodies_out(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let version = put(&*store, queued("p", "a", 3, 4)).await;
    let page = scan(&*store, &all(10).keys_only()).await;
    assert_eq!(page.records[0].version, version);
    assert_eq!(page.records[0].place, Some(place(None, 3, 4)));
    assert!(page.records[0].body.is_empty());
}

/// A partition contains its queued and listed records too.
pub async fn queued_and_listed_records_are_scanned_like_others(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, [queued("p", "b", 1, 0), draft("p", "c", "")]).await;
    put(&*store, draft("p", "a", "").listed(listing("new", "n"))).await;
    assert_eq!(all_ids(&*store, "p").await, ["a", "b", "c"]);
}

/// An unknown partition is empty.
pub async fn a_scan_of_nothing_is_empty(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let page = scan(&*store, &all(10)).await;
    assert!(page.records.is_empty() && page.next.is_none());
}

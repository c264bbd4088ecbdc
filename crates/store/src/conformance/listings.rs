//! Listings by attributes.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, ListFilter, Op, Store};

fn instances() -> ListFilter {
    ListFilter::kind("instance")
}

fn with_status(status: &'static str) -> ListFilter {
    ListFilter {
        status: Some(status.into()),
        ..instances()
    }
}

fn with_parent(parent: &str) -> ListFilter {
    ListFilter {
        parent: Some(parent.into()),
        ..instances()
    }
}

async fn all(store: &dyn Store, filter: &ListFilter) -> Vec<String> {
    found(store, filter, 100).await
}

/// Other kinds and records that are not listed are left out.
pub async fn records_are_listed_by_kind(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, [listed("a", "new"), listed("b", "done"), draft("c", "x", "")]).await;
    let mut job = listing("new", "n");
    job.kind = "job".into();
    put(&*store, draft("d", "job", "").listed(job)).await;
    assert_eq!(all(&*store, &instances()).await, ["a", "b"]);
    assert_eq!(all(&*store, &ListFilter::kind("job")).await, ["d"]);
    assert!(all(&*store, &ListFilter::kind("unknown")).await.is_empty());
    let page = store.list(&instances(), None, 1).await.unwrap();
    let record = get(&*store, &page.entries[0].key).await.unwrap();
    assert_eq!(
        (Some(&page.entries[0].listing), &page.entries[0].version),
        (record.listing.as_ref(), &record.version)
    );
}

/// Status, name, parent, end.
pub async fn every_filter_filters(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for (partition, status, name, parent, completed_ms) in [
        ("a", "new", "x", None, None),
        ("b", "done", "x", Some("a"), Some(10)),
        ("c", "done", "y", Some("a"), Some(20)),
        ("d", "new", "y", Some("b"), None),
    ] {
        let mut listing = listing(status, name);
        listing.parent = parent.map(str::to_owned);
        listing.completed_ms = completed_ms;
        put(&*store, draft(partition, "head", "").listed(listing)).await;
    }
    let name = ListFilter {
        name: Some("y".into()),
        ..instances()
    };
    let ended = |before| ListFilter {
        completed_before_ms: Some(before),
        ..instances()
    };
    assert_eq!(all(&*store, &with_status("done")).await, ["b", "c"]);
    assert_eq!(all(&*store, &with_parent("a")).await, ["b", "c"]);
    assert_eq!(all(&*store, &name).await, ["c", "d"]);
    assert_eq!(all(&*store, &ended(20)).await, ["b"], "strictly before");
    assert_eq!(all(&*store, &ended(21)).await, ["b", "c"]);
}

/// All conditions must hold.
pub async fn filters_combine(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for n in 0..16 {
        let mut listing = listing(["new", "done"][n & 1], ["x", "y"][n >> 1 & 1]);
        listing.parent = Some(["p", "q"][n >> 2 & 1].to_owned());
        listing.completed_ms = (n >> 3 & 1 == 1).then_some(5);
        put(&*store, draft(&format!("{n:02}"), "head", "").listed(listing)).await;
    }
    let filter = ListFilter {
        status: Some("done".into()),
        name: Some("y".into()),
        parent: Some("q".into()),
        completed_before_ms: Some(6),
        ..instances()
    };
    assert_eq!(all(&*store, &filter).await, ["15"]);
    assert_eq!(all(&*store, &ListFilter { parent: None, ..filter }).await, ["11", "15"]);
}

/// A record is found by its current attributes only.
pub async fn the_index_follows_every_change(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let mut child = listing("new", "n");
    child.parent = Some("old".into());
    put(&*store, draft("a", "head", "").listed(child.clone())).await;
    child.status = "done".into();
    child.parent = Some("other".into());
    put(&*store, draft("a", "head", "").listed(child.clone())).await;
    assert!(all(&*store, &with_status("new")).await.is_empty());
    assert!(all(&*store, &with_parent("old")).await.is_empty());
    assert_eq!(all(&*store, &with_status("done")).await, ["a"]);
    assert_eq!(all(&*store, &with_parent("other")).await, ["a"]);
    put(&*store, draft("a", "head", "not listed")).await;
    for filter in [instances(), with_status("done"), with_parent("other")] {
        assert!(all(&*store, &filter).await.is_empty());
    }
    put(&*store, draft("a", "head", "").listed(child)).await;
    assert_eq!(all(&*store, &with_parent("other")).await, ["a"]);
    remove(&*store, key("a", "head")).await;
    for filter in [instances(), with_status("done"), with_parent("other")] {
        assert!(all(&*store, &filter).await.is_empty());
    }
}

/// Pages of any size, with any filter.
pub async fn pages_cover_everything_once(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let mut expected = Vec::new();
    for n in 0..25 {
        let mut listing = listing("new", "n");
        listing.parent = Some("root".into());
        put(&*store, draft(&format!("{n:02}"), "head", "").listed(listing)).await;
        expected.push(format!("{n:02}"));
    }
    for filter in [instances(), with_status("new"), with_parent("root")] {
        for limit in [1, 4, 24, 25, 26] {
            assert_eq!(found(&*store, &filter, limit).await, expected, "in pages of {limit}");
        }
    }
}

/// A record that is queued and listed is found both ways.
pub async fn a_listed_record_may_queue_too(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, [listed("a", "new"), listed("c", "new")]).await;
    let both = listed("b", "new").placed(place(None, 1, 0));
    put(&*store, both.clone()).await;
    for limit in [1, 2, 10] {
        assert_eq!(found(&*store, &instances(), limit).await, ["a", "b", "c"]);
        assert_eq!(found(&*store, &with_status("new"), limit).await, ["a", "b", "c"]);
    }
    assert_eq!(due_at(&*store, 0).await.0, ["head"]);
    put(&*store, listed("b", "new")).await;
    assert_eq!(found(&*store, &instances(), 10).await, ["a", "b", "c"]);
    assert!(due_at(&*store, 0).await.0.is_empty());
    put(&*store, both).await;
    remove(&*store, key("b", "head")).await;
    assert_eq!(found(&*store, &instances(), 10).await, ["a", "c"]);
}

/// After a restart everything is found as before.
pub async fn listings_survive_reopening(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, [listed("a", "new"), listed("b", "new"), listed("c", "new")]).await;
    put(&*store, listed("b", "done").placed(place(None, 1, 0))).await;
    remove(&*store, key("c", "head")).await;
    let store = factory.reopen(store).await;
    assert_eq!(all(&*store, &instances()).await, ["a", "b"]);
    assert_eq!(all(&*store, &with_status("new")).await, ["a"]);
    assert_eq!(all(&*store, &with_status("done")).await, ["b"]);
    put(&*store, listed("b", "new")).await;
    assert!(all(&*store, &with_status("done")).await.is_empty());
    remove(&*store, key("a", "head")).await;
    assert_eq!(all(&*store, &with_status("new")).await, ["b"]);
}

/// Attributes hold any text, like names.
pub async fn any_text_is_a_status_or_a_parent(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let texts = ["", "a", "a\u{0}", "a\u{0}\u{1}b", "'; --", "😀", "a\nb"];
    for (n, text) in texts.into_iter().enumerate() {
        let mut listing = listing(text, text);
        listing.parent = Some(text.into());
        let partition = n.to_string();
        let op = Op::Create(draft(&partition, "head", "").listed(listing));
        store.commit(Commit::new(vec![op])).await.unwrap();
        let name = ListFilter {
            name: Some(text.into()),
            ..instances()
        };
        for filter in [with_status(text), with_parent(text), name] {
            assert_eq!(all(&*store, &filter).await, [partition.as_str()], "{text:?}");
        }
    }
}

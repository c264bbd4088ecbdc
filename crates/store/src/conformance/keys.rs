//! Names hold any text.

use super::StoreFactory;
use super::helpers::*;
use crate::{Draft, ListFilter, Partition, ScanQuery};

const NAMES: [&str; 22] = [
    "",
    " ",
    "a",
    "a ",
    "A",
    "a/b",
    "a\\b",
    "a#b?c",
    "a'b\"c",
    "a;b--",
    "a\nb",
    "a\r\n\tb",
    "a\u{0}",
    "\u{0}",
    "\u{0}\u{1}",
    "a\u{0}\u{ff}b",
    "é",
    "e\u{301}",
    "😀👩‍👩‍👧",
    "\u{feff}bom",
    "%2F..",
    "../../etc",
];

/// Each name is its own partition and its own id; nothing is normalised, trimmed or escaped away.
pub async fn any_text_names_a_partition_and_a_record(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for name in NAMES {
        put(&*store, draft(name, name, &format!("body of {name:?}"))).await;
    }
    for name in NAMES {
        assert_eq!(body(&*store, &key(name, name)).await, Some(format!("body of {name:?}")));
        assert_eq!(
            all_ids(&*store, name).await,
            [name],
            "the partition {name:?} holds its own record only"
        );
    }
    for name in NAMES {
        remove(&*store, key(name, name)).await;
        assert_eq!(get(&*store, &key(name, name)).await, None);
    }
}

/// A kilobyte of anything, also where a record is queued and listed.
pub async fn long_names_work(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for unit in ["x", "\u{0}", "😀"] {
        let name = unit.repeat(1024 / unit.len());
        let full: Draft = draft(&name, "head", "long")
            .placed(place(None, 1, 0))
            .listed(listing("new", &name));
        put(&*store, full.clone()).await;
        assert_eq!(get(&*store, &full.key).await.unwrap().listing, full.listing);
        assert_eq!(due_at(&*store, 0).await.0, ["head"]);
        assert_eq!(found(&*store, &ListFilter::kind("instance"), 10).await, [name]);
        remove(&*store, full.key).await;
    }
}

/// Names that continue one another are apart.
pub async fn neighbouring_names_do_not_mix(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let partitions = ["a", "a\u{0}", "a\u{0}\u{1}", "a\u{1}", "aa", "a/"];
    for partition in partitions {
        for id in ["", "a", "\u{0}", "\u{1}x"] {
            put(&*store, draft(partition, id, partition)).await;
        }
    }
    for partition in partitions {
        let page = scan(&*store, &ScanQuery::all(Partition::new(partition), 100)).await;
        assert_eq!(ids(&page.records), ["", "\u{0}", "\u{1}x", "a"]);
        assert!(page.records.iter().all(|record| record.body == partition));
    }
}

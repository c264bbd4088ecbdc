//! Every on-disk format that was ever released still opens. `examples/make_fixture.rs` makes the fixtures.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use perennial_fjall::{Settings, open};
use perennial_store::{
    Commit, Counter, Draft, DueQuery, Key, Lane, ListFilter, Op, Partition, RecordId, ScanQuery, Store, Topics,
};
use std::path::Path;
use std::process::Command;

#[tokio::test]
async fn format_1_opens_and_holds_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1.tar.gz");
    let mut tar = Command::new("tar");
    let status = tar
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(directory.path())
        .status()
        .unwrap();
    assert!(status.success());
    let store = open(directory.path().join("format-1"), Settings::default()).unwrap();
    assert_eq!(store.stats().damaged, 0);
    assert!(store.epoch() >= 2);

    let partition = |n: u64| Partition::new(format!("order \"{n}\"\n😀"));
    for n in 0..20 {
        let page = store.scan(&ScanQuery::all(partition(n), 10)).await.unwrap();
        assert_eq!(page.records.len(), if n == 19 { 2 } else { 3 });
        assert_eq!(page.records[0].body, format!(r#"{{"n":{n}}}"#));
        assert_eq!(page.records[0].listing.as_ref().unwrap().created_ms, 1_000 + n);
    }
    let work = Lane::new("work");
    let ready = store.due(&DueQuery::new(&work, 10, 100)).await.unwrap();
    assert_eq!((ready.records.len(), ready.next_due_ms), (14, Some(5_000)));
    let mut query = DueQuery::new(&work, 5_000, 100);
    query.topics = Topics::Default;
    assert_eq!(store.due(&query).await.unwrap().records.len(), 12);

    let completed = ListFilter {
        status: Some("Completed".into()),
        ..ListFilter::kind("instance")
    };
    assert_eq!(store.list(&completed, None, 100).await.unwrap().entries.len(), 10);
    assert_eq!(store.counters().await.unwrap(), [(Counter::new("started"), 20)]);

    let head = Key::new(partition(0), RecordId::of("head"));
    let version = store.get(&head).await.unwrap().unwrap().version;
    let op = Op::Replace(Draft::new(head, "changed"), version);
    store.commit(Commit::new(vec![op])).await.unwrap();
}

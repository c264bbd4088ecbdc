//! Reads that wait.

use crate::engine::Failure;
use crate::fixture::{Fixture, WORK, draft, key, listed, put, queued};
use futures::FutureExt;
use futures::future::join_all;
use perennial_kv::{EngineError, Settings};
use perennial_store::{Commit, DueQuery, Error, Health, ListFilter, Op, Partition, ScanQuery, Store};

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("r{n:03}")).collect()
}

fn all_of_kind() -> ListFilter {
    ListFilter::kind("thing")
}

#[tokio::test]
async fn a_read_that_waits_blocks_neither_its_caller_nor_other_calls() {
    let fixture = Fixture::with(Settings::default()).await;
    fixture.put("slow", "1").await;
    fixture.put("other", "2").await;
    fixture.control.hold("slow");
    let slow = key("slow");
    let mut slow = Box::pin(fixture.store.get(&slow));
    assert!(slow.as_mut().now_or_never().is_none());
    fixture.control.until_waiting(1).await;
    // All on this one thread.
    assert_eq!(fixture.body("other").await.unwrap(), "2");
    fixture.put("other", "3").await;
    assert_eq!(fixture.body("other").await.unwrap(), "3");
    fixture.put("slow", "4").await;
    assert!(slow.as_mut().now_or_never().is_none());
    fixture.control.release("slow");
    assert_eq!(
        slow.await.unwrap().unwrap().body,
        "1",
        "what there was when the read began"
    );
    assert_eq!(fixture.body("slow").await.unwrap(), "4");
}

#[tokio::test]
async fn a_page_costs_one_round_of_reads() {
    let fixture = Fixture::new().await;
    let drafts = |make: fn(&str, usize) -> perennial_store::Draft| {
        let ids = ids(100);
        let ops = ids.iter().enumerate().map(|(n, id)| Op::Put(make(id, n)));
        Commit::new(ops.collect())
    };
    fixture
        .store
        .commit(drafts(|id, n| queued(id, n as u64)))
        .await
        .unwrap();
    fixture.control.take_rounds();
    let page = fixture.store.due(&DueQuery::new(&WORK, 0, 100)).await.unwrap();
    assert_eq!((page.records.len(), fixture.control.take_rounds()), (100, 1));

    fixture.store.commit(drafts(|id, _| listed(id, "new"))).await.unwrap();
    fixture.control.take_rounds();
    let mut by_status = all_of_kind();
    by_status.status = Some("new".into());
    for (filter, rounds) in [(all_of_kind(), 1), (by_status, 2)] {
        let page = fixture.store.list(&filter, None, 100).await.unwrap();
        assert_eq!((page.entries.len(), fixture.control.take_rounds()), (100, rounds));
        let page = fixture.store.list_records(&filter, None, 100).await.unwrap();
        assert_eq!((page.records.len(), fixture.control.take_rounds()), (100, rounds));
    }

    let page = fixture
        .store
        .scan(&ScanQuery::all(Partition::new("p"), 100))
        .await
        .unwrap();
    assert_eq!((page.records.len(), fixture.control.take_rounds()), (100, 1));
    assert!(fixture.store.get(&key("r007")).await.unwrap().is_some());
    assert_eq!(fixture.control.take_rounds(), 1);
    assert!(fixture.store.get(&key("none")).await.unwrap().is_none());
    assert_eq!(fixture.control.take_rounds(), 1);
}

#[tokio::test]
async fn records_in_either_table_are_listed() {
    let fixture = Fixture::new().await;
    let both = |id: &str| {
        let listing = listed(id, "new").listing.unwrap();
        queued(id, 1).listed(listing)
    };
    let ops = vec![Op::Put(both("a")), Op::Put(listed("b", "new")), Op::Put(both("c"))];
    fixture.store.commit(Commit::new(ops)).await.unwrap();
    let mut by_status = all_of_kind();
    by_status.status = Some("new".into());
    for filter in [all_of_kind(), by_status] {
        let page = fixture.store.list(&filter, None, 10).await.unwrap();
        let found: Vec<_> = page.entries.iter().map(|entry| entry.key.clone()).collect();
        assert_eq!(found, [key("a"), key("b"), key("c")]);
        let first = fixture.store.list_records(&filter, None, 2).await.unwrap();
        let rest = fixture
            .store
            .list_records(&filter, first.next.as_ref(), 2)
            .await
            .unwrap();
        let bodies = first
            .records
            .iter()
            .chain(&rest.records)
            .map(|record| record.body.clone());
        assert_eq!(bodies.collect::<Vec<_>>(), ["queued", "listed", "queued"]);
        assert!(rest.next.is_none());
    }
}

#[tokio::test]
async fn what_was_just_written_is_found_where_it_is() {
    let fixture = Fixture::with(Settings::default()).await;
    fixture
        .store
        .commit(Commit::new(vec![Op::Put(listed("head", "new"))]))
        .await
        .unwrap();
    fixture.control.take_rounds();
    assert_eq!(fixture.body("head").await.unwrap(), "listed");
    assert_eq!(fixture.control.take_rounds(), 1);
}

#[tokio::test]
async fn reads_beyond_the_limit_wait_for_a_thread() {
    let settings = Settings {
        blocking_reads: 2,
        ..Settings::default()
    };
    let fixture = Fixture::with(settings).await;
    fixture.control.hold("slow");
    fixture.put("other", "1").await;
    let key = key("slow");
    let mut reads: Vec<_> = (0..7).map(|_| Box::pin(fixture.store.get(&key))).collect();
    for read in &mut reads {
        assert!(read.as_mut().now_or_never().is_none());
    }
    fixture.control.until_waiting(2).await;
    // A caller that gives up takes no thread.
    drop(reads.split_off(5));
    fixture.control.release("slow");
    for found in join_all(reads).await {
        assert_eq!(found, Ok(None));
    }
    assert_eq!(fixture.control.most_running(), 2);
    assert_eq!(fixture.body("other").await.unwrap(), "1");
}

#[tokio::test]
async fn a_read_that_fails_or_panics_is_an_error_and_the_next_one_works() {
    let fixture = Fixture::new().await;
    fixture.put("a", "1").await;
    let error = EngineError::Io(std::io::ErrorKind::TimedOut, "no reply".to_owned());
    for failure in [Failure::Error(error), Failure::Panic] {
        fixture.control.fail_read(failure);
        let outcome = fixture.store.get(&key("a")).await;
        assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
        assert_eq!(fixture.body("a").await.unwrap(), "1");
    }
}

#[tokio::test]
async fn without_a_runtime_every_call_is_refused_and_none_panics() {
    let fixture = Fixture::new().await;
    fixture.put("a", "1").await;
    fixture.control.end_runtime();
    let outcome = fixture.store.get(&key("a")).await;
    assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
    let outcome = fixture.store.due(&DueQuery::new(&WORK, 0, 10)).await;
    assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
    let outcome = fixture.store.list(&all_of_kind(), None, 10).await;
    assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
    let outcome = fixture.store.scan(&ScanQuery::all(Partition::new("p"), 10)).await;
    assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
    let outcome = fixture.store.commit(put(&["a"], "2")).await;
    assert!(
        matches!(&outcome, Err(Error::Closed(why)) if why.contains("runtime")),
        "{outcome:?}"
    );
    assert!(matches!(fixture.store.health().now(), Health::Broken(_)));
    let outcome = fixture.store.commit(Commit::new(vec![Op::Put(draft("b", "1"))])).await;
    assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
    fixture.store.close().await.unwrap();
}

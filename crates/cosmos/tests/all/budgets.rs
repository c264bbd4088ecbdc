//! The requests of each operation, counted by the server.

use crate::support::{Fixture, draft, key, one, put};
use perennial_cosmos_server::{Counts, Kind, Options};
use perennial_store::{
    Commit, Counter, DueQuery, Lane, ListFilter, Op, Order, Partition, Place, ScanQuery, Slot, SlotSet, Store, Topics,
};
use std::time::Duration;

const WORK: Lane = Lane::new("work");

fn place(order: u64) -> Place {
    Place {
        lane: WORK,
        order: Order(order),
        due_ms: 0,
    }
}

fn since(fixture: &Fixture, before: &Counts) -> Counts {
    fixture.server.counts().since(before)
}

#[tokio::test]
async fn opening_takes_few_requests() {
    let fixture = Fixture::new().await;
    let before = fixture.server.counts();
    let store = fixture.open().await;
    let counts = since(&fixture, &before);
    assert!(counts.total <= 6, "{counts}\n{}", fixture.server.log_text());
    let before = fixture.server.counts();
    store.close().await.unwrap();
    assert_eq!(
        since(&fixture, &before).total,
        0,
        "nothing was counted, nothing is written"
    );
}

#[tokio::test]
async fn a_commit_is_one_request_and_so_is_a_read() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    put(&store, draft("warm", "a", "1")).await;
    let before = fixture.server.counts();
    let version = put(&store, draft("p", "a", "1")).await;
    assert_eq!(since(&fixture, &before).total, 1);
    let ops = vec![
        Op::Replace(draft("p", "a", "2"), version),
        Op::Create(draft("p", "b", "1").placed(place(1))),
        Op::Absent(key("p", "c")),
    ];
    store.commit(Commit::new(ops)).await.unwrap();
    assert_eq!(since(&fixture, &before).of(Kind::Batch), 2);
    store.get(&key("p", "a")).await.unwrap().unwrap();
    store.get(&key("p", "none")).await.unwrap();
    assert_eq!(since(&fixture, &before).of(Kind::Read), 2);
    one(&store, Op::Remove(key("p", "a"))).await.unwrap();
    one(&store, Op::Remove(key("p", "a"))).await.unwrap();
    store.scan(&ScanQuery::all(Partition::new("p"), 10)).await.unwrap();
    let counts = since(&fixture, &before);
    assert_eq!((counts.of(Kind::Batch), counts.of(Kind::Query)), (4, 1));
    assert_eq!(counts.total, 7, "{counts}");
}

/// A batch fails when it deletes a missing document; a removal allows that.
#[tokio::test]
async fn removals_of_missing_records_do_not_fail_one_by_one() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    put(&store, draft("p", "50", "1")).await;
    let before = fixture.server.counts();
    let mut ops: Vec<Op> = (0..60).map(|n| Op::Remove(key("p", &n.to_string()))).collect();
    ops.push(Op::Create(draft("p", "new", "1")));
    store.commit(Commit::new(ops)).await.unwrap();
    let counts = since(&fixture, &before);
    assert_eq!((counts.of(Kind::Batch), counts.of(Kind::Query)), (2, 1), "{counts}");
    let page = store.scan(&ScanQuery::all(Partition::new("p"), 10)).await.unwrap();
    assert_eq!(page.records.len(), 1);
}

/// Idle processes repeat this query again and again.
#[tokio::test]
async fn a_due_query_is_one_request_for_each_physical_partition() {
    for partitions in [1, 4] {
        let fixture = Fixture::with(Options {
            partitions,
            ..Options::default()
        })
        .await;
        let store = fixture.open().await;
        let half = (0..128).fold(SlotSet::none(), |set, n| set.with(Slot(n)));
        let mut queries = vec![DueQuery::new(&WORK, 5, 10); 4];
        queries[1].slots = half;
        queries[2].topics = Topics::These {
            topics: ["a".into(), "b".into()].into(),
            default: true,
        };
        queries[3].after = Some(Order(3));
        store.due(&queries[0]).await.unwrap();
        for has_work in [false, true] {
            for query in &queries {
                let before = fixture.server.counts();
                store.due(query).await.unwrap();
                let counts = since(&fixture, &before);
                assert_eq!(counts.of(Kind::Query), u64::from(partitions), "{query:?}");
                assert_eq!(
                    counts.total,
                    u64::from(partitions),
                    "{counts}\n{}",
                    fixture.server.log_text()
                );
            }
            for n in 0..if has_work { 0 } else { 30 } {
                put(&store, draft(&format!("p{n}"), "job", "{}").placed(place(n))).await;
            }
        }
    }
}

#[tokio::test]
async fn a_query_that_can_match_nothing_is_not_sent() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    let before = fixture.server.counts();
    let mut query = DueQuery::new(&WORK, 5, 10);
    query.slots = SlotSet::none();
    store.due(&query).await.unwrap();
    let mut query = DueQuery::new(&WORK, 5, 10);
    query.topics = Topics::These {
        topics: [].into(),
        default: false,
    };
    store.due(&query).await.unwrap();
    store.commit(Commit::default()).await.unwrap();
    assert_eq!(since(&fixture, &before).total, 0);
}

#[tokio::test]
async fn a_backlog_is_not_read_whole() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    for n in 0..60 {
        put(&store, draft("p", &n.to_string(), "{}").placed(place(n))).await;
    }
    let before = fixture.server.counts();
    let page = store.due(&DueQuery::new(&WORK, 5, 10)).await.unwrap();
    assert_eq!((page.records.len(), page.more), (10, true));
    assert_eq!(since(&fixture, &before).total, 1);
    let before = fixture.server.counts();
    let mut listing = ScanQuery::all(Partition::new("p"), 60);
    listing.keys_only = true;
    assert_eq!(store.scan(&listing).await.unwrap().records.len(), 60);
    assert_eq!(since(&fixture, &before).total, 1);
    store.list(&ListFilter::kind("instance"), None, 10).await.unwrap();
    assert_eq!(since(&fixture, &before).total, 2);
}

#[tokio::test]
async fn usage_is_what_the_server_saw() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    let before = fixture.server.counts();
    put(&store, draft("p", "a", "1")).await;
    store.get(&key("p", "a")).await.unwrap();
    store.due(&DueQuery::new(&WORK, 5, 10)).await.unwrap();
    store.counters().await.unwrap();
    let (usage, counts) = (store.usage(), since(&fixture, &before));
    assert_eq!(usage.total().requests, counts.total);
    let operations: Vec<_> = usage.by_operation.keys().copied().collect();
    assert_eq!(operations, ["commit", "due", "get", "tally"]);
    assert!(usage.by_operation["commit"].units > 1.0);
    assert!(
        (usage.total().units - counts.ru).abs() < 0.01 * counts.ru + 0.1,
        "{usage:?} {counts}"
    );
}

/// Totals are written in the background while they change, and not otherwise.
#[tokio::test]
async fn totals_are_written_now_and_then() {
    let mut fixture = Fixture::new().await;
    fixture.settings.counters_interval = Duration::from_millis(50);
    let store = fixture.open().await;
    let other = fixture.open().await;
    let commit = Commit::new(vec![Op::Put(draft("p", "a", "1"))]).count(Counter::new("n"), 3);
    store.commit(commit).await.unwrap();
    let total = loop {
        let totals = other.counters().await.unwrap();
        match totals.first() {
            Some((_, total)) => break *total,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(total, 3, "another process sees what was counted");
    let before = fixture.server.counts();
    #[allow(clippy::disallowed_methods)]
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(since(&fixture, &before).total, 0);
}

//! Several handles on one container, and replicas that lag.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use futures::FutureExt;
use perennial_cosmos_server::Options;
use perennial_store::{
    Commit, ConflictReason, Counter, DueQuery, Error, Lane, ListFilter, Listing, Op, Order, Partition, Place,
    ScanQuery, Signal, Store,
};
use std::time::Duration;
use support::{Bed, draft, key, one, put};

const WORK: Lane = Lane::new("work");

fn job(partition: &str, order: u64) -> perennial_store::Draft {
    draft(partition, "job", r#"{"n":1}"#)
        .placed(Place {
            lane: WORK,
            order: Order(order),
            due_ms: 0,
        })
        .listed(Listing {
            kind: "job".into(),
            status: "new".into(),
            name: "n".into(),
            parent: None,
            created_ms: 1,
            completed_ms: None,
        })
}

/// A handle reads what it wrote, however far behind the replica is that it asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_reads_its_own_writes_from_a_replica_that_lags() {
    let bed = Bed::with(Options {
        replica: true,
        partitions: 3,
        ..Options::default()
    })
    .await;
    let (store, other) = (bed.open().await, bed.open().await);
    bed.server.replica().unwrap().lag(u64::MAX).await;
    for round in 0..5_u64 {
        let partition = format!("p{round}");
        let version = put(&store, job(&partition, round)).await;
        let record = store.get(&key(&partition, "job")).await.unwrap().unwrap();
        assert_eq!(record.version, version);
        let all = ScanQuery::all(Partition::new(partition.as_str()), 10);
        assert_eq!(store.scan(&all).await.unwrap().records.len(), 1);
        let due = store.due(&DueQuery::new(&WORK, 0, 100)).await.unwrap();
        assert_eq!(due.records.len(), round as usize + 1);
        let listed = store.list(&ListFilter::kind("job"), None, 100).await.unwrap();
        assert!(listed.entries.iter().any(|entry| entry.version == version) || listed.next.is_some());
    }
    assert_eq!(other.get(&key("p0", "job")).await.unwrap(), None, "the replica lags");
}

/// What another wrote may be read late, but a claim is never made twice, and who claims then reads the truth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_claims_reads_what_the_other_wrote_before() {
    let bed = Bed::with(Options {
        replica: true,
        ..Options::default()
    })
    .await;
    let (writer, reader) = (bed.open().await, bed.open().await);
    let old = put(&writer, draft("p", "head", "1")).await;
    put(&writer, draft("p", "page", "old")).await;
    reader.get(&key("p", "head")).await.unwrap().unwrap();
    bed.server.replica().unwrap().lag(u64::MAX).await;
    let ops = vec![
        Op::Replace(draft("p", "head", "2"), old.clone()),
        Op::Put(draft("p", "page", "new")),
    ];
    let committed = writer.commit(Commit::new(ops)).await.unwrap();
    let stale = reader.get(&key("p", "page")).await.unwrap().unwrap();
    assert_eq!(stale.body, "old", "the replica lags");
    let claim = Op::Replace(draft("p", "head", "claimed"), old);
    let outcome = one(&reader, claim).await;
    assert_eq!(
        outcome,
        Err(Error::Conflict {
            op: 0,
            reason: ConflictReason::Changed
        })
    );
    let claim = Op::Replace(draft("p", "head", "claimed"), committed.versions[0].clone().unwrap());
    one(&reader, claim).await.unwrap();
    let fresh = reader.get(&key("p", "page")).await.unwrap().unwrap();
    assert_eq!(fresh.body, "new", "what is read after a commit is as new as that");
    let page = reader.scan(&ScanQuery::all(Partition::new("p"), 10)).await.unwrap();
    assert_eq!(page.records[1].body, "new");
}

/// Of two handles, each counts its own and sees the other's; who is killed loses little, who leaves loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_of_all_handles_add_up() {
    let mut bed = Bed::new().await;
    // Nothing is written but at the end.
    bed.settings.tally_interval = Duration::from_secs(3600);
    let counter = Counter::new("n");
    let count = |store: perennial_cosmos::CosmosStore, by: i64| {
        let counter = counter.clone();
        async move {
            let op = Op::Put(draft("p", "a", "1"));
            store.commit(Commit::new(vec![op]).count(counter, by)).await.unwrap();
        }
    };
    let total = |store: perennial_cosmos::CosmosStore| {
        let counter = counter.clone();
        async move {
            let totals = store.tally().await.unwrap();
            totals
                .into_iter()
                .find(|(name, _)| *name == counter)
                .map_or(0, |(_, total)| total)
        }
    };
    let keeper = bed.open().await;
    count(keeper.clone(), 1).await;
    for round in 1..=40_i64 {
        let store = bed.open().await;
        count(store.clone(), 2).await;
        assert_eq!(total(store.clone()).await, 2 * round, "own counts are exact");
        store.close().await.unwrap();
    }
    assert_eq!(total(keeper.clone()).await, 81);
    keeper.close().await.unwrap();
    let store = bed.open().await;
    assert_eq!(total(store.clone()).await, 81);
    let container = bed.container().await;
    let documents = container
        .query_items::<serde_json::Value>(
            "SELECT * FROM c",
            azure_data_cosmos::FeedScope::partition("%tally"),
            None,
        )
        .await
        .unwrap();
    let documents: Vec<_> = futures::StreamExt::collect::<Vec<_>>(documents).await;
    assert_eq!(documents.len(), 1, "those who left have left one document");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_the_handle_are_signalled() {
    let bed = Bed::new().await;
    let store = bed.open().await;
    let mut signals = store.signals();
    put(&store, draft("p", "plain", "1")).await;
    assert_eq!(signals.next().now_or_never(), None);
    put(&store, job("p", 1)).await;
    assert_eq!(signals.next().now_or_never(), Some(Signal::Placed(WORK)));
    let taken = one(&store, Op::Create(job("p", 1))).await;
    assert!(matches!(taken, Err(Error::Conflict { .. })));
    assert_eq!(
        signals.next().now_or_never(),
        None,
        "what did not happen is not told of"
    );
}

//! Several handles on one container, and replicas that lag.

use crate::support::{Fixture, draft, key, one, put};
use azure_data_cosmos::FeedScope;
use futures::{FutureExt, StreamExt};
use perennial_cosmos_server::Options;
use perennial_store::{
    Commit, ConflictReason, Counter, DueQuery, Error, Lane, ListFilter, Listing, Op, Order, Partition, Place,
    ScanQuery, Signal, Store,
};
use std::time::Duration;

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

/// A handle reads what it wrote, however far behind its replica is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_reads_its_own_writes_from_a_replica_that_lags() {
    let fixture = Fixture::with(Options {
        replica: true,
        partitions: 3,
        ..Options::default()
    })
    .await;
    let (store, other) = (fixture.open().await, fixture.open().await);
    fixture.server.replica().unwrap().lag(u64::MAX).await;
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

/// A write of another handle may be read late, but a claim is never made twice, and a reader that has claimed reads the
/// latest state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_has_claimed_reads_what_the_other_wrote_before() {
    let fixture = Fixture::with(Options {
        replica: true,
        ..Options::default()
    })
    .await;
    let (writer, reader) = (fixture.open().await, fixture.open().await);
    let old = put(&writer, draft("p", "head", "1")).await;
    put(&writer, draft("p", "page", "old")).await;
    reader.get(&key("p", "head")).await.unwrap().unwrap();
    fixture.server.replica().unwrap().lag(u64::MAX).await;
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
    assert_eq!(fresh.body, "new", "a read after a commit is as new as the commit");
    let page = reader.scan(&ScanQuery::all(Partition::new("p"), 10)).await.unwrap();
    assert_eq!(page.records[1].body, "new");
}

/// Handles that close one after the other, or all at once, add up their totals although the replica shows them nothing
/// new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_handles_add_up_behind_a_replica_that_lags() {
    let mut fixture = Fixture::with(Options {
        replica: true,
        ..Options::default()
    })
    .await;
    fixture.settings.counters_interval = Duration::from_secs(3600);
    let counter = Counter::new("n");
    let mut stores = Vec::new();
    for _ in 0..14 {
        stores.push(fixture.open().await);
    }
    fixture.server.replica().unwrap().lag(u64::MAX).await;
    for store in &stores {
        let commit = Commit::new(vec![Op::Put(draft("p", "a", "1"))]);
        store.commit(commit.count(counter.clone(), 1)).await.unwrap();
    }
    for store in stores.drain(..2) {
        store.close().await.unwrap();
    }
    for closed in futures::future::join_all(stores.iter().map(|store| store.close())).await {
        closed.unwrap();
    }
    fixture.server.replica().unwrap().keep_up().await;
    assert_eq!(fixture.open().await.counters().await.unwrap(), [(counter, 14)]);
}

/// Of two handles, each counts its own and sees the other's; a killed one loses little, a closed one nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_of_all_handles_add_up() {
    let mut fixture = Fixture::new().await;
    // Nothing is written except at the end.
    fixture.settings.counters_interval = Duration::from_secs(3600);
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
            let totals = store.counters().await.unwrap();
            totals
                .into_iter()
                .find(|(name, _)| *name == counter)
                .map_or(0, |(_, total)| total)
        }
    };
    let keeper = fixture.open().await;
    count(keeper.clone(), 1).await;
    for round in 1..=40_i64 {
        let store = fixture.open().await;
        count(store.clone(), 2).await;
        assert_eq!(total(store.clone()).await, 2 * round, "own counts are exact");
        store.close().await.unwrap();
    }
    assert_eq!(total(keeper.clone()).await, 81);
    keeper.close().await.unwrap();
    let store = fixture.open().await;
    assert_eq!(total(store.clone()).await, 81);
    assert_eq!(totals(&fixture).await.len(), 1, "closed handles leave one document");
}

/// The documents of totals.
async fn totals(fixture: &Fixture) -> Vec<serde_json::Value> {
    let container = fixture.container().await;
    let documents = container
        .query_items("SELECT * FROM c", FeedScope::partition("%tally"), None)
        .await;
    documents.unwrap().map(Result::unwrap).collect().await
}

/// The document of totals of a handle that was killed.
fn left_behind(id: &str, written: u64, total: i64) -> serde_json::Value {
    serde_json::json!({
        "id": id, "partition": "%tally", "commit": "c", "written": written, "totals": { "n": total },
    })
}

/// Processes that were killed leave their documents behind; those do not accumulate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_of_dead_handles_are_folded_together() {
    let fixture = Fixture::new().await;
    let container = fixture.container().await;
    for n in 0..50 {
        let id = format!("handle-{n}");
        let document = left_behind(&id, 1, n);
        container.create_item("%tally", &id, document, None).await.unwrap();
    }
    let now = left_behind("handle-live", u64::MAX >> 12, 7);
    container.create_item("%tally", "handle-live", now, None).await.unwrap();
    let store = fixture.open().await;
    let expected = (0..50).sum::<i64>() + 7;
    for _ in 0..3 {
        assert_eq!(store.counters().await.unwrap(), [(Counter::new("n"), expected)]);
    }
    let left = totals(&fixture).await;
    assert!(left.len() <= 32, "{}", left.len());
    assert!(left.iter().any(|document| document["id"] == "handle-live"));
}

/// A handle that was taken for dead goes on counting, and nothing counts twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_that_another_handle_took_over_count_once() {
    let mut fixture = Fixture::new().await;
    fixture.settings.counters_interval = Duration::from_millis(20);
    let store = fixture.open().await;
    let container = fixture.container().await;
    let count = |by: i64| {
        let op = Op::Put(draft("p", "a", "1"));
        store.commit(Commit::new(vec![op]).count(Counter::new("n"), by))
    };
    let mut sum = 0;
    for round in 0..3_i64 {
        count(5).await.unwrap();
        sum += 5;
        let own = loop {
            let written = totals(&fixture).await;
            let own = written.into_iter().find(|document| document["id"] != "common");
            match own.filter(|own| own["totals"]["n"] == 5) {
                Some(own) => break own["id"].as_str().unwrap().to_owned(),
                None => tokio::task::yield_now().await,
            }
        };
        container.delete_item("%tally", &own, None).await.unwrap();
        let common = left_behind("common", 1, 5 * (round + 1));
        container.upsert_item("%tally", "common", common, None).await.unwrap();
        if round == 1 {
            assert_eq!(store.counters().await.unwrap(), [(Counter::new("n"), sum)]);
        }
    }
    count(2).await.unwrap();
    store.close().await.unwrap();
    let store = fixture.open().await;
    assert_eq!(store.counters().await.unwrap(), [(Counter::new("n"), sum + 2)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_the_handle_are_signalled() {
    let fixture = Fixture::new().await;
    let store = fixture.open().await;
    let mut signals = store.signals();
    put(&store, draft("p", "plain", "1")).await;
    assert_eq!(signals.next().now_or_never(), None);
    put(&store, job("p", 1)).await;
    assert_eq!(signals.next().now_or_never(), Some(Signal::Placed(WORK)));
    let taken = one(&store, Op::Create(job("p", 1))).await;
    assert!(matches!(taken, Err(Error::Conflict { .. })));
    assert_eq!(signals.next().now_or_never(), None, "a failed commit is not signalled");
}

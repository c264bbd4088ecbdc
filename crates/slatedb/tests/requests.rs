//! How many requests an engine makes.

#![allow(clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use perennial_kv::{KvStore, OrderedKv, Table, Write};
use perennial_slatedb::{Bucket, Class, Counts, Description, Opening, Operation, Requests, Settings, Shard};
use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId, Store, SystemClock};
use support::{batch, get, open, put};

fn metered() -> (Bucket, Requests) {
    support::bucket().metered()
}

/// The requests for data, without those by which the owner looks after the database now and then.
fn data(counts: &Counts) -> u64 {
    let is_data = |class: &Class| matches!(class, Class::Log | Class::Tables);
    counts
        .kinds()
        .filter(|(_, class, _)| is_data(class))
        .map(|(_, _, count)| count)
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_batch_is_one_write_and_no_read() {
    let (bucket, requests) = metered();
    let engine = open(&bucket).await;
    for number in 0..20 {
        let before = requests.counts();
        engine
            .write(batch([put(&format!("{number}"), "x"), put("same", "x")]), true)
            .unwrap();
        assert_eq!(get(&engine, "same").as_deref(), Some("x"));
        assert_eq!(get(&engine, "missing"), None);
        let counts = requests.counts().since(&before);
        assert_eq!(
            (counts.of(Operation::Put, Class::Log), data(&counts)),
            (1, 1),
            "{counts:?}"
        );
    }
    let before = requests.counts();
    engine.write(batch([put("relaxed", "x")]), false).unwrap();
    engine.write(batch([put("relaxed", "y")]), false).unwrap();
    assert_eq!(data(&requests.counts().since(&before)), 0);
    engine.write(batch([]), true).unwrap();
    engine.write(batch([]), true).unwrap();
    assert_eq!(data(&requests.counts().since(&before)), 1);
}

/// What it takes until a store can be used.
async fn opened(bucket: &Bucket, requests: &Requests) -> (KvStore<perennial_slatedb::SlateEngine>, Counts) {
    let before = requests.counts();
    let (settings, clock) = (Settings::default(), SystemClock::shared());
    Description::prepare(bucket, &settings, &clock).await.unwrap();
    let engine = open(bucket).await;
    let store = KvStore::with_engine(engine, perennial_kv::Settings::default()).unwrap();
    (store, requests.counts().since(&before))
}

async fn write_some(store: &impl Store, count: usize) {
    for number in 0..count {
        let key = Key::new(Partition::new(format!("{number}")), RecordId::of("head"));
        store
            .commit(Commit::new(vec![Op::Put(Draft::new(key, "x"))]))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_takes_few_requests() {
    let (bucket, requests) = metered();
    let (store, counts) = opened(&bucket, &requests).await;
    println!("first: {} {counts:?}", counts.total());
    assert!(counts.total() <= 50, "{counts:?}");
    write_some(&store, 50).await;
    store.close().await.unwrap();
    drop(store);
    let (store, counts) = opened(&bucket, &requests).await;
    println!("clean: {} {counts:?}", counts.total());
    assert!(counts.total() <= 50, "{counts:?}");
    for _ in 0..3 {
        write_some(&store, 50).await;
    }
    std::mem::forget(store);
    let (_store, counts) = opened(&bucket, &requests).await;
    println!("crash: {} {counts:?}", counts.total());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_bounded() {
    let (bucket, requests) = metered();
    let settings = Settings {
        log_objects: 10,
        ..Settings::default()
    };
    let engine = Opening::new(settings).open(&bucket, Shard(0)).await.unwrap();
    let mut tables = 0;
    for number in 0..100 {
        engine.write(batch([put(&format!("{number}"), "x")]), true).unwrap();
        tables = requests.counts().of(Operation::Put, Class::Tables);
    }
    assert!(tables >= 5, "{:?}", requests.counts());
    std::mem::forget(engine);
    let before = requests.counts();
    let engine = open(&bucket).await;
    let counts = requests.counts().since(&before);
    println!("recovery: {counts:?}");
    assert!(counts.of(Operation::Get, Class::Log) <= 30, "{counts:?}");
    assert_eq!(get(&engine, "99").as_deref(), Some("x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_looked_up_without_a_request() {
    let (bucket, requests) = metered();
    let settings = Settings {
        memtable_bytes: 1024 * 1024,
        unflushed_bytes: 8 * 1024 * 1024,
        ..Settings::default()
    };
    let engine = Opening::new(settings).open(&bucket, Shard(0)).await.unwrap();
    let value = Bytes::from(vec![7; 200]);
    let write = |number: u32| Write::Put {
        table: Table::Records,
        key: Bytes::from(format!("workflow-{number:09}")),
        value: value.clone(),
    };
    for group in 0..100 {
        engine
            .write((0..1000).map(|number| write(group * 1000 + number)).collect(), true)
            .unwrap();
    }
    let before = requests.counts();
    for number in 0..10_000_u32 {
        let key = format!("workflow-{number:09}-missing");
        assert_eq!(engine.get(Table::Records, key.as_bytes()).unwrap(), None);
    }
    let counts = requests.counts().since(&before);
    println!("10,000 missing keys: {counts:?}");
    assert!(counts.of(Operation::Get, Class::Tables) <= 300, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_opening_has_read_of_the_log_the_next_one_does_not() {
    let (bucket, requests) = metered();
    for round in 0..5 {
        let before = requests.counts();
        let engine = open(&bucket).await;
        let counts = requests.counts().since(&before);
        assert!(counts.of(Operation::Get, Class::Log) <= 25, "{round}: {counts:?}");
        for number in 0..20 {
            engine
                .write(batch([put(&format!("{round} {number}"), "x")]), true)
                .unwrap();
        }
        // What was read is written as a table, in the background.
        while round > 0 && requests.counts().since(&before).of(Operation::Put, Class::Manifest) < 2 {
            tokio::task::yield_now().await;
        }
        std::mem::forget(engine);
    }
}

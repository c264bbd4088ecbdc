//! A million finished workflows change neither what an opening costs nor what a look-up of a missing key costs.
//!
//! Takes minutes: `cargo test --release -p perennial-slatedb --test million -- --ignored --nocapture`

#![allow(clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use perennial_kv::{KvStore, OrderedKv, Span, Table, Write};
use perennial_slatedb::{Bucket, Class, Counts, Opening, Operation, Requests, Settings, Shard, SlateEngine};
use perennial_store::Clock;
use slatedb::admin::Admin;
use std::time::Duration;
use support::fast::FastClock;

const WORKFLOWS: u32 = 1_000_000;
const GROUP: u32 = 2_000;

/// What a finished workflow leaves: its head, a page of its history, and two keys by which it is listed.
fn finished(number: u32) -> [Write; 4] {
    // Ids as people make them: no order in time.
    let id = format!("{:08x}-{number}", number.wrapping_mul(2_654_435_761));
    let put = |table, key: String, length| Write::Put {
        table,
        key: key.into(),
        value: Bytes::from(vec![b'x'; length]),
    };
    [
        put(Table::Listed, format!("{id}\0\u{1}head"), 120),
        put(Table::Records, format!("{id}\0\u{1}history/1"), 300),
        put(Table::Index, format!("sinstance\0\u{1}Completed\0\u{1}{id}"), 0),
        put(Table::Index, format!("pinstance\0\u{1}\0\u{1}{id}"), 0),
    ]
}

/// Ten look-ups of keys that do not exist, as a new workflow makes them.
fn look_up(engine: &SlateEngine, round: u32) {
    let id = format!("{:08x}-new-{round}", round.wrapping_mul(2_246_822_519));
    for name in ["head", "history/1", "message/1"] {
        for table in [Table::Records, Table::Listed, Table::Queue] {
            let key = format!("{id}\0\u{1}{name}");
            assert_eq!(engine.get(table, key.as_bytes()).unwrap(), None);
        }
    }
    assert_eq!(engine.get(Table::Records, id.as_bytes()).unwrap(), None);
}

fn reads_per_round(engine: &SlateEngine, requests: &Requests, rounds: std::ops::Range<u32>) -> f64 {
    let before = requests.counts();
    let count = rounds.len() as f64;
    rounds.for_each(|round| look_up(engine, round));
    let counts = requests.counts().since(&before);
    counts.of(Operation::Get, Class::Tables) as f64 / count
}

async fn open(bucket: &Bucket, requests: &Requests) -> (SlateEngine, Counts) {
    let before = requests.counts();
    let engine = Opening::new(Settings::default()).open(bucket, Shard(0)).await.unwrap();
    let view = engine.view();
    assert_eq!(view.scan(Table::Queue, &Span::all(), 4096).unwrap(), []);
    drop(view);
    (engine, requests.counts().since(&before))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn a_million_finished_workflows() {
    let (bucket, requests) = support::bucket().metered();
    let (engine, counts) = open(&bucket, &requests).await;
    println!("opening an empty store: {} {counts:?}", counts.total());
    for group in 0..WORKFLOWS / GROUP {
        let writes = (0..GROUP).flat_map(|number| finished(group * GROUP + number));
        engine.write(writes.collect(), true).unwrap();
        // A workflow that comes and goes.
        let key = Bytes::from(format!("{group:08}\0\u{1}message"));
        let value = Bytes::from_static(b"x");
        let table = Table::Queue;
        engine
            .write(
                vec![Write::Put {
                    table,
                    key: key.clone(),
                    value,
                }],
                true,
            )
            .unwrap();
        engine.write(vec![Write::Delete { table, key }], true).unwrap();
    }
    println!("while loaded: {:?}", requests.counts());
    println!(
        "GETs per workflow while tables are merged: {:.3}",
        reads_per_round(&engine, &requests, 0..2_000)
    );
    let admin = Admin::builder("some/prefix/0/db", bucket.objects().clone()).build();
    let clock = FastClock::new(1);
    loop {
        let manifest = admin.read_manifest(None).await.unwrap().unwrap();
        let merges = admin.read_compactions(None).await.unwrap();
        let is_busy = merges.is_some_and(|merges| merges.recent_compactions().any(|merge| merge.active()));
        println!(
            "tables: {} of memory, runs {}",
            manifest.l0().len(),
            manifest.compacted().len()
        );
        if manifest.l0().len() < 4 && !is_busy {
            break;
        }
        clock.sleep(Duration::from_secs(10)).await;
    }
    clock.sleep(Duration::from_secs(60)).await;
    println!(
        "GETs per workflow, first 200: {:.3}",
        reads_per_round(&engine, &requests, 2_000..2_200)
    );
    println!(
        "GETs per workflow, next 2,000: {:.3}",
        reads_per_round(&engine, &requests, 3_000..5_000)
    );
    drop(engine);
    let (engine, counts) = open(&bucket, &requests).await;
    println!("opening with a million: {} {counts:?}", counts.total());
    assert!(counts.total() <= 40, "{counts:?}");
    let cold = reads_per_round(&engine, &requests, 5_000..5_200);
    println!("GETs per workflow after opening, first 200: {cold:.3}");
    assert!(cold <= 0.3, "{cold}");
    let warm = reads_per_round(&engine, &requests, 6_000..8_000);
    println!("GETs per workflow after opening, next 2,000: {warm:.3}");
    assert!(warm <= 0.3, "{warm}");
    drop(engine);
    let before = requests.counts();
    let engine = Opening::new(Settings::default()).open(&bucket, Shard(0)).await.unwrap();
    let store = KvStore::with_engine(engine, perennial_kv::Settings::default()).unwrap();
    let counts = requests.counts().since(&before);
    println!("opening the store on it: {} {counts:?}", counts.total());
    drop(store);
}

//! Random commits and queries: the store returns the same as the one in memory, also while replies are lost.

use crate::support::{Fixture, Random, key};
use perennial_cosmos_server::{Fault, Options, Rule, When};
use perennial_kv::{MemoryStore, Settings};
use perennial_store::{
    Commit, ConflictReason, Counter, Draft, DueQuery, Error, Lane, ListFilter, Listing, Op, Order, Partition, Place,
    Record, RecordId, ScanQuery, Store, Topics, Version,
};
use std::collections::HashMap;

const PARTITIONS: [&str; 3] = ["p", "é/\"", ""];
const IDS: [&str; 6] = ["head", "job/1", "job/2", "job", "é", ""];

impl Random {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// The versions that both stores have assigned to the same write.
type Versions = HashMap<(usize, usize), Vec<(Version, Version)>>;

/// A draft that places and lists its record at random.
fn draft(random: &mut Random, partition: usize, id: usize, order: u64) -> Draft {
    let body = random.one(&[
        r#"{"b":1,"a":[2,3]}"#,
        "text",
        "[]",
        "\u{0}",
        "",
        r#"{"n":9007199254740993}"#,
    ]);
    let mut draft = Draft::new(key(PARTITIONS[partition], IDS[id]), body);
    if random.below(2) == 0 {
        draft = draft.placed(Place {
            lane: Lane::topic("work", random.one(&[None, Some("a"), Some("b")]).map(Into::into)),
            order: Order(order),
            due_ms: random.one(&[0, 5, 10, u64::MAX]),
        });
    }
    if random.below(3) == 0 {
        draft = draft.listed(Listing {
            kind: "instance".into(),
            status: random.one(&["new", "done"]).into(),
            name: random.one(&["x", "y"]).into(),
            parent: random.one(&[None, Some("root")]).map(str::to_owned),
            created_ms: 1,
            completed_ms: random.one(&[None, Some(5), Some(10)]),
        });
    }
    draft
}

/// The same commit for both stores, each with its own versions.
fn commits(random: &mut Random, versions: &Versions, order: u64) -> (usize, Vec<usize>, [Vec<Op>; 2]) {
    let partition = random.below(PARTITIONS.len());
    let mut ids: Vec<usize> = (0..IDS.len()).collect();
    for n in (1..ids.len()).rev() {
        ids.swap(n, random.below(n + 1));
    }
    ids.truncate(1 + random.below(4));
    let mut ops = [Vec::new(), Vec::new()];
    for id in &ids {
        let known = versions.get(&(partition, *id));
        let version = known.map(|known| match random.below(4) {
            0 => known[random.below(known.len())].clone(),
            _ => known[known.len() - 1].clone(),
        });
        let draft = draft(random, partition, *id, order * 10 + *id as u64);
        let key = draft.key.clone();
        let pair = match (random.below(7), version) {
            (0, _) => [Op::Create(draft.clone()), Op::Create(draft)],
            (1, _) => [Op::Put(draft.clone()), Op::Put(draft)],
            (2, _) => [Op::Remove(key.clone()), Op::Remove(key)],
            (3, _) => [Op::Absent(key.clone()), Op::Absent(key)],
            (4, Some((a, b))) => [Op::Delete(key.clone(), a), Op::Delete(key, b)],
            (_, Some((a, b))) => [Op::Replace(draft.clone(), a), Op::Replace(draft, b)],
            (_, None) => [Op::Create(draft.clone()), Op::Create(draft)],
        };
        for (ops, op) in ops.iter_mut().zip(pair) {
            ops.push(op);
        }
    }
    (partition, ids, ops)
}

/// A record without its version, its body as a value where it is JSON.
type Shape = (
    String,
    String,
    Result<serde_json::Value, Vec<u8>>,
    Option<Place>,
    Option<Listing>,
);

fn shape(record: Record) -> Shape {
    let body = serde_json::from_slice(&record.body).map_err(|_| record.body.to_vec());
    let (partition, id) = (record.key.partition.to_string(), record.key.id.to_string());
    (partition, id, body, record.place, record.listing)
}

async fn compare(memory: &dyn Store, cosmos: &dyn Store, random: &mut Random) {
    for partition in PARTITIONS {
        let mut query = ScanQuery::all(Partition::new(partition), 1 + random.below(5));
        query.under = random.one(&[None, Some("job"), Some("")]).map(RecordId::from_raw);
        query.after = random.one(&[None, Some("job"), Some("job/1")]).map(RecordId::from_raw);
        let (a, b) = (memory.scan(&query).await.unwrap(), cosmos.scan(&query).await.unwrap());
        assert_eq!(a.next, b.next, "{query:?}");
        let shapes = |records: Vec<Record>| records.into_iter().map(shape).collect::<Vec<_>>();
        assert_eq!(shapes(a.records), shapes(b.records), "{query:?}");
    }
    let mut query = DueQuery::new(&Lane::new("work"), random.one(&[0, 5, u64::MAX]), 1 + random.below(8));
    query.topics = match random.below(3) {
        0 => Topics::All,
        1 => Topics::Default,
        _ => Topics::These {
            topics: ["a".into()].into(),
            default: random.below(2) == 0,
        },
    };
    let (a, b) = (memory.due(&query).await.unwrap(), cosmos.due(&query).await.unwrap());
    assert_eq!(a.more, b.more, "{query:?}");
    let shapes = |records: Vec<Record>| records.into_iter().map(shape).collect::<Vec<_>>();
    assert_eq!(shapes(a.records), shapes(b.records), "{query:?}");
    let filter = ListFilter {
        status: random.one(&[None, Some("new")]).map(Into::into),
        name: random.one(&[None, Some("x")]).map(Into::into),
        parent: random.one(&[None, Some("root")]).map(Into::into),
        completed_before_ms: random.one(&[None, Some(10), Some(11)]),
        ..ListFilter::kind("instance")
    };
    assert_eq!(
        listed(memory, &filter).await,
        listed(cosmos, &filter).await,
        "{filter:?}"
    );
    assert_eq!(memory.counters().await.unwrap(), cosmos.counters().await.unwrap());
}

async fn listed(store: &dyn Store, filter: &ListFilter) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.list(filter, cursor.as_ref(), 3).await.unwrap();
        found.extend(
            page.entries
                .into_iter()
                .map(|entry| format!("{} {:?}", entry.key, entry.listing)),
        );
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    found.sort();
    found
}

async fn run(seed: u64, fault: Option<(Fault, u32)>) {
    let fixture = Fixture::with(Options {
        partitions: 2,
        page_cap: 4,
        ..Options::default()
    })
    .await;
    let cosmos = fixture.open().await;
    if let Some((fault, per_million)) = fault {
        fixture
            .server
            .faults()
            .add(Rule::new(fault, When::Chance { per_million, seed }));
    }
    let memory = MemoryStore::open(Settings::default()).unwrap();
    let mut random = Random(seed);
    let mut versions = Versions::new();
    let (mut successes, mut conflicts) = (0, 0);
    for round in 0..150 {
        let (partition, ids, [a, b]) = commits(&mut random, &versions, round);
        let only_deletes = a.iter().all(|op| op.draft().is_none());
        let told = format!("seed {seed}, round {round}: {a:?}");
        let a = memory.commit(Commit::new(a).count(Counter::new("n"), 1)).await;
        let b = cosmos.commit(Commit::new(b).count(Counter::new("n"), 1)).await;
        match (a, b) {
            (Ok(a), Ok(b)) => {
                successes += 1;
                for (n, pair) in a.versions.into_iter().zip(b.versions).enumerate() {
                    match pair {
                        (Some(a), Some(b)) => versions.entry((partition, ids[n])).or_default().push((a, b)),
                        (None, None) => {}
                        pair => panic!("{told}: {pair:?}"),
                    }
                }
            }
            (Err(a @ Error::Conflict { .. }), Err(b)) => {
                conflicts += 1;
                assert_eq!(a, b, "{told}");
            }
            // A commit that only deletes, and whose reply was lost, takes missing records for deleted.
            (Err(Error::Conflict { reason, .. }), Ok(_))
                if fault.is_some() && only_deletes && reason == ConflictReason::Missing =>
            {
                let count = Commit::default().count(Counter::new("n"), 1);
                memory.commit(count).await.unwrap();
            }
            outcomes => panic!("{told}: {outcomes:?}"),
        }
        if round % 10 == 9 {
            compare(&memory, &cosmos, &mut random).await;
        }
    }
    assert!(
        successes > 30 && conflicts > 30,
        "{successes} succeeded, {conflicts} did not"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_behaves_like_the_one_in_memory() {
    for seed in 0..4 {
        run(seed, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn also_while_replies_are_lost() {
    // So often that every kind of commit is hit, again and again.
    for (seed, fault) in [Fault::LostReply, Fault::timeout(true), Fault::LostRequest]
        .into_iter()
        .enumerate()
    {
        run(100 + seed as u64, Some((fault, 200_000))).await;
    }
}

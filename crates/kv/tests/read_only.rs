//! A process that does not own a store reads the same as its owner.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use perennial_kv::{MemoryDisk, MemoryStore, ReadOnlyStore, Settings, Table};
use perennial_store::{
    Commit, Counter, Draft, DueQuery, Error, Key, Lane, ListFilter, Listing, Op, Order, Partition, Place, RecordId,
    ScanQuery, Sharing, Slot, SlotSet, Store, Topics,
};

const PARTITIONS: [&str; 5] = ["", "a", "a\0b", "b/c", "é"];

/// A store with records of all sorts: queued, listed, both and neither; some overwritten as another sort, some deleted.
async fn filled() -> (MemoryDisk, MemoryStore) {
    let disk = MemoryDisk::default();
    let store = MemoryStore::open_disk(&disk, Settings::default()).unwrap();
    for round in 0..3_u64 {
        for number in 0..60_u64 {
            let partition = PARTITIONS[number as usize % 5];
            let id = RecordId::of(["x", "x/y", "z"][number as usize % 3]).number(number / 5);
            let key = Key::new(Partition::new(partition), id);
            let mut draft = Draft::new(key.clone(), format!("{round} {number}"));
            if (number + round) % 2 == 0 {
                let topic = (number % 4 == 0).then(|| "gpu".into());
                draft = draft.placed(Place {
                    lane: Lane::topic(["turn", "work"][number as usize / 2 % 2], topic),
                    order: Order(1000 - number),
                    due_ms: number * 10,
                });
            }
            if (number / 2 + round) % 3 == 0 {
                draft = draft.listed(Listing {
                    kind: ["instance", "job"][usize::from(number % 7 == 0)].into(),
                    status: ["Running", "Completed"][number as usize % 2].into(),
                    name: format!("name {}", number % 3),
                    parent: (number % 4 == 1).then(|| format!("parent {}", number % 8)),
                    created_ms: number,
                    completed_ms: (number % 2 == 1).then_some(number),
                });
            }
            let op = match (number + round) % 11 {
                0 => Op::Remove(key),
                _ => Op::Put(draft),
            };
            let counter = Counter::new(["one", "two"][number as usize % 2]);
            let commit = Commit::new(vec![op]).count(counter, number as i64 - 20);
            store.commit(commit).await.unwrap();
        }
    }
    (disk, store)
}

fn filters() -> Vec<ListFilter> {
    let all = ListFilter::kind("instance");
    let status = ListFilter {
        status: Some("Running".into()),
        ..all.clone()
    };
    let parent = ListFilter {
        parent: Some("parent 5".to_owned()),
        ..all.clone()
    };
    let name = ListFilter {
        name: Some("name 1".to_owned()),
        completed_before_ms: Some(40),
        ..all.clone()
    };
    vec![
        all,
        status,
        parent,
        name,
        ListFilter::kind("job"),
        ListFilter::kind("none"),
    ]
}

#[tokio::test]
async fn it_reads_the_same_as_the_owner() {
    let (disk, owner) = filled().await;
    let reader = ReadOnlyStore::new(disk.clone(), owner.limits());
    let keys = disk.keys();
    assert!(keys.len() > 30);
    for key in &keys {
        assert_eq!(reader.get(key).await, owner.get(key).await);
    }
    let missing = Key::new(Partition::new("a"), RecordId::of("nothing"));
    assert_eq!(reader.get(&missing).await, Ok(None));
    for partition in PARTITIONS {
        for under in [None, Some("x"), Some("x/y"), Some("none")] {
            for limit in [1, 2, 5, 1000] {
                let mut query = ScanQuery::all(Partition::new(partition), limit);
                query.under = under.map(RecordId::of);
                query.keys_only = limit == 2;
                loop {
                    let page = reader.scan(&query).await.unwrap();
                    assert_eq!(page, owner.scan(&query).await.unwrap(), "{query:?}");
                    let Some(next) = page.next else { break };
                    query.after = Some(next);
                }
            }
        }
    }
    assert_eq!(reader.counters().await, owner.counters().await);
}

#[tokio::test]
async fn it_lists_the_same_as_the_owner() {
    let (disk, owner) = filled().await;
    let reader = ReadOnlyStore::new(disk, owner.limits());
    let mut entries = 0;
    for filter in filters() {
        for limit in [1, 3, 1000] {
            let mut after = None;
            loop {
                let page = reader.list(&filter, after.as_ref(), limit).await.unwrap();
                let expected = owner.list(&filter, after.as_ref(), limit).await.unwrap();
                assert_eq!(page, expected, "{filter:?}");
                let records = reader.list_records(&filter, after.as_ref(), limit).await.unwrap();
                assert_eq!(
                    records,
                    owner.list_records(&filter, after.as_ref(), limit).await.unwrap()
                );
                entries += page.entries.len();
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
    }
    assert!(entries > 60, "{entries}");
}

#[tokio::test]
async fn it_finds_the_same_in_queues_as_the_owner() {
    let (disk, owner) = filled().await;
    let reader = ReadOnlyStore::new(disk, owner.limits());
    let some = SlotSet::none().with(Slot::of(&Partition::new("a")));
    let topics = [
        Topics::All,
        Topics::Default,
        Topics::These {
            topics: ["gpu".into()].into(),
            default: false,
        },
    ];
    for lane in ["turn", "work", "none"] {
        for topics in &topics {
            for (until_ms, limit) in [(0, 9), (300, 1), (300, 4), (u64::MAX, 1000)] {
                for slots in [SlotSet::all(), some] {
                    let mut query = DueQuery::new(&Lane::new(lane), until_ms, limit);
                    query.topics = topics.clone();
                    query.slots = slots;
                    loop {
                        let page = reader.due(&query).await.unwrap();
                        let expected = owner.due(&query).await.unwrap();
                        assert_eq!(
                            (&page.records, page.more),
                            (&expected.records, expected.more),
                            "{query:?}"
                        );
                        query.after = page.end();
                        if !page.more {
                            break;
                        }
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn it_sees_later_commits_and_makes_none() {
    let (disk, owner) = filled().await;
    let reader = ReadOnlyStore::new(disk.clone(), owner.limits());
    assert_eq!(reader.sharing(), Sharing::Shared);
    let key = Key::new(Partition::new("new"), RecordId::of("head"));
    let put = || Commit::new(vec![Op::Put(Draft::new(key.clone(), "{}"))]);
    let refused = reader.commit(put()).await.unwrap_err();
    assert!(
        matches!(refused, Error::Invalid(_)) && refused.to_string().contains("only reads"),
        "{refused}"
    );
    assert_eq!(reader.get(&key).await, Ok(None));
    owner.commit(put()).await.unwrap();
    assert!(reader.get(&key).await.unwrap().is_some());
    reader.close().await.unwrap();
    assert!(matches!(reader.get(&key).await, Err(Error::Closed(_))));
    assert!(owner.get(&key).await.unwrap().is_some());
}

#[tokio::test]
async fn a_damaged_record_hurts_only_itself() {
    let (disk, owner) = filled().await;
    let reader = ReadOnlyStore::new(disk.clone(), owner.limits());
    let all = reader.list(&ListFilter::kind("instance"), None, 1000).await.unwrap();
    let (key, _) = disk.entries(Table::Listed)[0].clone();
    disk.put_raw(Table::Listed, key, "garbage");
    let rest = reader.list(&ListFilter::kind("instance"), None, 1000).await.unwrap();
    assert!(rest.entries.len() + 1 >= all.entries.len() && !rest.entries.is_empty());
    let (key, _) = disk.entries(Table::Queue)[0].clone();
    disk.put_raw(Table::Queue, key, "garbage");
    let queues = ["turn", "work"].map(|lane| DueQuery::new(&Lane::new(lane), u64::MAX, 1000));
    for query in &queues {
        assert!(!reader.due(query).await.unwrap().records.is_empty());
    }
}

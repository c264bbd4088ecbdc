//! One database, many handles: each sees the commits of the others, and nothing else connects them.

#![allow(clippy::unwrap_used)]

use futures::FutureExt;
use perennial_kv::{Settings, SharedMemory};
use perennial_store::{
    Commit, ConflictReason, Draft, DueQuery, Error, Key, Lane, Op, Order, Partition, Place, RecordId, Sharing, Signal,
};

const WORK: Lane = Lane::new("work");

fn key(id: &str) -> Key {
    Key::new(Partition::new("p"), RecordId::of(id))
}

fn queued(id: &str, due_ms: u64) -> Draft {
    Draft::new(key(id), "{}").placed(Place {
        lane: WORK,
        order: Order(1),
        due_ms,
    })
}

fn database() -> SharedMemory {
    SharedMemory::new(Settings::CLOUD_LIMITS).unwrap()
}

#[tokio::test]
async fn every_handle_sees_what_any_of_them_committed() {
    let database = database();
    let (one, other) = (database.open(), database.open());
    one.commit(Commit::new(vec![Op::Create(queued("a", 5))])).await.unwrap();
    let seen = other.get(&key("a")).await.unwrap().unwrap();
    let page = other.due(&DueQuery::new(&WORK, 5, 10)).await.unwrap();
    assert_eq!(page.records, std::slice::from_ref(&seen));
    other
        .commit(Commit::new(vec![Op::Delete(key("a"), seen.version.clone())]))
        .await
        .unwrap();
    let late = one.commit(Commit::new(vec![Op::Delete(key("a"), seen.version)])).await;
    let reason = ConflictReason::Missing;
    assert_eq!(late, Err(Error::Conflict { op: 0, reason }));
}

#[tokio::test]
async fn closing_a_handle_closes_no_other() {
    let database = database();
    let (one, other) = (database.open(), database.open());
    one.close().await.unwrap();
    assert!(matches!(one.get(&key("a")).await, Err(Error::Closed(_))));
    assert!(matches!(one.commit(Commit::default()).await, Err(Error::Closed(_))));
    other.commit(Commit::new(vec![Op::Put(queued("a", 0))])).await.unwrap();
    assert!(database.open().get(&key("a")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_handle_signals_its_own_commits_only() {
    let database = database();
    let (one, other) = (database.open(), database.open());
    let (mut own, mut foreign) = (one.signals(), other.signals());
    one.commit(Commit::new(vec![Op::Put(queued("a", 0))])).await.unwrap();
    assert_eq!(own.next().now_or_never(), Some(Signal::Placed(WORK)));
    assert_eq!(foreign.next().now_or_never(), None);
}

#[tokio::test]
async fn it_has_the_properties_of_a_database_in_the_cloud() {
    let handle = database().open();
    assert_eq!(handle.sharing(), Sharing::Shared);
    assert_eq!(handle.epoch(), 0);
    assert_eq!(handle.limits(), Settings::CLOUD_LIMITS);
    handle
        .commit(Commit::new(vec![Op::Put(queued("a", 90))]).relaxed())
        .await
        .unwrap();
    let page = handle.due(&DueQuery::new(&WORK, 5, 10)).await.unwrap();
    assert_eq!(page.next_due_ms, None, "the time of the next record is unknown");
}

//! Helpers that the tests share.

use crate::{
    Commit, ConflictReason, Draft, DuePage, DueQuery, Error, Key, Lane, ListFilter, Listing, Op, Order, Partition,
    Place, Record, RecordId, ScanPage, ScanQuery, Store, Version,
};

pub(super) const WORK: Lane = Lane::new("work");

pub(super) fn key(partition: &str, id: &str) -> Key {
    Key::new(Partition::new(partition), RecordId::from_raw(id))
}

pub(super) fn draft(partition: &str, id: &str, body: &str) -> Draft {
    Draft::new(key(partition, id), body.to_owned())
}

pub(super) fn place(topic: Option<&str>, order: u64, due_ms: u64) -> Place {
    Place {
        lane: Lane::topic("work", topic.map(Into::into)),
        order: Order(order),
        due_ms,
    }
}

pub(super) fn queued(partition: &str, id: &str, order: u64, due_ms: u64) -> Draft {
    draft(partition, id, id).placed(place(None, order, due_ms))
}

pub(super) fn listing(status: &'static str, name: &str) -> Listing {
    Listing {
        kind: "instance".into(),
        status: status.into(),
        name: name.into(),
        parent: None,
        created_ms: 1,
        completed_ms: None,
    }
}

pub(super) fn listed(partition: &str, status: &'static str) -> Draft {
    draft(partition, "head", "{}").listed(listing(status, "name"))
}

/// Commits one operation and returns the version that it wrote.
pub(super) async fn one(store: &dyn Store, op: Op) -> Result<Option<Version>, Error> {
    let committed = store.commit(Commit::new(vec![op])).await?;
    assert_eq!(committed.versions.len(), 1, "one operation has one version");
    Ok(committed.versions[0].clone())
}

pub(super) async fn put(store: &dyn Store, draft: Draft) -> Version {
    one(store, Op::Put(draft))
        .await
        .unwrap()
        .expect("a put writes a version")
}

pub(super) async fn put_all(store: &dyn Store, drafts: impl IntoIterator<Item = Draft>) {
    for draft in drafts {
        put(store, draft).await;
    }
}

pub(super) async fn remove(store: &dyn Store, key: Key) {
    one(store, Op::Remove(key)).await.unwrap();
}

pub(super) async fn get(store: &dyn Store, key: &Key) -> Option<Record> {
    store.get(key).await.unwrap()
}

/// The body of a record, as text.
pub(super) async fn body(store: &dyn Store, key: &Key) -> Option<String> {
    let record = get(store, key).await?;
    Some(String::from_utf8(record.body.to_vec()).unwrap())
}

pub(super) fn conflict(op: usize, reason: ConflictReason) -> Error {
    Error::Conflict { op, reason }
}

pub(super) async fn scan(store: &dyn Store, query: &ScanQuery) -> ScanPage {
    store.scan(query).await.unwrap()
}

pub(super) fn ids(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.key.id.as_str()).collect()
}

/// All ids of a partition.
pub(super) async fn all_ids(store: &dyn Store, partition: &str) -> Vec<String> {
    let page = scan(store, &ScanQuery::all(Partition::new(partition), 10_000)).await;
    ids(&page.records).into_iter().map(str::to_owned).collect()
}

pub(super) async fn due(store: &dyn Store, query: &DueQuery) -> DuePage {
    store.due(query).await.unwrap()
}

/// The ids that are ready at a time, and when the next record is due.
pub(super) async fn due_at(store: &dyn Store, until_ms: u64) -> (Vec<String>, Option<u64>) {
    let page = due(store, &DueQuery::new(&WORK, until_ms, 100)).await;
    let ids = ids(&page.records).into_iter().map(str::to_owned).collect();
    (ids, page.next_due_ms)
}

/// The partitions that a listing returns, over pages of `limit`, sorted.
pub(super) async fn found(store: &dyn Store, filter: &ListFilter, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.list(filter, cursor.as_ref(), limit).await.unwrap();
        assert!(page.entries.len() <= limit, "a page holds no more than its limit");
        found.extend(page.entries.into_iter().map(|entry| entry.key.partition.to_string()));
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    found.sort();
    found
}

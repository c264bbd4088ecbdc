//! Chunks without a reference are deleted; those with one stay.

use crate::faulty::Fault;
use crate::fixture::*;
use perennial_store::{
    ChunkedStore, Clock, Commit, Draft, DueQuery, Error, Key, Lane, Op, Partition, RecordId, ScanQuery, Store, Swept,
};
use std::sync::Arc;

async fn manifests(fixture: &Fixture) -> Vec<(Key, u64)> {
    let page = fixture
        .memory
        .due(&DueQuery::new(&chunk_lane(), u64::MAX, 100))
        .await
        .unwrap();
    let manifests = page.records.into_iter();
    manifests
        .map(|record| (record.key, record.place.unwrap().due_ms))
        .collect()
}

#[tokio::test]
async fn what_was_overwritten_or_deleted_is_swept() {
    let fixture = Fixture::new(SMALL);
    for round in 0..5 {
        fixture.put("a", &text(300 * KB, round)).await;
        fixture.put("b", &text(300 * KB, round)).await;
    }
    fixture.put("b", "small").await;
    fixture.sweep().await;
    assert!(fixture.body("a").await.unwrap() == text(300 * KB, 4));
    assert_eq!(fixture.body("b").await.unwrap(), "small");
    assert_eq!(manifests(&fixture).await.len(), 1);
    fixture.remove("a").await;
    fixture.remove("b").await;
    fixture.sweep().await;
    assert_eq!(fixture.count(), 0);
}

#[tokio::test]
async fn a_record_recreated_under_the_same_id_does_not_keep_the_old_chunks() {
    let fixture = Fixture::new(SMALL);
    fixture.put("a", &text(300 * KB, 1)).await;
    fixture.remove("a").await;
    fixture.put("a", &text(300 * KB, 1)).await;
    assert_eq!(manifests(&fixture).await.len(), 2);
    fixture.sweep().await;
    assert_eq!(manifests(&fixture).await.len(), 1);
    assert!(fixture.body("a").await.unwrap() == text(300 * KB, 1));
}

#[tokio::test]
async fn chunks_in_use_are_checked_ever_more_rarely() {
    let fixture = Fixture::new(SMALL);
    fixture.put("a", &text(300 * KB, 1)).await;
    let mut waits = Vec::new();
    for _ in 0..10 {
        let (key, due_ms) = manifests(&fixture).await.pop().unwrap();
        waits.push((due_ms - fixture.clock.now_ms()) / MINUTE);
        fixture.clock.advance(due_ms - fixture.clock.now_ms() - 1);
        assert_eq!(
            fixture.chunked.sweep(&key).await,
            Ok(Swept::Nothing),
            "it is not due yet"
        );
        fixture.clock.advance(1);
        assert_eq!(fixture.chunked.sweep(&key).await, Ok(Swept::Kept));
        assert_eq!(
            fixture.chunked.sweep(&key).await,
            Ok(Swept::Nothing),
            "it was postponed"
        );
        assert!(fixture.body("a").await.unwrap() == text(300 * KB, 1));
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440]);
    fixture.remove("a").await;
    fixture.clock.advance(DAY);
    let (key, _) = manifests(&fixture).await.pop().unwrap();
    assert_eq!(fixture.chunked.sweep(&key).await, Ok(Swept::Removed));
    assert_eq!(fixture.chunked.sweep(&key).await, Ok(Swept::Nothing));
    assert_eq!(fixture.count(), 0);
}

#[tokio::test]
async fn more_chunks_than_one_commit_deletes_are_swept() {
    let fixture = Fixture::new(TINY);
    for size in KB..20 * KB {
        if size % 509 == 0 {
            fixture.put("a", &text(size, 1)).await;
            fixture.remove("a").await;
            fixture.sweep().await;
            assert_eq!(fixture.count(), 0, "{size} bytes");
        }
    }
}

#[tokio::test]
async fn only_manifests_can_be_swept() {
    let fixture = Fixture::new(SMALL);
    fixture.put("a", &text(300 * KB, 1)).await;
    let (manifest, _) = manifests(&fixture).await.pop().unwrap();
    let chunk = Key::new(Partition::new("p"), manifest.id.number(0));
    for other in [key("a"), key("part"), chunk] {
        assert!(matches!(fixture.chunked.sweep(&other).await, Err(Error::Invalid(_))));
    }
    let op = Op::Put(Draft::new(manifest.clone(), "mine"));
    let outcome = fixture.chunked.commit(Commit::new(vec![op])).await;
    assert!(matches!(outcome, Err(Error::Invalid(_))), "{outcome:?}");
    // Above another chunked store there is nothing to do.
    let above = ChunkedStore::new(fixture.chunked.clone(), fixture.clock.clone(), chunk_lane(), 2);
    fixture.clock.advance(DAY);
    assert!(matches!(above.sweep(&manifest).await, Err(Error::Invalid(_))));
    assert_eq!(above.limits(), fixture.chunked.limits());
    assert!(body(&above, "a").await.unwrap().unwrap() == text(300 * KB, 1));
}

/// Deleting a partition deletes everything in it, and needs no sweep.
#[tokio::test]
async fn chunks_are_deleted_with_their_partition() {
    let fixture = Fixture::new(SMALL);
    for id in ["a", "b", "c"] {
        fixture.put(id, &text(300 * KB, 1)).await;
    }
    let mut query = ScanQuery::all(Partition::new("p"), SMALL.ops_per_commit).keys_only();
    loop {
        let page = fixture.chunked.scan(&query).await.unwrap();
        let ops = page
            .records
            .into_iter()
            .map(|record| Op::Delete(record.key, record.version));
        fixture.chunked.commit(Commit::new(ops.collect())).await.unwrap();
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(fixture.count(), 0);
}

#[tokio::test]
async fn a_nonce_that_is_used_twice_does_no_harm() {
    let fixture = Fixture::new(SMALL);
    let twin = ChunkedStore::new(fixture.memory.clone(), fixture.clock.clone(), chunk_lane(), 1);
    fixture.put("a", &text(300 * KB, 1)).await;
    let op = Op::Put(Draft::new(key("b"), text(300 * KB, 2)));
    twin.commit(Commit::new(vec![op])).await.unwrap();
    assert!(fixture.body("a").await.unwrap() == text(300 * KB, 1));
    assert!(fixture.body("b").await.unwrap() == text(300 * KB, 2));
}

#[tokio::test]
async fn owners_may_have_any_name() {
    let fixture = Fixture::new(SMALL);
    let long = "n".repeat(KB);
    let names = ["", "\"quoted\"", "a/b\\c", "line\nend\u{0}", "😀", &long];
    for name in names {
        fixture.put(name, &text(100 * KB, 1)).await;
    }
    fixture.sweep().await;
    for name in names {
        assert!(fixture.body(name).await.unwrap() == text(100 * KB, 1), "{name:?}");
        fixture.remove(name).await;
    }
    fixture.sweep().await;
    assert_eq!(fixture.count(), 0);
}

#[tokio::test]
async fn several_partitions_in_one_commit_keep_their_chunks_apart() {
    let limits = perennial_store::Limits {
        partitions_per_commit: 10,
        ..SMALL
    };
    let fixture = Fixture::new(limits);
    let key = |n: u64| Key::new(Partition::new(format!("p{}", n % 3)), RecordId::of("r").number(n));
    let ops = (0..9).map(|n| Op::Create(Draft::new(key(n), text(90 * KB, n))));
    fixture.chunked.commit(Commit::new(ops.collect())).await.unwrap();
    fixture.sweep().await;
    for n in 0..9 {
        let record = fixture.chunked.get(&key(n)).await.unwrap().unwrap();
        assert!(record.body == text(90 * KB, n));
    }
    let chunked: Arc<ChunkedStore> = fixture.chunked.clone();
    let ops = (0..9).map(|n| Op::Remove(key(n)));
    chunked.commit(Commit::new(ops.collect())).await.unwrap();
    fixture.sweep().await;
    assert_eq!(fixture.count(), 0);
}

/// Each engine puts its manifests into a lane of its own, and sweeps no others.
#[tokio::test]
async fn manifests_of_another_lane_are_refused_and_stay() {
    let fixture = Fixture::new(SMALL);
    let lane = Lane::topic("jobs.chores", Some("parts".into()));
    let other = ChunkedStore::new(fixture.memory.clone(), fixture.clock.clone(), lane.clone(), 2);
    let op = Op::Put(Draft::new(key("a"), text(300 * KB, 1)));
    other.commit(Commit::new(vec![op])).await.unwrap();
    let op = Op::Remove(key("a"));
    other.commit(Commit::new(vec![op])).await.unwrap();
    assert!(manifests(&fixture).await.is_empty());
    fixture.clock.advance(DAY);
    let query = DueQuery::new(&lane, fixture.clock.now_ms(), 100);
    let before = fixture.memory.due(&query).await.unwrap().records;
    let [manifest] = &before[..] else { panic!("{before:?}") };
    assert!(matches!(
        fixture.chunked.sweep(&manifest.key).await,
        Err(Error::Invalid(_))
    ));
    assert_eq!(fixture.memory.due(&query).await.unwrap().records, before);
    assert_eq!(other.sweep(&manifest.key).await.unwrap(), Swept::Removed);
    assert_eq!(fixture.count(), 0);
}

/// A sweep whose manifest is overwritten right after it wrote it leaves the set to the process that did.
#[tokio::test]
async fn a_manifest_that_is_overwritten_at_once_is_left_alone() {
    let fixture = Fixture::new(SMALL);
    fixture.put("a", &text(300 * KB, 1)).await;
    let (manifest, _) = manifests(&fixture).await.pop().unwrap();
    fixture.clock.advance(DAY);
    fixture.faulty.fail(0, Fault::Overwritten);
    assert_eq!(fixture.chunked.sweep(&manifest).await, Ok(Swept::Nothing));
    assert!(fixture.body("a").await.unwrap() == text(300 * KB, 1));
}

/// A commit whose manifest has no version is staged again.
#[tokio::test]
async fn chunks_whose_manifest_is_overwritten_at_once_are_staged_again() {
    let fixture = Fixture::new(SMALL);
    fixture.faulty.fail(0, Fault::Overwritten);
    fixture.put("a", &text(300 * KB, 1)).await;
    assert!(fixture.body("a").await.unwrap() == text(300 * KB, 1));
    fixture.sweep().await;
    assert!(fixture.body("a").await.unwrap() == text(300 * KB, 1));
    fixture.remove("a").await;
    fixture.sweep().await;
    assert_eq!(fixture.count(), 0);
}

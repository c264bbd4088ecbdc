//! What nobody refers to is deleted; what somebody refers to stays.

use crate::bed::*;
use perennial_store::{
    ChunkedStore, Clock, Commit, Draft, DueQuery, Error, Key, Op, Partition, RecordId, ScanQuery, Store, Swept,
    chunk_lane,
};
use std::sync::Arc;

async fn manifests(bed: &Bed) -> Vec<(Key, u64)> {
    let page = bed
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
    let bed = Bed::new(SMALL);
    for round in 0..5 {
        bed.put("a", &text(300 * KB, round)).await;
        bed.put("b", &text(300 * KB, round)).await;
    }
    bed.put("b", "small").await;
    bed.sweep().await;
    assert!(bed.body("a").await.unwrap() == text(300 * KB, 4));
    assert_eq!(bed.body("b").await.unwrap(), "small");
    assert_eq!(manifests(&bed).await.len(), 1);
    bed.remove("a").await;
    bed.remove("b").await;
    bed.sweep().await;
    assert_eq!(bed.count(), 0);
}

#[tokio::test]
async fn a_record_made_anew_under_the_same_id_does_not_keep_the_old_parts() {
    let bed = Bed::new(SMALL);
    bed.put("a", &text(300 * KB, 1)).await;
    bed.remove("a").await;
    bed.put("a", &text(300 * KB, 1)).await;
    assert_eq!(manifests(&bed).await.len(), 2);
    bed.sweep().await;
    assert_eq!(manifests(&bed).await.len(), 1);
    assert!(bed.body("a").await.unwrap() == text(300 * KB, 1));
}

#[tokio::test]
async fn parts_in_use_are_looked_at_ever_more_rarely() {
    let bed = Bed::new(SMALL);
    bed.put("a", &text(300 * KB, 1)).await;
    let mut waits = Vec::new();
    for _ in 0..10 {
        let (key, due_ms) = manifests(&bed).await.pop().unwrap();
        waits.push((due_ms - bed.clock.now_ms()) / MINUTE);
        bed.clock.advance(due_ms - bed.clock.now_ms() - 1);
        assert_eq!(bed.chunked.sweep(&key).await, Ok(Swept::Nothing), "it is not due yet");
        bed.clock.advance(1);
        assert_eq!(bed.chunked.sweep(&key).await, Ok(Swept::Kept));
        assert_eq!(bed.chunked.sweep(&key).await, Ok(Swept::Nothing), "it was put off");
        assert!(bed.body("a").await.unwrap() == text(300 * KB, 1));
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440]);
    bed.remove("a").await;
    bed.clock.advance(DAY);
    let (key, _) = manifests(&bed).await.pop().unwrap();
    assert_eq!(bed.chunked.sweep(&key).await, Ok(Swept::Removed));
    assert_eq!(bed.chunked.sweep(&key).await, Ok(Swept::Nothing));
    assert_eq!(bed.count(), 0);
}

#[tokio::test]
async fn more_parts_than_one_commit_deletes_are_swept() {
    let bed = Bed::new(TINY);
    for size in KB..20 * KB {
        if size % 509 == 0 {
            bed.put("a", &text(size, 1)).await;
            bed.remove("a").await;
            bed.sweep().await;
            assert_eq!(bed.count(), 0, "{size} bytes");
        }
    }
}

#[tokio::test]
async fn only_manifests_can_be_swept() {
    let bed = Bed::new(SMALL);
    bed.put("a", &text(300 * KB, 1)).await;
    let (manifest, _) = manifests(&bed).await.pop().unwrap();
    let slice = Key::new(Partition::new("p"), manifest.id.number(0));
    for other in [key("a"), key("part"), slice] {
        assert!(matches!(bed.chunked.sweep(&other).await, Err(Error::Invalid(_))));
    }
    let op = Op::Put(Draft::new(manifest.clone(), "mine"));
    let outcome = bed.chunked.commit(Commit::new(vec![op])).await;
    assert!(matches!(outcome, Err(Error::Invalid(_))), "{outcome:?}");
    // Above another chunked store there is nothing to do, and nothing to get wrong.
    let above = ChunkedStore::new(bed.chunked.clone(), bed.clock.clone(), 2);
    bed.clock.advance(DAY);
    assert!(matches!(above.sweep(&manifest).await, Err(Error::Invalid(_))));
    assert_eq!(above.limits(), bed.chunked.limits());
    assert!(body(&above, "a").await.unwrap().unwrap() == text(300 * KB, 1));
}

/// Whoever deletes a partition finds everything in it, and needs no sweep.
#[tokio::test]
async fn parts_are_deleted_with_their_partition() {
    let bed = Bed::new(SMALL);
    for id in ["a", "b", "c"] {
        bed.put(id, &text(300 * KB, 1)).await;
    }
    let mut query = ScanQuery::all(Partition::new("p"), SMALL.ops_per_commit).keys_only();
    loop {
        let page = bed.chunked.scan(&query).await.unwrap();
        let ops = page
            .records
            .into_iter()
            .map(|record| Op::Delete(record.key, record.version));
        bed.chunked.commit(Commit::new(ops.collect())).await.unwrap();
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(bed.count(), 0);
}

#[tokio::test]
async fn a_nonce_that_is_used_twice_does_no_harm() {
    let bed = Bed::new(SMALL);
    let twin = ChunkedStore::new(bed.memory.clone(), bed.clock.clone(), 1);
    bed.put("a", &text(300 * KB, 1)).await;
    let op = Op::Put(Draft::new(key("b"), text(300 * KB, 2)));
    twin.commit(Commit::new(vec![op])).await.unwrap();
    assert!(bed.body("a").await.unwrap() == text(300 * KB, 1));
    assert!(bed.body("b").await.unwrap() == text(300 * KB, 2));
}

#[tokio::test]
async fn owners_may_have_any_name() {
    let bed = Bed::new(SMALL);
    let long = "n".repeat(KB);
    let names = ["", "\"quoted\"", "a/b\\c", "line\nend\u{0}", "😀", &long];
    for name in names {
        bed.put(name, &text(100 * KB, 1)).await;
    }
    bed.sweep().await;
    for name in names {
        assert!(bed.body(name).await.unwrap() == text(100 * KB, 1), "{name:?}");
        bed.remove(name).await;
    }
    bed.sweep().await;
    assert_eq!(bed.count(), 0);
}

#[tokio::test]
async fn several_partitions_in_one_commit_keep_their_parts_apart() {
    let limits = perennial_store::Limits {
        partitions_per_commit: 10,
        ..SMALL
    };
    let bed = Bed::new(limits);
    let key = |n: u64| Key::new(Partition::new(format!("p{}", n % 3)), RecordId::of("r").number(n));
    let ops = (0..9).map(|n| Op::Create(Draft::new(key(n), text(90 * KB, n))));
    bed.chunked.commit(Commit::new(ops.collect())).await.unwrap();
    bed.sweep().await;
    for n in 0..9 {
        let record = bed.chunked.get(&key(n)).await.unwrap().unwrap();
        assert!(record.body == text(90 * KB, n));
    }
    let chunked: Arc<ChunkedStore> = bed.chunked.clone();
    let ops = (0..9).map(|n| Op::Remove(key(n)));
    chunked.commit(Commit::new(ops.collect())).await.unwrap();
    bed.sweep().await;
    assert_eq!(bed.count(), 0);
}

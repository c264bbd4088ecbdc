//! Bodies of every size and content.

use crate::fixture::*;
use perennial_kv::Settings;
use perennial_store::{Commit, ConflictReason, Draft, Error, Limits, Op, Partition, ScanQuery, Store};

/// Writes a body, reads it in every way, and deletes it.
async fn round_trip(fixture: &Fixture, body: &str) {
    let op = Op::Put(queued("a", body, 1));
    let committed = fixture.chunked.commit(Commit::new(vec![op])).await.unwrap();
    assert_eq!(committed.versions.len(), 1);
    let record = fixture.chunked.get(&key("a")).await.unwrap().unwrap();
    assert!(record.body == body, "{} bytes by key", body.len());
    assert_eq!(Some(&record.version), committed.version(0));
    assert_eq!(record.place, queued("a", "", 1).place);
    let expected = vec![("a".to_owned(), body.to_owned())];
    assert!(
        scan(&*fixture.chunked).await.unwrap() == expected,
        "{} bytes in a scan",
        body.len()
    );
    assert!(
        work(&*fixture.chunked, 1).await == expected,
        "{} bytes in a queue",
        body.len()
    );
    fixture.remove("a").await;
    fixture.sweep().await;
    assert_eq!(fixture.count(), 0, "{} bytes leave nothing behind", body.len());
}

#[tokio::test]
async fn sizes_around_the_limits_round_trip() {
    let fixture = Fixture::new(SMALL);
    let (record, commit) = (SMALL.bytes_per_record, SMALL.bytes_per_commit);
    for middle in [0, record / 2, record, 2 * record, commit + record, 5 * commit] {
        for size in middle.saturating_sub(3)..=middle + 3 {
            round_trip(&fixture, &"x".repeat(size)).await;
            round_trip(&fixture, &text(size, size as u64)).await;
        }
    }
}

#[tokio::test]
async fn every_size_comes_back_through_tiny_chunks() {
    let fixture = Fixture::new(TINY);
    for size in (0..5 * KB).step_by(31) {
        round_trip(&fixture, &text(size, size as u64)).await;
    }
}

#[tokio::test]
async fn characters_are_not_cut_at_the_borders_of_chunks() {
    let fixture = Fixture::new(TINY);
    for unit in ["é", "漢", "😀", "\"", "\\", "\u{1}", "\n", "👩‍👩‍👧"] {
        for shift in 0..13 {
            let body = format!("{}{}", "x".repeat(shift), unit.repeat(3 * KB / unit.len()));
            round_trip(&fixture, &body).await;
        }
    }
}

#[tokio::test]
async fn forty_bodies_of_60_kb_are_one_commit() {
    let fixture = Fixture::new(Settings::CLOUD_LIMITS);
    let ids: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
    let bodies: Vec<String> = (0..40).map(|n| text(60 * KB, n)).collect();
    let ops = ids.iter().zip(&bodies);
    let ops: Vec<Op> = ops
        .map(|(id, body)| Op::Create(Draft::new(key(id), body.clone())))
        .collect();
    let committed = fixture.chunked.commit(Commit::new(ops.clone())).await.unwrap();
    assert!(committed.versions.len() == 40 && committed.versions.iter().all(Option::is_some));
    assert_eq!(*fixture.faulty.commits.lock(), 2, "one that stages, one that commits");
    let expected: Vec<_> = ids.iter().cloned().zip(bodies).collect();
    assert!(scan(&*fixture.chunked).await.unwrap() == expected);

    let again = fixture.chunked.commit(Commit::new(ops)).await;
    let reason = ConflictReason::Exists;
    assert_eq!(again, Err(Error::Conflict { op: 0, reason }));
    for id in &ids {
        fixture.remove(id).await;
    }
    fixture.sweep().await;
    assert_eq!(fixture.count(), 0);
}

#[tokio::test]
async fn ten_megabytes_come_back() {
    let fixture = Fixture::new(Settings::CLOUD_LIMITS);
    let body = "0123456789".repeat(1_000_000);
    fixture.put("a", &body).await;
    assert_eq!(
        *fixture.faulty.commits.lock(),
        5 + 1,
        "as few commits as the limits allow"
    );
    *fixture.faulty.reads.lock() = 0;
    assert!(fixture.body("a").await.unwrap() == body);
    assert_eq!(*fixture.faulty.reads.lock(), 2, "the record, then its chunks at once");
    round_trip(&fixture, &text(10_000_000, 1)).await;
}

#[tokio::test]
async fn a_body_that_fits_costs_nothing_extra() {
    let fixture = Fixture::new(SMALL);
    fixture.put("a", &"x".repeat(SMALL.bytes_per_record)).await;
    assert_eq!(fixture.body("a").await.unwrap().len(), SMALL.bytes_per_record);
    let page = ScanQuery::all(Partition::new("p"), 10);
    fixture.chunked.scan(&page).await.unwrap();
    assert_eq!((*fixture.faulty.commits.lock(), *fixture.faulty.reads.lock()), (1, 2));
    assert_eq!(fixture.count(), 1);
    // A scan of keys never reads chunks.
    fixture.put("b", &"x".repeat(10 * SMALL.bytes_per_record)).await;
    *fixture.faulty.reads.lock() = 0;
    fixture.chunked.scan(&page.keys_only()).await.unwrap();
    assert_eq!(*fixture.faulty.reads.lock(), 1);
}

#[tokio::test]
async fn a_store_without_limits_is_passed_through() {
    let fixture = Fixture::new(Limits::NONE);
    assert_eq!(fixture.chunked.limits(), Limits::NONE);
    let looks_like = r#"{"$parts":{"nonce":"x","count":1,"bytes":1,"hash":"0"}}"#;
    for body in [looks_like, "x".repeat(3_000_000).as_str()] {
        fixture.put("a", body).await;
        assert_eq!(fixture.memory.get(&key("a")).await.unwrap().unwrap().body, body);
        assert!(fixture.body("a").await.unwrap() == body);
    }
    assert_eq!((*fixture.faulty.commits.lock(), *fixture.faulty.reads.lock()), (2, 2));
}

#[tokio::test]
async fn the_limits_are_wide_but_finite() {
    let fixture = Fixture::new(SMALL);
    let limits = fixture.chunked.limits();
    assert_eq!(limits.bytes_per_record, 64 * KB * KB);
    assert_eq!((limits.ops_per_commit, limits.partitions_per_commit), (20, 1));
    let op = Op::Put(Draft::new(key("a"), vec![b'x'; limits.bytes_per_record + 1]));
    let outcome = fixture.chunked.commit(Commit::new(vec![op])).await;
    assert!(matches!(outcome, Err(Error::TooLarge { limit, .. }) if limit == 64 * KB * KB));
    assert_eq!(fixture.count(), 0);
}

#[tokio::test]
async fn a_body_that_looks_like_a_pointer_is_not_taken_for_one() {
    let fixture = Fixture::new(SMALL);
    fixture.put("big", &text(3 * SMALL.bytes_per_record, 1)).await;
    let pointer = fixture.memory.get(&key("big")).await.unwrap().unwrap().body;
    assert!(pointer.starts_with(b"{\"$parts\""), "{pointer:?}");
    let pointer = String::from_utf8(pointer.to_vec()).unwrap();
    fixture.remove("big").await;
    fixture.sweep().await;
    for body in [
        pointer.as_str(),
        r#"{"$parts":{"nonce":"x","count":1,"bytes":1,"hash":"0"}}"#,
        r#" { "\u0024parts": null, "more": [] }"#,
        r#"{"$parts":0}"#,
    ] {
        round_trip(&fixture, body).await;
    }
}

/// A document database that rewrites JSON neither turns other bodies into pointers nor harms one.
#[tokio::test]
async fn databases_may_rewrite_json() {
    let fixture = Fixture::new(SMALL);
    *fixture.faulty.rewrites_json.lock() = true;
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let large = format!(
        r#" {{ "z": "{}", "$parts": {{ "b": "\u00e9", "a": 1 }} }}"#,
        "x".repeat(300 * KB)
    );
    for body in [
        r#"{"z":1,"$parts":{"nonce":"x","count":1,"bytes":1,"hash":"0"}}"#,
        r#"{"$parts":2,"$parts":{"nonce":"x","count":1,"bytes":1,"hash":"0"}}"#,
        r#"{ "\u0024parts" : { "hash" : "0" , "nonce" : "x", "count" : 1, "bytes" : 1} }"#,
        r#"{"$parts":null,"a":1}"#,
        large.as_str(),
    ] {
        fixture.put("a", body).await;
        assert_eq!(value(&fixture.body("a").await.unwrap()), value(body), "{body:.80}");
        fixture.sweep().await;
        assert_eq!(value(&fixture.body("a").await.unwrap()), value(body), "{body:.80}");
        fixture.remove("a").await;
        fixture.sweep().await;
        assert_eq!(fixture.count(), 0);
    }
}

#[tokio::test]
async fn bytes_that_are_not_text_come_back() {
    let fixture = Fixture::new(SMALL);
    *fixture.faulty.rewrites_json.lock() = true;
    let all = (0..=255_u8).cycle();
    for size in [64 * KB, 64 * KB + 1, 500 * KB] {
        let bytes: Vec<u8> = all.clone().take(size).collect();
        let op = Op::Put(Draft::new(key("a"), bytes.clone()));
        fixture.chunked.commit(Commit::new(vec![op])).await.unwrap();
        let found = fixture.chunked.get(&key("a")).await.unwrap().unwrap().body;
        assert!(found == bytes, "{size} bytes");
    }
}

#[tokio::test]
async fn conflicts_name_the_callers_operation() {
    let fixture = Fixture::new(SMALL);
    let large = || text(200 * KB, 1);
    fixture.put("a", "small").await;
    let ops = vec![
        Op::Create(Draft::new(key("b"), large())),
        Op::Absent(key("c")),
        Op::Create(Draft::new(key("a"), large())),
        Op::Put(Draft::new(key("d"), large())),
    ];
    let outcome = fixture.chunked.commit(Commit::new(ops)).await;
    let reason = ConflictReason::Exists;
    assert_eq!(outcome, Err(Error::Conflict { op: 2, reason }));
    assert_eq!(
        scan(&*fixture.chunked).await.unwrap(),
        [("a".to_owned(), "small".to_owned())]
    );

    let version = fixture.chunked.get(&key("a")).await.unwrap().unwrap().version;
    let replace = || Op::Replace(Draft::new(key("a"), large()), version.clone());
    fixture.chunked.commit(Commit::new(vec![replace()])).await.unwrap();
    let outcome = fixture.chunked.commit(Commit::new(vec![replace()])).await;
    let reason = ConflictReason::Changed;
    assert_eq!(outcome, Err(Error::Conflict { op: 0, reason }));
    let version = fixture.chunked.get(&key("a")).await.unwrap().unwrap().version;
    fixture
        .chunked
        .commit(Commit::new(vec![Op::Delete(key("a"), version)]))
        .await
        .unwrap();
    fixture.sweep().await;
    assert_eq!(fixture.count(), 0);
}

#[tokio::test]
async fn as_many_operations_as_the_store_takes_may_all_be_large() {
    let fixture = Fixture::new(SMALL);
    let ids: Vec<String> = (0..SMALL.ops_per_commit).map(|n| format!("{n:02}")).collect();
    let ops = ids.iter().zip(0..);
    let ops = ops.map(|(id, n)| Op::Create(Draft::new(key(id), text(70 * KB, n))));
    fixture.chunked.commit(Commit::new(ops.collect())).await.unwrap();
    for (id, n) in ids.iter().zip(0..) {
        assert!(fixture.body(id).await.unwrap() == text(70 * KB, n));
    }
    fixture.sweep().await;
    assert_eq!(scan(&*fixture.chunked).await.unwrap().len(), SMALL.ops_per_commit);
}

#[tokio::test]
async fn a_condition_that_counts_as_two_operations_leaves_less_room() {
    for absent in 0..=9 {
        let fixture = Fixture::new(SMALL);
        *fixture.faulty.is_shared.lock() = true;
        let mut ops: Vec<Op> = (0..absent).map(|n| Op::Absent(key(&format!("none{n}")))).collect();
        ops.extend(["a", "b"].map(|id| Op::Create(Draft::new(key(id), text(100 * KB, 1)))));
        fixture.chunked.commit(Commit::new(ops)).await.unwrap();
        assert!(
            fixture.body("a").await == fixture.body("b").await,
            "{absent} conditions"
        );
    }
}

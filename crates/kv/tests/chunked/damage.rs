//! Chunks that are missing or were changed.

use crate::fixture::*;
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, RecordId, ScanQuery, Store};

async fn chunks(fixture: &Fixture) -> Vec<Key> {
    let query = ScanQuery::under(Partition::new("p"), RecordId::of("part"), 1_000).keys_only();
    let page = fixture.memory.scan(&query).await.unwrap();
    page.records.into_iter().map(|record| record.key).collect()
}

async fn is_corrupt(fixture: &Fixture) {
    let outcome = body(&*fixture.chunked, "broken").await;
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
    let outcome = scan(&*fixture.chunked).await;
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
    let query = ScanQuery::all(Partition::new("p"), 100).keys_only();
    fixture.chunked.scan(&query).await.unwrap();
}

#[tokio::test]
async fn a_body_that_is_not_whole_is_never_returned() {
    for chunk in 1..=6 {
        for new in [None, Some("\"other text\""), Some("7"), Some("\"\"")] {
            let fixture = Fixture::new(SMALL);
            fixture.put("broken", &"x".repeat(6 * 64 * KB - 100)).await;
            let chunks = chunks(&fixture).await;
            assert_eq!(chunks.len(), 1 + 6, "a manifest and its chunks");
            let op = match new {
                None => Op::Remove(chunks[chunk].clone()),
                Some(body) => Op::Put(Draft::new(chunks[chunk].clone(), body)),
            };
            fixture.memory.commit(Commit::new(vec![op])).await.unwrap();
            is_corrupt(&fixture).await;
            fixture.put("broken", "whole again").await;
            assert_eq!(fixture.body("broken").await.unwrap(), "whole again");
            fixture.sweep().await;
            assert_eq!(fixture.count(), 1);
        }
    }
}

#[tokio::test]
async fn an_undecodable_pointer_is_corrupt_and_its_chunks_are_kept() {
    let fixture = Fixture::new(SMALL);
    fixture.put("broken", &text(300 * KB, 1)).await;
    let count = fixture.count();
    for pointer in [
        r#"{"$parts":{}}"#,
        r#"{"$parts":{"nonce":"x","count":99999999999,"bytes":99999999999,"hash":""}}"#,
    ] {
        let op = Op::Put(Draft::new(key("broken"), pointer));
        fixture.memory.commit(Commit::new(vec![op])).await.unwrap();
        is_corrupt(&fixture).await;
    }
    let op = Op::Put(Draft::new(key("broken"), r#"{"$parts":{}}"#));
    fixture.memory.commit(Commit::new(vec![op])).await.unwrap();
    fixture.sweep().await;
    assert_eq!(fixture.count(), count, "the owner of the chunks is unknown");
}

#[tokio::test]
async fn damaged_records_do_not_block_a_queue() {
    let fixture = Fixture::new(SMALL);
    for n in 0..30 {
        let op = Op::Put(queued(&format!("{n:02}"), &text(100 * KB, n), n));
        fixture.chunked.commit(Commit::new(vec![op])).await.unwrap();
    }
    // Every body except each tenth loses its first chunk.
    let chunks = chunks(&fixture).await;
    let first_chunks = chunks
        .iter()
        .filter(|chunk| chunk.id.as_str().ends_with("/0000000000000000"));
    let first_chunks: Vec<_> = first_chunks.cloned().collect();
    assert_eq!(first_chunks.len(), 30);
    for n in (0_usize..30).filter(|n| n % 10 != 9) {
        let pointer = fixture
            .memory
            .get(&key(&format!("{n:02}")))
            .await
            .unwrap()
            .unwrap()
            .body;
        let pointer = String::from_utf8(pointer.to_vec()).unwrap();
        let nonce = pointer.split('"').nth(5).unwrap();
        let chunk = first_chunks
            .iter()
            .find(|chunk| chunk.id.as_str().contains(&format!("/{nonce}/")));
        let op = Op::Remove(chunk.unwrap().clone());
        fixture.memory.commit(Commit::new(vec![op])).await.unwrap();
    }
    let expected: Vec<_> = [9, 19, 29].map(|n| (n.to_string(), text(100 * KB, n))).to_vec();
    let named = |count: usize| -> Vec<(String, String)> {
        let records = expected.iter().take(count);
        records.map(|(id, body)| (format!("{id:0>2}"), body.clone())).collect()
    };
    for limit in [1, 2, 3, 4, 100] {
        assert!(work(&*fixture.chunked, limit).await == named(limit), "{limit}");
    }
}

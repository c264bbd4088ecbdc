//! Parts that are missing or were changed.

use crate::bed::*;
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, RecordId, ScanQuery, Store};

async fn parts(bed: &Bed) -> Vec<Key> {
    let query = ScanQuery::under(Partition::new("p"), RecordId::of("part"), 1_000).keys_only();
    let page = bed.memory.scan(&query).await.unwrap();
    page.records.into_iter().map(|record| record.key).collect()
}

async fn is_corrupt(bed: &Bed) {
    let outcome = body(&*bed.chunked, "broken").await;
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
    let outcome = scan(&*bed.chunked).await;
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
    let query = ScanQuery::all(Partition::new("p"), 100).keys_only();
    bed.chunked.scan(&query).await.unwrap();
}

#[tokio::test]
async fn a_body_that_is_not_whole_is_never_returned() {
    for part in 1..=6 {
        for new in [None, Some("\"other text\""), Some("7"), Some("\"\"")] {
            let bed = Bed::new(SMALL);
            bed.put("broken", &"x".repeat(6 * 64 * KB - 100)).await;
            let parts = parts(&bed).await;
            assert_eq!(parts.len(), 1 + 6, "an anchor and its slices");
            let op = match new {
                None => Op::Remove(parts[part].clone()),
                Some(body) => Op::Put(Draft::new(parts[part].clone(), body)),
            };
            bed.memory.commit(Commit::new(vec![op])).await.unwrap();
            is_corrupt(&bed).await;
            bed.put("broken", "whole again").await;
            assert_eq!(bed.body("broken").await.unwrap(), "whole again");
            bed.sweep().await;
            assert_eq!(bed.count(), 1);
        }
    }
}

#[tokio::test]
async fn a_senseless_stub_is_corrupt_and_its_parts_are_kept() {
    let bed = Bed::new(SMALL);
    bed.put("broken", &text(300 * KB, 1)).await;
    let count = bed.count();
    for pointer in [
        r#"{"$parts":{}}"#,
        r#"{"$parts":{"nonce":"x","count":99999999999,"bytes":99999999999,"hash":""}}"#,
    ] {
        let op = Op::Put(Draft::new(key("broken"), pointer));
        bed.memory.commit(Commit::new(vec![op])).await.unwrap();
        is_corrupt(&bed).await;
    }
    let op = Op::Put(Draft::new(key("broken"), r#"{"$parts":{}}"#));
    bed.memory.commit(Commit::new(vec![op])).await.unwrap();
    bed.sweep().await;
    assert_eq!(bed.count(), count, "nobody knows whose parts they are");
}

#[tokio::test]
async fn damaged_records_stand_in_nobodys_way_in_a_queue() {
    let bed = Bed::new(SMALL);
    for n in 0..30 {
        let op = Op::Put(queued(&format!("{n:02}"), &text(100 * KB, n), n));
        bed.chunked.commit(Commit::new(vec![op])).await.unwrap();
    }
    // Of each body but every tenth the first slice is lost.
    let parts = parts(&bed).await;
    let slices = parts
        .iter()
        .filter(|part| part.id.as_str().ends_with("/0000000000000000"));
    let slices: Vec<_> = slices.cloned().collect();
    assert_eq!(slices.len(), 30);
    for n in (0_usize..30).filter(|n| n % 10 != 9) {
        let pointer = bed.memory.get(&key(&format!("{n:02}"))).await.unwrap().unwrap().body;
        let pointer = String::from_utf8(pointer.to_vec()).unwrap();
        let nonce = pointer.split('"').nth(5).unwrap();
        let slice = slices
            .iter()
            .find(|slice| slice.id.as_str().contains(&format!("/{nonce}/")));
        let op = Op::Remove(slice.unwrap().clone());
        bed.memory.commit(Commit::new(vec![op])).await.unwrap();
    }
    let expected: Vec<_> = [9, 19, 29].map(|n| (n.to_string(), text(100 * KB, n))).to_vec();
    let named = |count: usize| -> Vec<(String, String)> {
        let records = expected.iter().take(count);
        records.map(|(id, body)| (format!("{id:0>2}"), body.clone())).collect()
    };
    for limit in [1, 2, 3, 4, 100] {
        assert!(work(&*bed.chunked, limit).await == named(limit), "{limit}");
    }
}

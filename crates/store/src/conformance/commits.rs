//! What each operation demands and does.

use super::StoreFactory;
use super::helpers::*;
use crate::{Commit, Committed, ConflictReason::*, Draft, Error, Lane, Listing, Op, Order, Place, Version};

/// A created record is there, with the version that the commit returned.
pub async fn create_makes_a_record_that_was_not_there(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    assert_eq!(get(&*store, &key("p", "a")).await, None);
    let version = one(&*store, Op::Create(draft("p", "a", "1"))).await.unwrap();
    let record = get(&*store, &key("p", "a")).await.unwrap();
    assert_eq!(Some(record.version), version);
    assert_eq!((record.key, record.body.as_ref()), (key("p", "a"), &b"1"[..]));
    assert_eq!((record.place, record.listing), (None, None));
}

/// A record exists, whichever table a store keeps it in.
pub async fn create_refuses_a_record_that_is_there(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put_all(&*store, [draft("p", "plain", "1"), queued("p", "queued", 1, 0)]).await;
    put(&*store, draft("p", "listed", "1").listed(listing("new", "n"))).await;
    for id in ["plain", "queued", "listed"] {
        let outcome = one(&*store, Op::Create(draft("p", id, "2"))).await;
        assert_eq!(outcome, Err(conflict(0, Exists)), "{id}");
    }
}

/// Put has no condition.
pub async fn put_writes_whatever_was_there(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    for text in ["1", "2"] {
        put(&*store, draft("p", "a", text)).await;
        assert_eq!(body(&*store, &key("p", "a")).await.as_deref(), Some(text));
    }
}

/// Replace fails on a missing and on a changed record.
pub async fn replace_wants_the_version_that_is_there(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let first = put(&*store, draft("p", "a", "1")).await;
    let replace = |text: &str, version: &Version| Op::Replace(draft("p", "a", text), version.clone());
    let second = one(&*store, replace("2", &first)).await.unwrap().unwrap();
    assert_eq!(one(&*store, replace("3", &first)).await, Err(conflict(0, Changed)));
    assert_eq!(body(&*store, &key("p", "a")).await.as_deref(), Some("2"));
    remove(&*store, key("p", "a")).await;
    assert_eq!(one(&*store, replace("3", &second)).await, Err(conflict(0, Missing)));
    assert_eq!(get(&*store, &key("p", "a")).await, None);
}

/// Delete fails on a missing and on a changed record, and writes no version.
pub async fn delete_wants_the_version_that_is_there(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let first = put(&*store, draft("p", "a", "1")).await;
    let second = put(&*store, draft("p", "a", "2")).await;
    let delete = |version: &Version| Op::Delete(key("p", "a"), version.clone());
    assert_eq!(one(&*store, delete(&first)).await, Err(conflict(0, Changed)));
    assert_eq!(one(&*store, delete(&second)).await, Ok(None));
    assert_eq!(get(&*store, &key("p", "a")).await, None);
    assert_eq!(one(&*store, delete(&second)).await, Err(conflict(0, Missing)));
}

/// Remove succeeds twice.
pub async fn remove_needs_nothing_to_be_there(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put(&*store, draft("p", "a", "1")).await;
    for _ in 0..2 {
        assert_eq!(one(&*store, Op::Remove(key("p", "a"))).await, Ok(None));
        assert_eq!(get(&*store, &key("p", "a")).await, None);
    }
}

/// Absence holds or fails, alone and beside a write, and leaves nothing behind.
pub async fn absent_changes_nothing_and_can_fail(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let version = put(&*store, draft("p", "a", "1")).await;
    let absent = |id: &str| Op::Absent(key("p", id));
    assert_eq!(one(&*store, absent("b")).await, Ok(None));
    assert_eq!(get(&*store, &key("p", "b")).await, None);
    assert_eq!(one(&*store, absent("a")).await, Err(conflict(0, Exists)));
    let beside = |id: &str| Commit::new(vec![Op::Create(draft("p", "c", "1")), absent(id)]);
    assert_eq!(store.commit(beside("a")).await, Err(conflict(1, Exists)));
    assert_eq!(all_ids(&*store, "p").await, ["a"]);
    let committed = store.commit(beside("b")).await.unwrap();
    assert!(committed.version(0).is_some() && committed.version(1).is_none());
    assert_eq!(all_ids(&*store, "p").await, ["a", "c"]);
    assert_eq!(get(&*store, &key("p", "a")).await.unwrap().version, version);
}

/// The index of the operation is the one that failed, not the one before or after.
pub async fn the_first_operation_that_does_not_apply_is_named(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    put(&*store, draft("p", "taken", "1")).await;
    let outcome = store
        .commit(Commit::new(vec![
            Op::Put(draft("p", "a", "1")),
            Op::Absent(key("p", "b")),
            Op::Create(draft("p", "taken", "2")),
            Op::Put(draft("p", "c", "1")),
        ]))
        .await;
    assert_eq!(outcome, Err(conflict(2, Exists)));
}

/// Naming a key twice in a commit is a caller's mistake.
pub async fn a_commit_may_not_name_a_record_twice(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let ops = vec![Op::Put(draft("p", "a", "1")), Op::Remove(key("p", "a"))];
    let outcome = store.commit(Commit::new(ops)).await;
    assert!(matches!(outcome, Err(Error::Invalid(_))), "{outcome:?}");
    assert_eq!(get(&*store, &key("p", "a")).await, None);
}

/// An empty commit succeeds at once.
pub async fn a_commit_of_nothing_succeeds(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    assert_eq!(store.commit(Commit::default()).await, Ok(Committed::default()));
    assert_eq!(
        store.commit(Commit::default().relaxed()).await,
        Ok(Committed::default())
    );
}

/// Every attribute is kept, in every combination of place and listing.
pub async fn attributes_come_back_as_they_were_written(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let place = Place {
        lane: Lane::topic("work", Some("gpu \"1\"".into())),
        order: Order(u64::MAX / 2),
        due_ms: 1_700_000_000_000,
    };
    let listing = Listing {
        kind: "instance".into(),
        status: "Completed".into(),
        name: "ship/order\n".into(),
        parent: Some("parent\u{0}1".into()),
        created_ms: 1_700_000_000_001,
        completed_ms: Some(1_700_000_000_002),
    };
    let plain = draft("p", "a", "{}");
    let drafts: [Draft; 4] = [
        plain.clone(),
        plain.clone().placed(place.clone()),
        plain.clone().listed(listing.clone()),
        plain.placed(place).listed(listing),
    ];
    // Each is written over each, so that a record moves between all tables that a store may have.
    for before in &drafts {
        for after in &drafts {
            put(&*store, before.clone()).await;
            put(&*store, after.clone()).await;
            let record = get(&*store, &after.key).await.unwrap();
            assert_eq!((&record.place, &record.listing), (&after.place, &after.listing));
            assert_eq!(all_ids(&*store, "p").await, ["a"]);
        }
    }
}

/// Empty, small and as large as the limits allow, up to a megabyte.
pub async fn bodies_of_all_sizes_come_back(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let largest = store.limits().bytes_per_record.min(1024 * 1024);
    for size in [0, 1, 4095, 4096, 65_536, 100_000, largest] {
        let text: String = (0..size).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
        put(&*store, draft("p", "a", &text)).await;
        assert_eq!(
            body(&*store, &key("p", "a")).await.as_deref(),
            Some(text.as_str()),
            "{size} bytes"
        );
    }
}

/// JSON keeps its value, whatever its numbers and names, though perhaps not its bytes.
pub async fn json_keeps_its_value(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    for json in [
        r#"{"z":1,"a":{"y":[null,true,-7,"é😀\u0000\n\"\\"],"b":{}}}"#,
        r#" { "spaced" : [ 1 , 2 ] } "#,
        r#"{"n":9007199254740991,"m":-9007199254740991}"#,
        r#"{"n":9007199254740993}"#,
        r#"[18446744073709551615,-9223372036854775808]"#,
        r#"{"f":[0.1,2.5e-10,1.7976931348623157e308,5e-324]}"#,
        r#"{"whole":[1.0,-0.0,1e20,100000000000000000000000]}"#,
        r#"{"id":"x","partition":"y","_etag":"z","commit":1,"ttl":1,"$v":2,"a.b":3,"":4}"#,
        r#""text""#,
        "17",
        "null",
        &deep(40),
        &deep(120),
    ] {
        put(&*store, draft("p", "a", json)).await;
        let found = body(&*store, &key("p", "a")).await.unwrap();
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&found), value(json), "{found}");
    }
}

/// A body that is not JSON comes back unchanged.
pub async fn bytes_that_are_not_json_are_kept(factory: &dyn StoreFactory) {
    let store = factory.create().await;
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [
        &b""[..],
        b" ",
        b"{\"cut\":",
        b"{\"a\":1}{\"b\":2}",
        "\u{feff}{}".as_bytes(),
        &[0; 1000],
        &[0xff, 0xfe, b'{', b'}'],
        "\"\\/\n\r\t\u{8}\u{c}\u{7f}".as_bytes(),
        &all,
    ] {
        put(&*store, Draft::new(key("p", "a"), bytes.to_vec())).await;
        assert_eq!(get(&*store, &key("p", "a")).await.unwrap().body, bytes);
    }
}

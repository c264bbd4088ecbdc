//! The content of a lease object.

use super::world::*;
use super::*;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::{Value, json};

fn path() -> Path {
    Path::from("app/0/lease")
}

async fn stored(world: &World) -> String {
    let bytes = world.bucket().get(&path()).await.unwrap().bytes().await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn store(world: &World, text: String) {
    world.bucket().put(&path(), text.into()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn people_can_read_it() {
    let world = World::new();
    let one = world.process("one");
    let held = one.acquire_now().await;
    held.show(Shown {
        writer_epoch: Some(12),
        details: [("program".to_owned(), json!("app 1.2"))].into_iter().collect(),
    })
    .await
    .unwrap();
    let expected = r#"{
  "format": 1,
  "state": "held",
  "generation": 1,
  "owner": {
    "host": "host-of-one",
    "process": 4002,
    "incarnation": "00000000000000020000000000000000"
  },
  "since": "2027-01-16T08:00:00.003Z",
  "lease_ms": 2000,
  "nonce": "00000000000000020000000000000002",
  "writer_epoch": 12,
  "details": {
    "program": "app 1.2"
  }
}"#;
    assert_eq!(stored(&world).await, expected);
}

#[tokio::test(start_paused = true)]
async fn what_a_newer_program_has_added_is_kept() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let held = one.acquire_now().await;
    held.show(Shown {
        writer_epoch: Some(12),
        ..Shown::default()
    })
    .await
    .unwrap();
    held.release().await.unwrap();
    let mut document: Value = serde_json::from_str(&stored(&world).await).unwrap();
    document["region"] = json!({"name": "north", "zones": [1, 2]});
    store(&world, document.to_string()).await;
    let held = other.acquire_now().await;
    pass(secs(5)).await;
    held.show(Shown {
        writer_epoch: Some(13),
        ..Shown::default()
    })
    .await
    .unwrap();
    let kept: Value = serde_json::from_str(&stored(&world).await).unwrap();
    assert_eq!(kept["region"], document["region"]);
    assert_eq!(kept["writer_epoch"], 13);
    assert_eq!(kept.as_object().unwrap().len(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_newer_format_is_refused_by_name_and_left_alone() {
    let world = World::new();
    let one = world.process("one");
    let newer = r#"{"format": 2, "everything": "is different"}"#;
    store(&world, newer.to_owned()).await;
    for wait in [Wait::For(secs(0)), Wait::Forever] {
        let error = one.acquire(wait).await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "the lease object app/0/lease of s3://bucket/app has format 2, this program knows formats up to 1; nothing was \
             changed, use the newer version of the program"
        );
    }
    assert_eq!(stored(&world).await, newer);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_lease_is_refused_with_what_to_do_and_left_alone() {
    let world = World::new();
    let one = world.process("one");
    let held = one.acquire_now().await;
    held.release().await.unwrap();
    let lease = stored(&world).await;
    let broken = [
        String::new(),
        "not JSON".to_owned(),
        "{}".to_owned(),
        lease[..lease.len() - 1].to_owned(),
        lease.replace("\"nonce\"", "\"nonsense\""),
        lease.replace("released", "unknown"),
        lease.replace("2000", "999"),
        lease.replace("2000", "3600001"),
        " ".repeat(1_100_000) + &lease,
    ];
    for text in broken {
        store(&world, text.clone()).await;
        let error = one.acquire(Wait::Forever).await.err().unwrap();
        assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
        let message = error.to_string();
        assert!(
            message.contains("app/0/lease of s3://bucket/app cannot be understood"),
            "{message}"
        );
        assert!(
            message.contains("then delete that one object and open the store again"),
            "{message}"
        );
        assert_eq!(stored(&world).await, text);
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_stops_when_another_program_has_changed_its_lease() {
    for text in ["{", r#"{"format": 2}"#] {
        let world = World::new();
        let held = world.process("one").acquire_now().await;
        store(&world, text.to_owned()).await;
        let lost = within(LENGTH, held.lost()).await.unwrap();
        assert!(matches!(lost, Ended::Unreadable(_)), "{lost:?}");
    }
}

/// A lease of the first released format.
#[test]
fn the_first_format_stays_readable() {
    let text = r#"{"format":1,"state":"released","generation":3,
        "owner":{"host":"h","process":7,"incarnation":"0123456789abcdef0123456789abcdef"},
        "since":"2026-11-18T13:13:05.000Z","lease_ms":30000,"nonce":"fedcba9876543210fedcba9876543210","writer_epoch":5}"#;
    let document = Document::decode(text.as_bytes()).unwrap();
    assert_eq!((document.generation, document.state), (3, State::Released));
    assert_eq!(document.shown.writer_epoch, Some(5));
    assert_eq!(document.length(), secs(30));
    assert_eq!(Document::decode(&document.encode().unwrap()).unwrap(), document);
}

//! Documents live for a time only.

use crate::support::Raw;
use async_trait::async_trait;
use perennial_cosmos_server::{Options, Server};
use perennial_store::Clock;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that a test moves.
#[derive(Default)]
struct Hands(AtomicU64);

impl Hands {
    fn advance_s(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for Hands {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    async fn sleep(&self, _duration: Duration) {}
}

async fn start(properties: Value) -> (Raw, Arc<Hands>) {
    let clock = Arc::new(Hands::default());
    let server = Server::start_with_clock(Options::default(), clock.clone()).await;
    let raw = Raw::over(server.unwrap());
    assert_eq!(raw.post("/dbs", &json!({ "id": "db" })).send().await.status, 201);
    raw.create_container("c", properties).await;
    (raw, clock)
}

fn living(id: &str, ttl: i64) -> Value {
    json!({ "id": id, "pk": "p", "ttl": ttl })
}

async fn ids(raw: &Raw) -> Vec<String> {
    let answer = raw.query_all("SELECT c.id FROM c").send().await;
    let mut ids: Vec<String> = answer
        .rows()
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_document_vanishes_when_its_time_is_over() {
    let (raw, clock) = start(json!({ "defaultTtl": -1 })).await;
    raw.create_doc(&living("short", 10)).send().await;
    raw.create_doc(&living("long", 1_000)).send().await;
    raw.create_doc(&living("ever", -1)).send().await;
    raw.create("plain").send().await;
    clock.advance_s(9);
    assert_eq!(raw.read("short").send().await.status, 200);
    clock.advance_s(1);
    assert_eq!(raw.read("short").send().await.status, 404);
    assert_eq!(ids(&raw).await, ["ever", "long", "plain"]);
    // Its id is free again.
    assert_eq!(raw.create("short").send().await.status, 201);
    clock.advance_s(5_000);
    assert_eq!(ids(&raw).await, ["ever", "plain", "short"]);
}

#[tokio::test]
async fn the_default_is_for_documents_that_say_nothing() {
    let (raw, clock) = start(json!({ "defaultTtl": 20 })).await;
    raw.create("plain").send().await;
    raw.create_doc(&living("short", 10)).send().await;
    raw.create_doc(&living("ever", -1)).send().await;
    clock.advance_s(10);
    assert_eq!(ids(&raw).await, ["ever", "plain"]);
    clock.advance_s(10);
    assert_eq!(ids(&raw).await, ["ever"]);
}

#[tokio::test]
async fn every_write_starts_the_time_anew() {
    let (raw, clock) = start(json!({ "defaultTtl": -1 })).await;
    let upsert = |id: &str| json!({ "operationType": "Upsert", "resourceBody": living(id, 10) });
    raw.create_doc(&living("replaced", 10)).send().await;
    raw.create_doc(&living("freed", 10)).send().await;
    raw.batch(&json!([upsert("batched"), upsert("deleted")])).send().await;
    clock.advance_s(6);
    assert_eq!(raw.replace(&living("replaced", 10)).send().await.status, 200);
    assert_eq!(
        raw.replace(&json!({ "id": "freed", "pk": "p" })).send().await.status,
        200
    );
    assert_eq!(raw.delete("deleted").send().await.status, 204);
    assert_eq!(raw.create("deleted").send().await.status, 201);
    clock.advance_s(6);
    assert_eq!(ids(&raw).await, ["deleted", "freed", "replaced"]);
    clock.advance_s(6);
    assert_eq!(ids(&raw).await, ["deleted", "freed"]);
}

#[tokio::test]
async fn a_container_without_a_default_keeps_everything() {
    let (raw, clock) = start(json!({})).await;
    raw.create_doc(&living("short", 10)).send().await;
    clock.advance_s(1_000_000);
    assert_eq!(ids(&raw).await, ["short"]);
}

#[tokio::test]
async fn a_failed_write_changes_no_time() {
    let (raw, clock) = start(json!({ "defaultTtl": -1 })).await;
    raw.create_doc(&living("short", 10)).send().await;
    assert_eq!(raw.create_doc(&living("short", 1_000)).send().await.status, 409);
    let operations = json!([
        { "operationType": "Upsert", "resourceBody": living("short", 1_000) },
        { "operationType": "Delete", "id": "none" },
    ]);
    assert_eq!(raw.batch(&operations).send().await.status, 207);
    clock.advance_s(10);
    assert_eq!(ids(&raw).await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_time_to_live_is_a_time() {
    let (raw, _) = start(json!({ "defaultTtl": -1 })).await;
    for (ttl, status) in [
        (json!(1), 201),
        (json!(-1), 201),
        (Value::Null, 201),
        (json!(0), 400),
        (json!(-2), 400),
        (json!(1.5), 400),
        (json!("1"), 400),
        (json!(1_u64 << 31), 400),
    ] {
        let document = json!({ "id": ttl.to_string().replace('"', "'"), "pk": "p", "ttl": ttl });
        assert_eq!(raw.create_doc(&document).send().await.status, status, "{ttl}");
        let operations = json!([{ "operationType": "Upsert", "resourceBody": document }]);
        let status = if status == 201 { 200 } else { 400 };
        assert_eq!(raw.batch(&operations).send().await.status, status, "{ttl}");
    }
}

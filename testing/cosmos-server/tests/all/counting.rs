//! Requests are counted and priced.

use crate::support::Raw;
use perennial_cosmos_server::{Container, Fault, Kind, Latency, Options, Rule};
use serde_json::json;
use std::time::{Duration, Instant};

fn about(price: f64, expected: f64) {
    assert!((price - expected).abs() < 0.01, "{price} is not {expected}");
}

#[tokio::test]
async fn requests_are_counted_by_kind_status_and_container() {
    let raw = Raw::start(Options::default()).await;
    let before = raw.server.counts();
    raw.create("a").send().await;
    raw.create("a").send().await;
    raw.read("a").send().await;
    raw.query_all("SELECT * FROM c").send().await;
    raw.get("/dbs/db").send().await;
    let counts = raw.server.counts().since(&before);
    assert_eq!(counts.total, 5);
    assert_eq!(counts.documents(), 4);
    assert_eq!(counts.of(Kind::Create), 2);
    assert_eq!(counts.of(Kind::Read), 1);
    assert_eq!(counts.of(Kind::Query), 1);
    assert_eq!(counts.of(Kind::Batch), 0);
    assert_eq!(counts.answered(201), 1);
    assert_eq!(counts.answered(409), 1);
    let here = raw.server.counts_in(&Raw::container());
    assert_eq!(here.documents(), 4);
    assert_eq!(raw.server.counts_in(&Container::new("db", "none")).total, 0);
    assert!(counts.to_string().starts_with("5 requests"), "{counts}");
}

#[tokio::test]
async fn every_answer_has_its_price() {
    let raw = Raw::start(Options {
        partitions: 4,
        ..Options::default()
    })
    .await;
    about(raw.create("a").send().await.charge(), 6.29);
    about(raw.read("a").send().await.charge(), 1.0);
    about(raw.read("none").send().await.charge(), 1.0);
    about(
        raw.replace(&json!({ "id": "a", "pk": "p" })).send().await.charge(),
        10.29,
    );
    about(raw.query("SELECT * FROM c").partition("p").send().await.charge(), 2.6);
    about(raw.query("SELECT * FROM c").partition("q").send().await.charge(), 2.3);
    // Every physical partition has to look.
    about(raw.query_all("SELECT * FROM c").send().await.charge(), 4.0 * 2.3 + 0.3);
    let upsert = || {
        let ask = raw.create("u");
        ask.header("x-ms-documentdb-is-upsert", "True").send()
    };
    about(upsert().await.charge(), 6.29);
    about(upsert().await.charge(), 10.29);
    about(raw.delete("a").send().await.charge(), 6.29);
    let large = json!({ "id": "large", "pk": "p", "data": "x".repeat(100 * 1024) });
    raw.create_doc(&large).send().await;
    let charge = raw.read("large").send().await.charge();
    assert!((10.0..10.1).contains(&charge), "{charge}");
    let strong = raw.read("u").header("x-ms-consistency-level", "Strong").send().await;
    about(strong.charge(), 2.0);
    let answered = raw.server.counts().ru;
    assert!(answered > 100.0, "{answered}");
}

#[tokio::test]
async fn a_batch_costs_what_its_operations_cost() {
    let raw = Raw::start(Options::default()).await;
    raw.create("old").send().await;
    raw.create("gone").send().await;
    let operations = json!([
        { "operationType": "Create", "resourceBody": { "id": "new", "pk": "p" } },
        { "operationType": "Replace", "id": "old", "resourceBody": { "id": "old", "pk": "p", "n": 1 } },
        { "operationType": "Delete", "id": "gone" },
        { "operationType": "Read", "id": "old" },
    ]);
    let answer = raw.batch(&operations).send().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    about(answer.charge(), 6.2857 + 10.29 + 6.2857 + 1.0);
    about(answer.body[1]["requestCharge"].as_f64().unwrap(), 10.29);
    let again = raw.batch(&operations).send().await;
    assert_eq!(again.status, 207);
    about(again.charge(), 4.0);
}

#[tokio::test]
async fn the_log_keeps_the_latest_requests() {
    let raw = Raw::start(Options {
        log: 3,
        ..Options::default()
    })
    .await;
    raw.server.faults().add(Rule::at(1, Fault::LostReply));
    raw.create("first").send().await;
    assert!(raw.create("second").try_send().await.is_err());
    raw.read("second").send().await;
    let log = raw.server.log();
    let ids: Vec<&str> = log.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["first", "second", "second"]);
    assert_eq!(log[1].status, 0);
    assert_eq!(log[1].fault, Some(Fault::LostReply));
    assert_eq!(log[1].partition.as_deref(), Some("[\"p\"]"));
    about(log[1].ru, 6.29);
    let text = raw.server.log_text();
    assert_eq!(text.lines().count(), 3);
    assert!(text.contains("LostReply"), "{text}");
}

#[tokio::test]
async fn latency_is_added_to_each_request() {
    let latency = Latency {
        base_ms: 60,
        jitter_ms: 20,
    };
    let raw = Raw::start(Options {
        latency,
        ..Options::default()
    })
    .await;
    let started = Instant::now();
    assert_eq!(raw.create("a").send().await.status, 201);
    assert!(started.elapsed() >= Duration::from_millis(60));
    assert!(raw.server.log().last().unwrap().ms >= 59);
    raw.server.set_latency(Latency::default());
    for _ in 0..10 {
        raw.read("a").send().await;
    }
    assert!(raw.server.log().iter().rev().take(10).any(|entry| entry.ms < 59));
}

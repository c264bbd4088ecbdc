//! Reads may be old, as they are in an account.

use crate::support::{DOCS, Raw};
use perennial_cosmos_server::{Options, Replica};
use serde_json::{Value, json};

async fn start() -> Raw {
    Raw::start(Options {
        replica: true,
        ..Options::default()
    })
    .await
}

fn replica(raw: &Raw) -> &Replica {
    raw.server.replica().unwrap()
}

fn doc(id: &str, n: u64) -> Value {
    json!({ "id": id, "pk": "p", "n": n })
}

async fn rows(raw: &Raw) -> usize {
    raw.query_all("SELECT * FROM c").send().await.rows().len()
}

#[tokio::test]
async fn reads_are_up_to_date_until_it_lags() {
    let raw = start().await;
    raw.create_doc(&doc("a", 1)).send().await;
    assert_eq!(raw.read("a").send().await.body["n"], 1);
    assert_eq!(rows(&raw).await, 1);
    assert_eq!(replica(&raw).answered(), 0);
}

#[tokio::test]
async fn a_lagging_replica_shows_one_moment_of_the_past() {
    let raw = start().await;
    raw.create_doc(&doc("a", 1)).send().await;
    raw.create_doc(&doc("b", 1)).send().await;
    replica(&raw).lag(u64::MAX).await;
    assert_eq!(raw.replace(&doc("a", 2)).send().await.status, 200);
    assert_eq!(raw.delete("b").send().await.status, 204);
    let operations = json!([
        { "operationType": "Create", "resourceBody": doc("c", 2) },
        { "operationType": "Upsert", "resourceBody": doc("d", 2) },
    ]);
    assert_eq!(raw.batch(&operations).send().await.status, 200);
    assert_eq!(raw.read("a").send().await.body["n"], 1);
    assert_eq!(raw.read("b").send().await.status, 200);
    assert_eq!(raw.read("c").send().await.status, 404);
    assert_eq!(rows(&raw).await, 2);
    assert_eq!(raw.get(DOCS).send().await.rows().len(), 2);
    assert_eq!(replica(&raw).answered(), 5);
    replica(&raw).catch_up().await;
    assert_eq!(raw.read("a").send().await.body["n"], 2);
    assert_eq!(raw.read("b").send().await.status, 404);
    assert_eq!(rows(&raw).await, 3);
    assert_eq!(raw.create_doc(&doc("e", 3)).send().await.status, 201);
    assert_eq!(rows(&raw).await, 3);
    replica(&raw).keep_up().await;
    assert_eq!(rows(&raw).await, 4);
}

#[tokio::test]
async fn writes_meet_the_present() {
    let raw = start().await;
    let first = raw.create_doc(&doc("a", 1)).send().await;
    let old = first.header("etag").unwrap().to_owned();
    replica(&raw).lag(u64::MAX).await;
    assert_eq!(raw.replace(&doc("a", 2)).send().await.status, 200);
    assert_eq!(raw.read("a").send().await.header("etag"), Some(old.as_str()));
    let fenced = raw.replace(&doc("a", 3)).header("if-match", &old);
    assert_eq!(fenced.send().await.status, 412);
    assert_eq!(raw.create_doc(&doc("a", 1)).send().await.status, 409);
    let operations = json!([{ "operationType": "Read", "id": "a" }]);
    let batch = raw.batch(&operations).send().await;
    assert_eq!(batch.body[0]["resourceBody"]["n"], 2);
}

#[tokio::test]
async fn a_session_sees_its_own_writes() {
    let raw = start().await;
    raw.create_doc(&doc("a", 1)).send().await;
    replica(&raw).lag(u64::MAX).await;
    let written = raw.replace(&doc("a", 2)).send().await;
    let token = written.header("x-ms-session-token").unwrap();
    let read = raw.read("a").header("x-ms-session-token", token).send().await;
    assert_eq!(read.body["n"], 2);
    let query = raw.query_all("SELECT * FROM c").header("x-ms-session-token", token);
    assert_eq!(query.send().await.rows()[0]["n"], 2);
    assert_eq!(replica(&raw).answered(), 0);
    // Others do not.
    assert_eq!(raw.read("a").send().await.body["n"], 1);
}

#[tokio::test]
async fn who_asks_for_the_latest_gets_it() {
    let raw = start().await;
    replica(&raw).lag(u64::MAX).await;
    raw.create("a").send().await;
    assert_eq!(raw.read("a").send().await.status, 404);
    for (name, value) in [
        ("x-ms-cosmos-read-consistency-strategy", "LatestCommitted"),
        ("x-ms-consistency-level", "Strong"),
    ] {
        assert_eq!(raw.read("a").header(name, value).send().await.status, 200, "{value}");
    }
}

#[tokio::test]
async fn it_is_never_older_than_its_lag() {
    let raw = start().await;
    replica(&raw).lag(0).await;
    raw.create("a").send().await;
    assert_eq!(raw.read("a").send().await.status, 200);
    replica(&raw).lag(50).await;
    raw.create("b").send().await;
    // A moment of the past first, unless the machine was slow; the present for certain, in time.
    while raw.read("b").send().await.status != 200 {}
}

#[tokio::test]
async fn clients_see_one_region() {
    let raw = start().await;
    let account = raw.get("/").send().await.body;
    for list in ["readableLocations", "writableLocations"] {
        let regions = account[list].as_array().unwrap();
        assert_eq!(regions.len(), 1, "{account}");
        assert_eq!(regions[0]["databaseAccountEndpoint"], json!(raw.server.endpoint()));
    }
}

#[tokio::test]
async fn there_is_none_unless_asked_for() {
    let raw = Raw::start(Options::default()).await;
    assert!(raw.server.replica().is_none());
}

#[tokio::test]
async fn it_catches_up_with_everything() {
    let raw = start().await;
    replica(&raw).lag(u64::MAX).await;
    let mut chance = fastrand::Rng::with_seed(7);
    for round in 0..20 {
        for step in 0..15 {
            let id = format!("d{}", chance.u8(0..6));
            let document = doc(&id, round * 100 + step);
            match chance.u8(0..4) {
                0 => raw.delete(&id).send().await.status,
                1 => raw.create_doc(&document).send().await.status,
                2 => {
                    let operations = json!([
                        { "operationType": "Upsert", "resourceBody": document },
                        { "operationType": "Upsert", "resourceBody": doc("both", round) },
                    ]);
                    raw.batch(&operations).send().await.status
                }
                _ => raw.replace(&document).send().await.status,
            };
        }
        replica(&raw).catch_up().await;
        let all = || raw.query("SELECT * FROM c ORDER BY c.id").partition("p");
        let latest = all().header("x-ms-cosmos-read-consistency-strategy", "LatestCommitted");
        let (old, new) = (all().send().await, latest.send().await);
        assert_eq!(old.rows(), new.rows(), "round {round}");
    }
    assert_eq!(replica(&raw).answered(), 20);
}

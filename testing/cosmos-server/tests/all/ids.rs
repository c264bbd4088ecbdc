//! Ids, partition keys and batches that the service refuses.

use crate::support::{DOCS, Raw};
use perennial_cosmos_server::Options;
use serde_json::{Value, json};

fn doc(id: &str) -> Value {
    json!({ "id": id, "pk": "p" })
}

#[tokio::test]
async fn ids_have_a_length_and_an_alphabet() {
    let raw = Raw::start(Options::default()).await;
    let longest = "x".repeat(1023);
    let too_long = "x".repeat(1024);
    for (id, status) in [
        ("fine", 201),
        (":|~!'", 201),
        (longest.as_str(), 201),
        ("", 400),
        ("a/b", 400),
        ("a\\b", 400),
        ("a#b", 400),
        ("a?b", 400),
        (too_long.as_str(), 400),
    ] {
        assert_eq!(raw.create_doc(&doc(id)).send().await.status, status, "create {id:?}");
        let operations = json!([{ "operationType": "Upsert", "resourceBody": doc(id) }]);
        let status = if status == 201 { 200 } else { 400 };
        assert_eq!(raw.batch(&operations).send().await.status, status, "batch {id:?}");
    }
}

#[tokio::test]
async fn an_escaped_slash_in_the_path_is_still_a_slash() {
    let raw = Raw::start(Options::default()).await;
    assert_eq!(raw.read("a%2Fb").send().await.status, 400);
    assert_eq!(raw.read("ab").send().await.status, 404);
}

#[tokio::test]
async fn a_document_needs_an_id() {
    let raw = Raw::start(Options::default()).await;
    for document in [json!({ "pk": "p" }), json!({ "id": 7, "pk": "p" })] {
        assert_eq!(raw.create_doc(&document).send().await.status, 400);
    }
    let operations = json!([{ "operationType": "Create", "resourceBody": { "pk": "p" } }]);
    assert_eq!(raw.batch(&operations).send().await.status, 400);
}

#[tokio::test]
async fn databases_and_containers_have_names() {
    let raw = Raw::start(Options::default()).await;
    for (id, status) in [("a#b", 400), ("", 400), ("fine", 201)] {
        assert_eq!(
            raw.post("/dbs", &json!({ "id": id })).send().await.status,
            status,
            "{id:?}"
        );
    }
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let body = json!({ "id": "a?b", "partitionKey": key });
    assert_eq!(raw.post("/dbs/db/colls", &body).send().await.status, 400);
}

#[tokio::test]
async fn partition_keys_have_a_length() {
    let raw = Raw::start(Options::default()).await;
    let longest = json!({ "id": "a", "pk": "k".repeat(2048) });
    let too_long = json!({ "id": "a", "pk": "k".repeat(2049) });
    assert_eq!(raw.create_doc(&longest).send().await.status, 201);
    assert_eq!(raw.create_doc(&too_long).send().await.status, 400);
    // A key of the first version is shorter.
    let key = json!({ "paths": ["/pk"], "kind": "Hash" });
    let body = json!({ "id": "old", "partitionKey": key });
    assert_eq!(raw.post("/dbs/db/colls", &body).send().await.status, 201);
    for (length, status) in [(101, 201), (102, 400)] {
        let document = json!({ "id": "a", "pk": "k".repeat(length) });
        let ask = raw.post("/dbs/db/colls/old/docs", &document);
        let ask = ask.partition(document["pk"].as_str().unwrap());
        assert_eq!(ask.send().await.status, status, "{length}");
    }
}

#[tokio::test]
async fn document_requests_name_their_partition() {
    let raw = Raw::start(Options::default()).await;
    assert_eq!(raw.post(DOCS, &doc("a")).send().await.status, 400);
    assert_eq!(raw.get(&format!("{DOCS}/a")).send().await.status, 400);
    assert_eq!(
        raw.ask(reqwest::Method::DELETE, &format!("{DOCS}/a"))
            .send()
            .await
            .status,
        400
    );
    let operations = json!([{ "operationType": "Create", "resourceBody": doc("a") }]);
    let batch = raw
        .post(DOCS, &operations)
        .header("x-ms-cosmos-is-batch-request", "True");
    assert_eq!(batch.send().await.status, 400);
    let garbage = raw.post(DOCS, &doc("a")).header("x-ms-documentdb-partitionkey", "p");
    assert_eq!(garbage.send().await.status, 400);
    assert_eq!(raw.create("a").send().await.status, 201);
}

#[tokio::test]
async fn a_batch_has_from_one_to_a_hundred_operations() {
    let raw = Raw::start(Options::default()).await;
    let operation = |id: usize| json!({ "operationType": "Create", "resourceBody": doc(&id.to_string()) });
    for (count, status) in [(0, 400), (1, 200), (101, 400)] {
        let operations: Vec<Value> = (0..count).map(operation).collect();
        assert_eq!(raw.batch(&json!(operations)).send().await.status, status, "{count}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_strict_takes_what_the_emulator_takes() {
    let options = Options {
        strict: false,
        ..Options::default()
    };
    let raw = Raw::start(options).await;
    assert_eq!(raw.create("a#b").send().await.status, 201);
    assert_eq!(raw.batch(&json!([])).send().await.status, 200);
}

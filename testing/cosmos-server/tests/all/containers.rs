//! Containers have the requested number of partitions, and all their properties.

use crate::support::{DOCS, Raw};
use perennial_cosmos_server::{Options, Server};
use reqwest::Method;
use serde_json::{Value, json};

fn body(id: &str) -> Value {
    json!({
        "id": id,
        "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
        "defaultTtl": 77,
        "indexingPolicy": { "includedPaths": [{ "path": "/x/?" }], "excludedPaths": [{ "path": "/*" }] },
    })
}

#[tokio::test]
async fn the_number_of_partitions_is_ours() {
    for partitions in [1, 4, 32] {
        let raw = Raw::start(Options {
            partitions,
            ..Options::default()
        })
        .await;
        let ranges = raw.get("/dbs/db/colls/c/pkranges").send().await;
        let ranges = ranges.body["PartitionKeyRanges"].as_array().unwrap().len();
        assert_eq!(ranges, usize::try_from(partitions).unwrap());
        for id in 0..50 {
            let document = json!({ "id": "a", "pk": id.to_string() });
            assert_eq!(raw.create_doc(&document).send().await.status, 201);
        }
        assert_eq!(raw.query_all("SELECT * FROM c").send().await.rows().len(), 50);
    }
}

#[tokio::test]
async fn properties_come_back() {
    let raw = Raw::start(Options::default()).await;
    let created = raw.post("/dbs/db/colls", &body("full")).send().await;
    assert_eq!(created.status, 201);
    let read = raw.get("/dbs/db/colls/full").send().await;
    for answer in [&created, &read] {
        assert_eq!(answer.body["defaultTtl"], 77);
        assert_eq!(answer.body["indexingPolicy"]["includedPaths"][0]["path"], "/x/?");
        assert_eq!(answer.body["partitionKey"]["version"], 2);
    }
    assert_eq!(created.header("etag"), read.header("etag"));
    let minimal = raw
        .post("/dbs/db/colls", &body("quiet"))
        .header("prefer", "return=minimal");
    let minimal = minimal.send().await;
    assert_eq!((minimal.status, minimal.body), (201, Value::Null));
}

#[tokio::test]
async fn what_is_not_in_order_is_refused() {
    let raw = Raw::start(Options::default()).await;
    assert_eq!(raw.post("/dbs/db/colls", &body("c")).send().await.status, 409);
    assert_eq!(raw.post("/dbs/none/colls", &body("x")).send().await.status, 404);
    assert_eq!(
        raw.post("/dbs/db/colls", &json!({ "id": "x" })).send().await.status,
        400
    );
    let poor = raw
        .post("/dbs/db/colls", &body("x"))
        .header("x-ms-offer-throughput", "100");
    assert_eq!(poor.send().await.status, 400);
    assert_eq!(raw.get("/dbs/db/colls/x").send().await.status, 404);
}

#[tokio::test]
async fn throughput_has_an_offer() {
    let raw = Raw::start(Options::default()).await;
    let rich = raw
        .post("/dbs/db/colls", &body("rich"))
        .header("x-ms-offer-throughput", "1000");
    assert_eq!(rich.send().await.status, 201);
    let offers = raw.get("/offers").send().await;
    assert_eq!(
        offers.body["Offers"][0]["content"]["offerThroughput"], 1000,
        "{offers:?}"
    );
    let rid = offers.body["Offers"][0]["_rid"].as_str().unwrap();
    assert_eq!(
        raw.get(&format!("/offers/{rid}")).send().await.status,
        401,
        "the id is signed in lower case"
    );
}

#[tokio::test]
async fn unique_keys_are_left_to_the_emulator() {
    let raw = Raw::start(Options::default()).await;
    let mut body = body("unique");
    body["uniqueKeyPolicy"] = json!({ "uniqueKeys": [{ "paths": ["/x"] }] });
    assert_eq!(raw.post("/dbs/db/colls", &body).send().await.status, 201);
    let read = raw.get("/dbs/db/colls/unique").send().await;
    assert_eq!(read.body["uniqueKeyPolicy"], body["uniqueKeyPolicy"]);
}

#[tokio::test]
async fn of_many_who_create_a_container_one_does() {
    let raw = Raw::start(Options::default()).await;
    let body = body("raced");
    let races = (0..8).map(|_| raw.post("/dbs/db/colls", &body).send());
    let answers = futures::future::join_all(races).await;
    let created = answers.iter().filter(|answer| answer.status == 201).count();
    let refused = answers.iter().filter(|answer| answer.status == 409).count();
    assert_eq!((created, refused), (1, 7));
}

#[tokio::test]
async fn a_deleted_container_is_forgotten() {
    let raw = Raw::start(Options::default()).await;
    raw.create("a").send().await;
    assert_eq!(raw.ask(Method::DELETE, "/dbs/db/colls/c").send().await.status, 204);
    assert_eq!(raw.read("a").send().await.status, 404);
    raw.create_container("c", json!({})).await;
    assert_eq!(raw.read("a").send().await.status, 404);
    assert_eq!(raw.ask(Method::DELETE, "/dbs/db").send().await.status, 204);
    assert_eq!(raw.get(DOCS).send().await.status, 404);
}

#[tokio::test]
async fn servers_share_nothing_and_leave_nothing() {
    let mut servers = Vec::new();
    for _ in 0..24 {
        servers.push(Server::start(Options::default()).await.unwrap());
    }
    let endpoints: std::collections::HashSet<String> = servers.iter().map(Server::endpoint).collect();
    assert_eq!(endpoints.len(), 24);
    let port = servers[0]
        .endpoint()
        .trim_end_matches('/')
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // A port in use is an error, a port that was left is free.
    let options = || Options {
        port,
        ..Options::default()
    };
    assert!(Server::start(options()).await.is_err());
    servers.remove(0).shutdown();
    let again = Server::start(options()).await.unwrap();
    assert!(again.endpoint().ends_with(&format!(":{port}/")));
}

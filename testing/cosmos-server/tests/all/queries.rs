//! Queries that the gateway refuses, and those that it serves.

use crate::support::{DOCS, Raw};
use perennial_cosmos_server::Options;
use serde_json::{Value, json};

const MERGED: [&str; 9] = [
    "SELECT * FROM c ORDER BY c.n",
    "select * from c order  by c.n",
    "SELECT TOP 3 * FROM c",
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT VALUE MAX(c.n) FROM c",
    "SELECT DISTINCT c.n FROM c",
    "SELECT DISTINCT VALUE c.n FROM c",
    "SELECT c.n FROM c GROUP BY c.n",
    "SELECT * FROM c OFFSET 1 LIMIT 1",
];

const SIMPLE: [&str; 5] = [
    "SELECT * FROM c",
    "SELECT c.id FROM c WHERE c.n >= 1 AND c.pk IN ('p', 'q')",
    // Words that are no keywords here.
    "SELECT c.top, c.max, c[\"order\"] FROM c WHERE c.text = 'ORDER BY TOP 1' OR c.count = 1",
    "SELECT * FROM c WHERE c.text = 'it''s' OR c.text = \"a \\\" DISTINCT\"",
    "SELECT c.distinct FROM c",
];

async fn filled(options: Options) -> Raw {
    let raw = Raw::start(options).await;
    for n in 0..4 {
        let partition = ["p", "q"][n % 2];
        let document = json!({ "id": n.to_string(), "pk": partition, "n": n });
        assert_eq!(raw.create_doc(&document).send().await.status, 201);
    }
    raw
}

#[tokio::test]
async fn the_gateway_merges_nothing() {
    let raw = filled(Options {
        partitions: 4,
        ..Options::default()
    })
    .await;
    for text in MERGED {
        let answer = raw.query_all(text).send().await;
        assert_eq!((answer.status, answer.substatus()), (400, 1004), "{text}");
    }
    for text in SIMPLE {
        let answer = raw.query_all(text).send().await;
        assert_ne!(answer.substatus(), 1004, "{text}");
    }
    assert_eq!(raw.query_all(SIMPLE[0]).send().await.rows().len(), 4);
}

#[tokio::test]
async fn one_partition_or_range_needs_no_merging() {
    let raw = filled(Options {
        partitions: 4,
        ..Options::default()
    })
    .await;
    let ranges = raw.get("/dbs/db/colls/c/pkranges").send().await;
    let ranges = ranges.body["PartitionKeyRanges"].as_array().unwrap().clone();
    assert_eq!(ranges.len(), 4);
    for text in MERGED {
        let answer = raw.query(text).partition("p").send().await;
        assert_eq!(answer.status, 200, "{text}: {answer:?}");
        let range = ranges[0]["id"].as_str().unwrap();
        let ask = raw.query(text).header("x-ms-documentdb-partitionkeyrangeid", range);
        let answer = ask.send().await;
        assert_eq!(answer.status, 200, "{text}: {answer:?}");
    }
}

#[tokio::test]
async fn a_plan_is_served_for_what_needs_merging() {
    let raw = filled(Options::default()).await;
    let body = json!({ "query": MERGED[0], "parameters": [] });
    let ask = raw
        .post(DOCS, &body)
        .header("x-ms-cosmos-is-query-plan-request", "True");
    let answer = ask.header("x-ms-documentdb-isquery", "True").send().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body["queryInfo"]["orderBy"], json!(["Ascending"]), "{answer:?}");
}

#[tokio::test]
async fn who_asks_all_partitions_says_so() {
    let raw = filled(Options::default()).await;
    assert_eq!(raw.query("SELECT * FROM c").send().await.status, 400);
    let no = raw
        .query("SELECT * FROM c")
        .header("x-ms-documentdb-query-enablecrosspartition", "False");
    assert_eq!(no.send().await.status, 400);
    assert_eq!(raw.query_all("SELECT * FROM c").send().await.status, 200);
    assert_eq!(raw.query("SELECT * FROM c").partition("p").send().await.rows().len(), 2);
}

fn lean() -> Value {
    json!({ "indexingPolicy": {
        "indexingMode": "consistent",
        "includedPaths": [{ "path": "/n/?" }, { "path": "/deep/*" }, { "path": "/\"odd name\"/?" }],
        "excludedPaths": [{ "path": "/*" }, { "path": "/deep/not/?" }],
        "compositeIndexes": [
            [{ "path": "/lane", "order": "ascending" }, { "path": "/at", "order": "descending" }],
            [{ "path": "/a", "order": "ascending" }, { "path": "/b" }, { "path": "/c" }],
        ],
    } })
}

/// Which orders are refused where not everything is indexed.
async fn are_answered(orders: &[(&str, u16)]) {
    let raw = Raw::with_container(Options::default(), lean()).await;
    for (order, status) in orders {
        let text = format!("SELECT * FROM c ORDER BY {order}");
        let answer = raw.query(&text).partition("p").send().await;
        assert_eq!(answer.status, *status, "{order}: {answer:?}");
    }
}

#[tokio::test]
async fn an_order_needs_its_index() {
    are_answered(&[
        ("c.n", 200),
        ("c.n DESC", 200),
        ("c[\"n\"]", 200),
        ("c['odd name']", 200),
        ("c.deep.field ASC", 200),
        ("c.id", 200),
        ("c._ts", 200),
        ("c.deep.not", 400),
        ("c.other", 400),
        ("c.n.below", 400),
    ])
    .await;
}

#[tokio::test]
async fn two_columns_need_a_composite_index() {
    are_answered(&[
        ("c.lane ASC, c.at DESC", 200),
        ("c.lane DESC, c.at ASC", 200),
        ("c.lane, c.at", 400),
        ("c.at DESC, c.lane ASC", 400),
        ("c.lane, c.n", 400),
        ("c.a, c.b, c.c", 200),
        ("c.a, c.b", 400),
        ("c.lane ASC, c.at DESC OFFSET 0 LIMIT 5", 200),
    ])
    .await;
}

#[tokio::test]
async fn a_container_without_a_policy_indexes_everything_alone() {
    let raw = Raw::start(Options::default()).await;
    let ask = |order: &str| {
        let text = format!("SELECT * FROM c ORDER BY {order}");
        raw.query(&text).partition("p").send()
    };
    assert_eq!(ask("c.anything").await.status, 200);
    assert_eq!(ask("c.a, c.b").await.status, 400);
}

#[tokio::test]
async fn a_replaced_policy_is_the_one_in_force() {
    let raw = Raw::with_container(Options::default(), lean()).await;
    let ask = || raw.query("SELECT * FROM c ORDER BY c.other").partition("p").send();
    assert_eq!(ask().await.status, 400);
    let mut body = json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    body["indexingPolicy"] = json!({ "includedPaths": [{ "path": "/*" }], "excludedPaths": [] });
    let put = raw.ask(reqwest::Method::PUT, "/dbs/db/colls/c").body(&body.to_string());
    assert_eq!(put.send().await.status, 200);
    assert_eq!(ask().await.status, 200);
}

#[tokio::test]
async fn a_server_that_is_not_strict_serves_all_of_them() {
    let raw = filled(Options {
        strict: false,
        ..Options::default()
    })
    .await;
    let answer = raw.query("SELECT * FROM c ORDER BY c.n").send().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.rows().len(), 4);
}

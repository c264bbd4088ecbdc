//! Pages are small, and some are empty.

use crate::support::{DOCS, Raw};
use perennial_cosmos_server::Options;
use serde_json::json;

/// All ids in the order of their pages, and the sizes of the pages.
async fn walk(raw: &Raw, text: &str, partition: Option<&str>, max: Option<&str>) -> (Vec<String>, Vec<usize>) {
    let (mut ids, mut sizes, mut token) = (Vec::new(), Vec::new(), None::<String>);
    loop {
        let mut ask = raw.query_all(text);
        if let Some(partition) = partition {
            ask = ask.partition(partition);
        }
        if let Some(max) = max {
            ask = ask.header("x-ms-max-item-count", max);
        }
        if let Some(token) = &token {
            ask = ask.header("x-ms-continuation", token);
        }
        let answer = ask.send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        sizes.push(answer.rows().len());
        assert_eq!(
            answer.header("x-ms-item-count"),
            Some(answer.rows().len().to_string().as_str())
        );
        ids.extend(answer.rows().iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        token = answer.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            return (ids, sizes);
        }
        assert!(sizes.len() < 1_000, "the pages do not end");
    }
}

async fn filled(options: Options, count: usize) -> Raw {
    let raw = Raw::start(options).await;
    for chunk in (0..count).collect::<Vec<_>>().chunks(100) {
        let operation =
            |id: &usize| json!({ "operationType": "Create", "resourceBody": { "id": format!("{id:04}"), "pk": "p" } });
        let operations: Vec<_> = chunk.iter().map(operation).collect();
        assert_eq!(raw.batch(&json!(operations)).send().await.status, 200);
    }
    raw
}

fn is_complete(mut ids: Vec<String>, count: usize) {
    ids.sort();
    let expected: Vec<String> = (0..count).map(|id| format!("{id:04}")).collect();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn a_page_has_a_hundred_items_at_most() {
    let raw = filled(Options::default(), 250).await;
    for max in [None, Some("-1"), Some("1000"), Some("100")] {
        let (ids, sizes) = walk(&raw, "SELECT * FROM c", None, max).await;
        is_complete(ids, 250);
        assert_eq!(sizes, [100, 100, 50], "{max:?}");
    }
    let (_, sizes) = walk(&raw, "SELECT * FROM c", None, Some("30")).await;
    assert_eq!(sizes, [30, 30, 30, 30, 30, 30, 30, 30, 10]);
}

#[tokio::test]
async fn the_cap_is_as_small_as_asked() {
    let raw = filled(
        Options {
            page_cap: 7,
            ..Options::default()
        },
        20,
    )
    .await;
    let (ids, sizes) = walk(&raw, "SELECT * FROM c", Some("p"), None).await;
    is_complete(ids, 20);
    assert_eq!(sizes, [7, 7, 6]);
    let (ids, _) = walk(&raw, "SELECT * FROM c ORDER BY c.id DESC", Some("p"), None).await;
    assert_eq!(ids.first().map(String::as_str), Some("0019"));
    is_complete(ids, 20);
    let feed = raw.get(DOCS).send().await;
    assert_eq!(feed.rows().len(), 7);
    let changes = raw.get(DOCS).header("a-im", "Incremental Feed").send().await;
    assert_eq!(changes.rows().len(), 7);
}

#[tokio::test]
async fn a_page_has_four_megabytes_at_most() {
    let raw = Raw::start(Options::default()).await;
    for id in 0..6 {
        let document = json!({ "id": format!("{id:04}"), "pk": "p", "data": "x".repeat(1_500_000) });
        assert_eq!(raw.create_doc(&document).send().await.status, 201);
    }
    let (ids, sizes) = walk(&raw, "SELECT * FROM c", None, None).await;
    is_complete(ids, 6);
    assert!(sizes.iter().all(|size| *size <= 2), "{sizes:?}");
}

#[tokio::test]
async fn some_pages_over_all_partitions_are_empty() {
    let raw = filled(
        Options {
            page_cap: 5,
            empty_pages: 2,
            ..Options::default()
        },
        23,
    )
    .await;
    let (ids, sizes) = walk(&raw, "SELECT * FROM c", None, None).await;
    is_complete(ids, 23);
    assert!(sizes.iter().filter(|size| **size == 0).count() >= 2, "{sizes:?}");
    // The first page may be empty as well.
    let raw = filled(
        Options {
            page_cap: 5,
            empty_pages: 1,
            ..Options::default()
        },
        7,
    )
    .await;
    let (ids, sizes) = walk(&raw, "SELECT * FROM c", None, None).await;
    is_complete(ids, 7);
    assert_eq!(sizes, [0, 5, 0, 2]);
    // A query of one partition gets no empty pages.
    let (_, sizes) = walk(&raw, "SELECT * FROM c", Some("p"), None).await;
    assert_eq!(sizes, [5, 2]);
}

#[tokio::test]
async fn a_made_up_continuation_is_refused() {
    let raw = filled(Options::default(), 3).await;
    let ask = raw.query_all("SELECT * FROM c").header("x-ms-continuation", "nonsense");
    assert_eq!(ask.send().await.status, 400);
}

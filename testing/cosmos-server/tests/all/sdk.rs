//! The official SDK works over the strict front.

use azure_core::credentials::Secret;
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::models::{
    CompositeIndex, CompositeIndexOrder, CompositeIndexProperty, ContainerProperties, IndexingPolicy,
};
use azure_data_cosmos::options::{ChangeFeedStartFrom, ItemWriteOptions, Precondition};
use azure_data_cosmos::{AccountReference, CosmosClient, FeedScope, Query, RoutingStrategy, TransactionalBatch};
use futures::{StreamExt, TryStreamExt};
use perennial_cosmos_server::{Fault, Kind, Options, Rule, Server};
use serde_json::{Value, json};

async fn client(server: &Server) -> CosmosClient {
    let endpoint = server.endpoint().parse().unwrap();
    let account = AccountReference::with_authentication_key(endpoint, Secret::from(server.key().to_owned()));
    let routing = RoutingStrategy::ProximityTo("East US".into());
    CosmosClient::builder().build(account, routing).await.unwrap()
}

async fn container(server: &Server) -> ContainerClient {
    let client = client(server).await;
    client.create_database("db", None).await.unwrap();
    let database = client.database_client("db");
    let column = |path| CompositeIndexProperty::new(path, CompositeIndexOrder::Ascending);
    let composite = CompositeIndex::default().with_property(column("/pk"));
    let policy = IndexingPolicy::default()
        .with_included_path("/at/?")
        .with_excluded_path("/*")
        .with_composite_index(composite.with_property(column("/at")));
    let properties = ContainerProperties::new("c", "/pk".into()).with_indexing_policy(policy);
    database.create_container(properties, None).await.unwrap();
    database.container_client("c", None).await.unwrap()
}

fn doc(id: usize) -> Value {
    // Every partition has documents of every time, so that only a merge gets them in order.
    json!({ "id": format!("d{id}"), "pk": format!("p{}", id % 5), "at": (id * 37) % 101 })
}

async fn query(container: &ContainerClient, text: &str, scope: FeedScope) -> azure_data_cosmos::Result<Vec<Value>> {
    let rows = container.query_items::<Value>(Query::from(text), scope, None).await?;
    rows.try_collect().await
}

#[tokio::test]
async fn documents_come_and_go() {
    let server = Server::start(Options::default()).await.unwrap();
    let container = container(&server).await;
    assert!(container.read_throughput(None).await.unwrap().is_none());
    let before = server.counts();
    let created = container.create_item("p1", "d1", doc(1), None).await.unwrap();
    let etag = created.headers().etag().unwrap().clone();
    let read: Value = container
        .read_item("p1", "d1", None)
        .await
        .unwrap()
        .into_model()
        .unwrap();
    assert_eq!(read["at"], 37);
    let fenced = || ItemWriteOptions::default().with_precondition(Precondition::if_match(etag.clone()));
    container
        .replace_item("p1", "d1", doc(1), Some(fenced()))
        .await
        .unwrap();
    assert!(
        container
            .replace_item("p1", "d1", doc(1), Some(fenced()))
            .await
            .is_err()
    );
    container.upsert_item("p1", "d1", doc(1), None).await.unwrap();
    container.delete_item("p1", "d1", None).await.unwrap();
    assert!(container.read_item("p1", "d1", None).await.is_err());
    let counts = server.counts().since(&before);
    assert_eq!(counts.documents(), 7, "{}", server.log_text());
    assert_eq!(counts.answered(412), 1);
}

#[tokio::test]
async fn batches_are_all_or_nothing() {
    let server = Server::start(Options::default()).await.unwrap();
    let container = container(&server).await;
    let run = |batch| container.execute_transactional_batch(batch, None);
    let both = || {
        let batch = TransactionalBatch::new("p1").create_item(doc(1)).unwrap();
        batch.create_item(doc(6)).unwrap()
    };
    let first = run(both()).await.unwrap();
    assert!(first.headers().request_charge().unwrap().value() > 12.0);
    let first = first.into_model().unwrap();
    assert!(first.results().iter().all(|result| result.is_success()));
    let third = both().create_item(doc(11)).unwrap();
    let second = run(third).await.unwrap().into_model().unwrap();
    let statuses: Vec<u16> = second.results().iter().map(|result| result.status_code()).collect();
    assert_eq!(statuses, [409, 424, 424]);
    assert!(container.read_item("p1", "d11", None).await.is_err());
}

#[tokio::test]
async fn ordered_queries_over_all_partitions_are_merged_by_the_client() {
    let options = Options {
        partitions: 4,
        page_cap: 7,
        empty_pages: 3,
        ..Options::default()
    };
    let server = Server::start(options).await.unwrap();
    let container = container(&server).await;
    for id in 0..100 {
        let document = doc(id);
        let partition = document["pk"].as_str().unwrap().to_owned();
        container
            .create_item(partition, &format!("d{id}"), &document, None)
            .await
            .unwrap();
    }
    let before = server.counts();
    let all = FeedScope::full_container;
    let ordered = query(&container, "SELECT c.at FROM c ORDER BY c.at", all())
        .await
        .unwrap();
    let times: Vec<u64> = ordered.iter().map(|row| row["at"].as_u64().unwrap()).collect();
    let mut expected: Vec<u64> = (0..100).map(|id| (id * 37) % 101).collect();
    expected.sort_unstable();
    assert_eq!(times, expected);
    let counts = server.counts().since(&before);
    // 100 documents in pages of 7, and some of none. The SDK plans simple queries without a request.
    assert!(counts.of(Kind::Query) > 100 / 7, "{counts}");
    let top = query(&container, "SELECT TOP 3 c.at FROM c ORDER BY c.at DESC", all())
        .await
        .unwrap();
    assert_eq!(top.len(), 3);
    let plain = query(&container, "SELECT c.id FROM c WHERE c.at >= 50", all())
        .await
        .unwrap();
    assert_eq!(plain.len(), expected.iter().filter(|at| **at >= 50).count());
    let one = query(&container, "SELECT VALUE COUNT(1) FROM c", FeedScope::partition("p1"))
        .await
        .unwrap();
    assert_eq!(one, [json!(20)]);
    // Columns are given twice as often as they have an index.
    let text = "SELECT c.pk, c.at FROM c ORDER BY c.pk DESC, c.at DESC";
    let ordered = query(&container, text, all()).await.unwrap();
    let column = |row: &Value| (row["pk"].as_str().unwrap().to_owned(), row["at"].as_u64().unwrap());
    let columns: Vec<_> = ordered.iter().map(column).collect();
    assert_eq!(columns.len(), 100);
    assert!(columns.is_sorted_by(|left, right| left >= right), "{columns:?}");
    let text = "SELECT c.pk, c.at FROM c ORDER BY c.at, c.pk";
    assert!(query(&container, text, all()).await.is_err());
    // The policy of the container indexes nothing else.
    assert!(query(&container, "SELECT * FROM c ORDER BY c.pk", all()).await.is_err());
}

#[tokio::test]
async fn the_client_retries_what_it_should() {
    let server = Server::start(Options::default()).await.unwrap();
    let container = container(&server).await;
    for fault in [
        Fault::throttled(1),
        Fault::retry_with(),
        Fault::unavailable(),
        Fault::LostRequest,
    ] {
        server.faults().reset();
        server.faults().add(Rule::at(0, fault));
        container.upsert_item("p1", "d1", doc(1), None).await.unwrap();
        assert_eq!(server.faults().hits(), 1);
        assert!(server.faults().seen() >= 2);
    }
    // The reply to our own create is lost: the retry meets it.
    server.faults().reset();
    server.faults().add(Rule::at(0, Fault::LostReply));
    let batch = TransactionalBatch::new("p1").create_item(doc(6)).unwrap();
    let answer = container.execute_transactional_batch(batch, None).await.unwrap();
    let statuses: Vec<u16> = answer
        .into_model()
        .unwrap()
        .results()
        .iter()
        .map(|result| result.status_code())
        .collect();
    assert_eq!(statuses, [409]);
}

#[tokio::test]
async fn a_client_sees_its_own_writes_and_another_does_not() {
    let options = Options {
        replica: true,
        ..Options::default()
    };
    let server = Server::start(options).await.unwrap();
    let writer = container(&server).await;
    writer
        .create_item("p1", "d1", json!({ "id": "d1", "pk": "p1", "at": 1 }), None)
        .await
        .unwrap();
    let other = client(&server).await;
    let reader = other.database_client("db").container_client("c", None).await.unwrap();
    server.replica().unwrap().lag(u64::MAX).await;
    writer
        .replace_item("p1", "d1", json!({ "id": "d1", "pk": "p1", "at": 2 }), None)
        .await
        .unwrap();
    let at = async |container: &ContainerClient| {
        let item = container.read_item("p1", "d1", None).await.unwrap();
        item.into_model::<Value>().unwrap()["at"].clone()
    };
    assert_eq!(at(&writer).await, 2);
    assert_eq!(at(&reader).await, 1);
    let all = "SELECT c.at FROM c WHERE c.at = 2";
    assert_eq!(query(&writer, all, FeedScope::full_container()).await.unwrap().len(), 1);
    assert_eq!(query(&reader, all, FeedScope::full_container()).await.unwrap().len(), 0);
    server.replica().unwrap().catch_up().await;
    assert_eq!(at(&reader).await, 2);
}

#[tokio::test]
async fn changes_can_be_followed() {
    let server = Server::start(Options {
        page_cap: 2,
        ..Options::default()
    })
    .await
    .unwrap();
    let container = container(&server).await;
    for id in [1, 6, 11] {
        container
            .create_item("p1", &format!("d{id}"), doc(id), None)
            .await
            .unwrap();
    }
    let changes = container
        .query_change_feed::<Value>(FeedScope::full_container(), ChangeFeedStartFrom::Beginning, None)
        .await
        .unwrap();
    let pages: Vec<usize> = changes.take(3).map(|page| page.unwrap().items().len()).collect().await;
    assert_eq!(pages.iter().sum::<usize>(), 3, "{pages:?}");
    assert!(pages.iter().all(|size| *size <= 2), "{pages:?}");
    assert!(server.counts().of(Kind::ChangeFeed) >= 2);
}

//! The official SDK works over the strict front.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

use azure_core::credentials::Secret;
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::models::{ContainerProperties, IndexingPolicy};
use azure_data_cosmos::options::{ItemWriteOptions, Precondition};
use azure_data_cosmos::{AccountReference, CosmosClient, FeedScope, Query, RoutingStrategy, TransactionalBatch};
use futures::TryStreamExt;
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
    let policy = IndexingPolicy::default()
        .with_included_path("/at/?")
        .with_excluded_path("/*");
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
    // 100 documents in pages of 7, and some of none. The SDK plans simple queries without asking.
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

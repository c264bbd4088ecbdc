//! How fast it is, over one connection and over sixteen at once.
//!
//! ```text
//! RUST_BACKTRACE=0 cargo run -p perennial-cosmos-server --example speed
//! ```

// It measures the machine's time, and stops at the first surprise.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use azure_core::credentials::Secret;
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::models::ContainerProperties;
use azure_data_cosmos::{AccountReference, CosmosClient, FeedScope, Query, RoutingStrategy, TransactionalBatch};
use futures::future::join_all;
use futures::{Future, TryStreamExt};
use perennial_cosmos_server::{Options, Server};
use serde_json::{Value, json};
use std::time::Instant;

const ROUNDS: usize = 160;
const TASKS: usize = 16;

async fn container(server: &Server) -> ContainerClient {
    let endpoint = server.endpoint().parse().unwrap();
    let account = AccountReference::with_authentication_key(endpoint, Secret::from(server.key().to_owned()));
    let routing = RoutingStrategy::ProximityTo("East US".into());
    let client = CosmosClient::builder().build(account, routing).await.unwrap();
    client.create_database("db", None).await.unwrap();
    let database = client.database_client("db");
    let properties = ContainerProperties::new("c", "/pk".into());
    database.create_container(properties, None).await.unwrap();
    database.container_client("c", None).await.unwrap()
}

fn doc(id: &str, partition: &str) -> Value {
    json!({ "id": id, "pk": partition, "n": 1, "data": "x".repeat(300) })
}

async fn measure<F: Future>(name: &str, run: impl Fn(usize, usize) -> F) {
    let started = Instant::now();
    for round in 0..ROUNDS {
        run(0, round).await;
    }
    let alone = ROUNDS as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    let run = &run;
    join_all((1..=TASKS).map(|task| async move {
        for round in 0..ROUNDS / TASKS {
            run(task, round).await;
        }
    }))
    .await;
    let together = ROUNDS as f64 / started.elapsed().as_secs_f64();
    println!("{name:<24} {alone:>8.0}/s alone {together:>8.0}/s by {TASKS}");
}

#[tokio::main]
async fn main() {
    let started = Instant::now();
    for _ in 0..20 {
        Server::start(Options::default()).await.unwrap();
    }
    println!(
        "start and stop           {:>8.2} ms",
        started.elapsed().as_secs_f64() * 50.0
    );
    for partitions in [1, 32] {
        println!("{partitions} physical partitions");
        let server = Server::start(Options {
            partitions,
            ..Options::default()
        })
        .await
        .unwrap();
        let container = &container(&server).await;
        measure("create", |task, round| async move {
            let (id, partition) = (format!("{task}-{round}"), format!("p{task}"));
            container
                .create_item(&partition, &id, doc(&id, &partition), None)
                .await
                .unwrap()
        })
        .await;
        measure("read", |task, round| async move {
            let (id, partition) = (format!("{task}-{round}"), format!("p{task}"));
            container.read_item(&partition, &id, None).await.unwrap()
        })
        .await;
        measure("batch of 5", |task, round| async move {
            let partition = format!("b{task}");
            let mut batch = TransactionalBatch::new(&partition);
            for operation in 0..5 {
                batch = batch
                    .create_item(doc(&format!("{round}-{operation}"), &partition))
                    .unwrap();
            }
            let answer = container.execute_transactional_batch(batch, None).await.unwrap();
            assert_eq!(u16::from(answer.status().status_code()), 200);
        })
        .await;
        measure("query one partition", |task, _| async move {
            let query = Query::from("SELECT TOP 5 * FROM c ORDER BY c.n");
            let scope = FeedScope::partition(format!("p{task}"));
            let rows = container.query_items::<Value>(query, scope, None).await.unwrap();
            assert_eq!(rows.try_collect::<Vec<_>>().await.unwrap().len(), 5);
        })
        .await;
        println!("{}", server.counts());
    }
}

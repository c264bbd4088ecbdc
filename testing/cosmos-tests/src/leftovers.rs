//! The documents of a container, and those that should not be left.

use crate::Room;
use azure_data_cosmos::options::BinaryEncodingOptions;
use azure_data_cosmos::{AccountReference, ContainerClient, CosmosClient, CosmosRuntime, FeedScope, RoutingStrategy};
use futures::StreamExt;
use serde_json::Value;
use std::time::Duration;

impl Room {
    /// A client of the account, to look and meddle.
    pub async fn client(&self) -> CosmosClient {
        let runtime = CosmosRuntime::builder().build().await.expect("a runtime");
        let endpoint = self.server.endpoint().parse().expect("a URL");
        let account = AccountReference::with_authentication_key(endpoint, self.server.key().to_owned());
        CosmosClient::builder()
            .with_runtime(runtime)
            .with_binary_encoding_options(BinaryEncodingOptions::new().with_enabled(false))
            .build(account, RoutingStrategy::PreferredRegions(Vec::new()))
            .await
            .expect("a client")
    }

    /// The container itself.
    pub async fn raw(&self) -> ContainerClient {
        let database = self.client().await.database_client(self.container.database.clone());
        let container = database.container_client(self.container.container.clone(), None).await;
        container.expect("the container")
    }

    /// All documents of the container, as they are.
    pub async fn documents(&self) -> Vec<Value> {
        let container = self.raw().await;
        let query = container.query_items::<Value>("SELECT * FROM c", FeedScope::full_container(), None);
        let mut rows = query.await.expect("a query");
        let mut all = Vec::new();
        while let Some(row) = rows.next().await {
            all.push(row.expect("a document"));
        }
        all
    }

    /// The documents that belong to work that waits or runs, by partition and id: of workflows that are over there is
    /// none. What remembers that a message was consumed, or whose a session was, ends later by itself, and processes that
    /// work on the container say so.
    pub async fn leftovers(&self) -> Vec<String> {
        let kept = [
            "head", "page", "exec", "kv", "status", "handle", "common", "all", "format",
        ];
        let is_left = |document: &&Value| {
            let text = |property: &str| document[property].as_str().unwrap_or_default();
            let id = text("id");
            match text("lane") {
                "" => !kept.iter().any(|kept| id.starts_with(kept)),
                "chores" => !["tombs", "sessions", "members"].contains(&text("topic")),
                _ => true,
            }
        };
        let name = |document: &Value| format!("{} {} {}", document["partition"], document["id"], document["lane"]);
        self.documents().await.iter().filter(is_left).map(name).collect()
    }

    /// Waits until nothing is left that should not be.
    pub async fn assert_clean(&self) {
        let mut left = Vec::new();
        for _ in 0..40 {
            left = self.leftovers().await;
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("left behind: {left:#?}");
    }
}

//! The Cosmos DB store keeps the contract.

use crate::support::Bed;
use perennial_store::conformance::StoreFactory;
use perennial_store::{Key, Store};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::OnceCell;

#[derive(Default)]
struct Factory(OnceCell<Bed>);

impl Factory {
    async fn bed(&self) -> &Bed {
        self.0.get_or_init(Bed::new).await
    }
}

#[async_trait::async_trait]
impl StoreFactory for Factory {
    async fn create(&self) -> Arc<dyn Store> {
        Arc::new(self.bed().await.open().await)
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        store.close().await.unwrap();
        Arc::new(self.bed().await.open().await)
    }

    /// Takes the body away and leaves what queries look at.
    async fn damage(&self, store: Arc<dyn Store>, key: &Key) -> Option<Arc<dyn Store>> {
        let container = self.bed().await.container().await;
        let (partition, id) = (key.partition.as_str().to_owned(), key.id.as_str().to_owned());
        let read = container.read_item(partition.clone(), &id, None).await.unwrap();
        let mut document: Value = read.into_model().unwrap();
        for form in ["body", "text", "base64"] {
            document.as_object_mut().unwrap().remove(form);
        }
        document["name"] = 17.into();
        container.replace_item(partition, &id, document, None).await.unwrap();
        Some(self.reopen(store).await)
    }
}

perennial_store::conformance_tests!(Factory::default());

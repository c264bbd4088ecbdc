//! The Cosmos DB store passes the conformance suite.

use crate::support::Fixture;
use perennial_store::conformance::StoreFactory;
use perennial_store::{Key, Store};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::OnceCell;

#[derive(Default)]
struct Factory(OnceCell<Fixture>);

impl Factory {
    async fn fixture(&self) -> &Fixture {
        self.0.get_or_init(Fixture::new).await
    }
}

#[async_trait::async_trait]
impl StoreFactory for Factory {
    async fn create(&self) -> Arc<dyn Store> {
        Arc::new(self.fixture().await.open().await)
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        store.close().await.unwrap();
        Arc::new(self.fixture().await.open().await)
    }

    /// Removes the body and leaves the attributes that queries use.
    async fn damage(&self, store: Arc<dyn Store>, key: &Key) -> Option<Arc<dyn Store>> {
        let container = self.fixture().await.container().await;
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

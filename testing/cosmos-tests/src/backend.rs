//! Cosmos DB, as the scenario suites want it.

use crate::Room;
use async_trait::async_trait;
use duroxide::provider_validation::ProviderFactory;
use duroxide::providers::Provider;
use parking_lot::Mutex;
use perennial_cosmos_server::Rule;
use perennial_scenarios::Backend;
use perennial_workflow::{Settings, Workflows, testing};
use std::sync::Arc;
use std::time::Duration;

/// What goes wrong in each container.
type Plague = fn() -> Vec<Rule>;

/// Workflows in a container of their own.
pub struct Fresh {
    room: Mutex<Option<Arc<Room>>>,
    last: Mutex<Option<Workflows>>,
    plague: Plague,
}

impl Default for Fresh {
    fn default() -> Self {
        Self::plagued(Vec::new)
    }
}

impl Fresh {
    /// Nothing yet; all will be well.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing yet; these things will go wrong.
    pub fn plagued(plague: Plague) -> Self {
        Self {
            room: Mutex::default(),
            last: Mutex::default(),
            plague,
        }
    }

    fn last(&self) -> Workflows {
        self.last.lock().clone().expect("it is open")
    }

    fn room(&self) -> Arc<Room> {
        Arc::clone(self.room.lock().as_ref().expect("there is a container"))
    }

    async fn begin(&self) -> Arc<dyn Provider> {
        let room = Arc::new(Room::new().await);
        for rule in (self.plague)() {
            room.fault(rule);
        }
        *self.room.lock() = Some(room);
        self.reopen().await
    }

    async fn reopen(&self) -> Arc<dyn Provider> {
        let store = Arc::new(self.room().store().await);
        let workflows = Workflows::open(store, Settings::default()).await.expect("it opens");
        *self.last.lock() = Some(workflows.clone());
        Arc::new(workflows)
    }
}

#[async_trait]
impl Backend for Fresh {
    fn messages_per_turn(&self) -> usize {
        92
    }

    fn slowness(&self) -> u32 {
        5
    }

    async fn open(&self) -> Arc<dyn Provider> {
        self.begin().await
    }

    async fn restart(&self) -> Arc<dyn Provider> {
        let last = self.last.lock().take().expect("it is open");
        last.close().await.expect("it closes");
        drop(last);
        self.reopen().await
    }

    async fn crash(&self) -> Arc<dyn Provider> {
        let last = self.last.lock().take().expect("it is open");
        testing::let_go(&last).await;
        drop(last);
        self.reopen().await
    }

    async fn plant_undecodable_message(&self, instance: &str) {
        for body in UNDECODABLE {
            let planted = testing::plant_message(&self.last(), instance, body).await;
            planted.expect("it is planted");
        }
    }

    async fn plant_undecodable_work(&self, instance: &str) {
        for body in UNDECODABLE {
            let planted = testing::plant_activity(&self.last(), instance, body).await;
            planted.expect("it is planted");
        }
    }
}

/// A body of a later version, and one that is no envelope.
const UNDECODABLE: [&[u8]; 2] = [br#"{"item":{"FromTheFuture":{}},"attempts":0}"#, b"no envelope at all"];

#[async_trait]
impl ProviderFactory for Fresh {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        self.begin().await
    }

    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let corrupted = testing::corrupt_history(&self.last(), instance).await;
        corrupted.expect("it is damaged");
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        testing::max_attempts(&self.last(), instance)
    }
}

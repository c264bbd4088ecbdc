//! The store passes the conformance suite on a service that throttles, and on one that loses replies.

use crate::support::Fixture;
use perennial_cosmos_server::{Fault, Options, Rule, When};
use perennial_store::Store;
use perennial_store::conformance::StoreFactory;
use std::sync::Arc;
use tokio::sync::OnceCell;

struct Factory {
    fixture: OnceCell<Fixture>,
    fault: Fault,
    per_million: u32,
}

impl Factory {
    fn new(fault: Fault, per_million: u32) -> Self {
        Self {
            fixture: OnceCell::new(),
            fault,
            per_million,
        }
    }

    async fn open(&self) -> Arc<dyn Store> {
        let make = || async {
            // More than one physical partition, and empty pages, as in production.
            let fixture = Fixture::with(Options {
                partitions: 3,
                empty_pages: 4,
                page_cap: 7,
                ..Options::default()
            });
            let fixture = fixture.await;
            let when = When::Chance {
                per_million: self.per_million,
                seed: 1,
            };
            fixture.server.faults().add(Rule::new(self.fault, when));
            fixture
        };
        Arc::new(self.fixture.get_or_init(make).await.open().await)
    }
}

#[async_trait::async_trait]
impl StoreFactory for Factory {
    async fn create(&self) -> Arc<dyn Store> {
        self.open().await
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        store.close().await.unwrap();
        self.open().await
    }
}

mod throttled {
    use super::*;
    perennial_store::conformance_tests!(Factory::new(Fault::throttled(5), 30_000));
}

mod lost_replies {
    use super::*;
    perennial_store::conformance_tests!(Factory::new(Fault::LostReply, 10_000));
}

//! The sides of the comparison. Each opens on a container of its own that holds nothing yet.

use async_trait::async_trait;
use duroxide::providers::Provider;
use perennial_bench::{BenchError, Slots};
use perennial_cosmos::{Account, Settings, Throughput};
use perennial_cosmos_server::{Container, Server};
use perennial_workflow::Workflows;
use std::sync::Arc;

/// The database that all containers are in.
const DATABASE: &str = "bench";

/// A provider on a container of its own.
#[async_trait]
pub trait Open: Send {
    /// The provider to run workflows on.
    fn provider(&self) -> Arc<dyn Provider>;

    /// Lets go of the container.
    async fn close(self: Box<Self>) -> Result<(), BenchError>;
}

/// One of the sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This project.
    Perennial,
    /// duroxide-cdb.
    #[cfg(feature = "incumbent")]
    Incumbent,
}

impl Side {
    /// All that were built in.
    pub const ALL: &[Self] = &[
        Self::Perennial,
        #[cfg(feature = "incumbent")]
        Self::Incumbent,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Perennial => "perennial",
            #[cfg(feature = "incumbent")]
            Self::Incumbent => "duroxide-cdb",
        }
    }

    /// Opens it on the container of this name; `slots` are those of the runtime, if it is to be configured with them.
    pub async fn open(
        self,
        server: &Server,
        container: &str,
        slots: Option<Slots>,
    ) -> Result<Box<dyn Open>, BenchError> {
        // Only one side wants to know.
        let _ = slots;
        match self {
            Self::Perennial => perennial(server, container).await,
            #[cfg(feature = "incumbent")]
            Self::Incumbent => incumbent::open(server, container, slots).await,
        }
    }
}

/// The container of this name.
pub fn container(name: &str) -> Container {
    Container::new(DATABASE, name)
}

struct Perennial(Workflows);

async fn perennial(server: &Server, container: &str) -> Result<Box<dyn Open>, BenchError> {
    let failed = |e: perennial_cosmos::OpenError| BenchError::new("open perennial on the test server", e);
    let endpoint = server.endpoint();
    let address = endpoint.trim_start_matches("http://").trim_end_matches('/');
    let account = Account::parse(&format!("cosmos+http://{address}/{DATABASE}/{container}")).map_err(failed)?;
    let account = account.with_key(server.key());
    let settings = Settings::default();
    perennial_cosmos::init(&account, Throughput::Serverless, &settings)
        .await
        .map_err(failed)?;
    let store = perennial_cosmos::open(account, settings).await.map_err(failed)?;
    let workflows = Workflows::open(Arc::new(store), perennial_workflow::Settings::default()).await;
    let workflows = workflows.map_err(|e| BenchError::new("open perennial's workflows", e))?;
    Ok(Box::new(Perennial(workflows)))
}

#[async_trait]
impl Open for Perennial {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.clone())
    }

    async fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.0.close().await.map_err(|e| BenchError::new("close perennial", e))
    }
}

#[cfg(feature = "incumbent")]
mod incumbent {
    use super::*;
    use duroxide_cdb::{CosmosDBProvider, CosmosDBProviderConfig};

    struct Incumbent(Arc<CosmosDBProvider>);

    /// As it is published. Its manual says to configure it with the runtime's slots, so that they do not compete.
    pub async fn open(server: &Server, container: &str, slots: Option<Slots>) -> Result<Box<dyn Open>, BenchError> {
        let failed = |e: String| BenchError::new("open duroxide-cdb on the test server", e);
        let number = |count: usize| u32::try_from(count).map_err(|e| failed(e.to_string()));
        let mut config = CosmosDBProviderConfig {
            endpoint: server.endpoint().trim_end_matches('/').to_owned(),
            key: server.key().to_owned(),
            database: DATABASE.to_owned(),
            container: container.to_owned(),
            ..CosmosDBProviderConfig::default()
        };
        if let Some(slots) = slots {
            config.orch_concurrency = number(slots.turns)?;
            config.worker_concurrency = number(slots.activities)?;
        }
        let provider = CosmosDBProvider::new_with_config(config).await;
        let provider = provider.map_err(|e| failed(e.to_string()))?;
        Ok(Box::new(Incumbent(Arc::new(provider))))
    }

    #[async_trait]
    impl Open for Incumbent {
        fn provider(&self) -> Arc<dyn Provider> {
            self.0.clone()
        }

        async fn close(self: Box<Self>) -> Result<(), BenchError> {
            Ok(())
        }
    }
}

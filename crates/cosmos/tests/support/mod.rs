//! A server for each test, and a store on it.

#![allow(dead_code)]

use azure_data_cosmos::options::BinaryEncodingOptions;
use azure_data_cosmos::{AccountReference, ContainerClient, CosmosClient, CosmosRuntime, RoutingStrategy};
use perennial_cosmos::{Account, CosmosStore, Made, Settings, Throughput};
use perennial_cosmos_server::{Options, Server};
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, RecordId, Store, Version};

/// Numbers that look random and are the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

pub struct Fixture {
    pub server: Server,
    pub account: Account,
    pub settings: Settings,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::with(Options::default()).await
    }

    /// A server with these options, and a container that is ready.
    pub async fn with(options: Options) -> Self {
        let fixture = Self::bare(options).await;
        let made = perennial_cosmos::init(&fixture.account, Throughput::Serverless, &fixture.settings);
        assert_eq!(made.await.unwrap(), Made::Created);
        fixture
    }

    /// A server without a container.
    pub async fn bare(options: Options) -> Self {
        let server = Server::start(options).await.unwrap();
        let account = Account::parse(&url(&server)).unwrap().with_key(server.key());
        Self {
            server,
            account,
            settings: Settings::default(),
        }
    }

    pub async fn open(&self) -> CosmosStore {
        perennial_cosmos::open(self.account.clone(), self.settings.clone())
            .await
            .unwrap()
    }

    /// Where the store is.
    pub fn url(&self) -> String {
        url(&self.server)
    }

    /// A client of the account, for direct access.
    pub async fn client(&self) -> CosmosClient {
        let runtime = CosmosRuntime::builder().build().await.unwrap();
        let endpoint = self.server.endpoint().parse().unwrap();
        let account = AccountReference::with_authentication_key(endpoint, self.server.key().to_owned());
        CosmosClient::builder()
            .with_runtime(runtime)
            .with_binary_encoding_options(BinaryEncodingOptions::new().with_enabled(false))
            .build(account, RoutingStrategy::PreferredRegions(Vec::new()))
            .await
            .unwrap()
    }

    /// The container itself.
    pub async fn container(&self) -> ContainerClient {
        let database = self.client().await.database_client("db");
        database.container_client("perennial", None).await.unwrap()
    }
}

fn url(server: &Server) -> String {
    let endpoint = server.endpoint();
    let address = endpoint.trim_start_matches("http://").trim_end_matches('/');
    format!("cosmos+http://{address}/db/perennial")
}

pub fn key(partition: &str, id: &str) -> Key {
    Key::new(Partition::new(partition), RecordId::from_raw(id))
}

pub fn draft(partition: &str, id: &str, body: &str) -> Draft {
    Draft::new(key(partition, id), body.to_owned())
}

/// Commits one operation and returns the version that it wrote.
pub async fn one(store: &CosmosStore, op: Op) -> Result<Option<Version>, Error> {
    let committed = store.commit(Commit::new(vec![op])).await?;
    Ok(committed.versions[0].clone())
}

pub async fn put(store: &CosmosStore, draft: Draft) -> Version {
    one(store, Op::Put(draft)).await.unwrap().unwrap()
}

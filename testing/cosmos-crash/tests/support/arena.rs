//! A server with a container that is ready, the ledgers of the workers, and access to the stored documents.

use azure_data_cosmos::options::BinaryEncodingOptions;
use azure_data_cosmos::{AccountReference, CosmosClient, CosmosRuntime, FeedScope, RoutingStrategy};
use futures::StreamExt;
use perennial_cosmos::{Account, KEY_VARIABLE, Settings, Throughput};
use perennial_cosmos_server::{Options, Server};
use perennial_crash::ledger::Lines;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Enough that no physical partition has many documents, which the emulator copies for every batch; few enough that
/// querying all of them for work is cheap.
const PARTITIONS: u32 = 8;

/// Documents by kind.
pub type Documents = BTreeMap<String, Vec<serde_json::Value>>;

pub struct Arena {
    pub server: Server,
    pub account: Account,
    url: String,
    directory: TempDir,
}

impl Arena {
    pub async fn new() -> Self {
        let options = Options {
            partitions: PARTITIONS,
            ..Options::default()
        };
        let server = Server::start(options).await.unwrap();
        let endpoint = server.endpoint();
        let address = endpoint.trim_start_matches("http://").trim_end_matches('/');
        let url = format!("cosmos+http://{address}/db/perennial");
        let account = Account::parse(&url).unwrap().with_key(server.key());
        perennial_cosmos::init(&account, Throughput::Serverless, &Settings::default())
            .await
            .unwrap();
        Self {
            server,
            account,
            url,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn ledger(&self, worker: usize) -> PathBuf {
        self.directory.path().join(format!("worker-{worker}"))
    }

    /// The command that starts a worker.
    pub fn worker(&self, worker: usize, ahead_ms: u64) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perennial-cosmos-crash"));
        command
            .arg(&self.url)
            .arg(self.ledger(worker))
            .arg(ahead_ms.to_string());
        // A log would go where readiness is reported; and the SDK is slow if it must record where errors come from.
        command.env("RUST_LOG", "off").env("RUST_BACKTRACE", "0");
        command.env(KEY_VARIABLE, self.server.key());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// The ledger of a worker.
    pub fn lines(&self, worker: usize) -> Lines {
        Lines::read(&self.ledger(worker)).unwrap()
    }

    /// All documents, by lane (or kind of id, where there is none).
    pub async fn documents(&self) -> Documents {
        let runtime = CosmosRuntime::builder().build().await.unwrap();
        let endpoint = self.server.endpoint().parse().unwrap();
        let account = AccountReference::with_authentication_key(endpoint, self.server.key().to_owned());
        let client = CosmosClient::builder()
            .with_runtime(runtime)
            .with_binary_encoding_options(BinaryEncodingOptions::new().with_enabled(false))
            .build(account, RoutingStrategy::PreferredRegions(Vec::new()))
            .await
            .unwrap();
        let database = client.database_client("db");
        let container = database.container_client("perennial", None).await.unwrap();
        let query = "SELECT c.id, c.partition, c.lane, c.topic, c.due, c.arrival, c.body, c._ts FROM c";
        let found = container.query_items::<serde_json::Value>(query, FeedScope::full_container(), None);
        let found: Vec<serde_json::Value> = found.await.unwrap().map(Result::unwrap).collect().await;
        let mut kinds = Documents::new();
        for document in found {
            kinds.entry(kind(&document)).or_default().push(document);
        }
        kinds
    }
}

fn kind(document: &serde_json::Value) -> String {
    let text = |name: &str| document[name].as_str().unwrap_or_default();
    if text("partition").starts_with('%') {
        return text("partition").to_owned();
    }
    let id = text("id");
    let word = id
        .find(|letter: char| !letter.is_ascii_alphabetic())
        .unwrap_or(id.len());
    format!("{} {} {}", text("lane"), text("topic"), &id[..word])
        .trim()
        .to_owned()
}

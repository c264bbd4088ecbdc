//! A container, and the server that it is on.
//!
//! Each test has its own server: it starts in a few milliseconds, and no test has to wait behind the large batches of
//! another.

use perennial_cosmos::{Account, CosmosStore, Made, Settings, Throughput};
use perennial_cosmos_server::{Container, Counts, Entry, Options, Rule, Server};
use perennial_workflow::Workflows;
use std::sync::Arc;
use std::time::Duration;

const DATABASE: &str = "tests";
const NAME: &str = "room";

/// A container, and the server that it is on.
pub struct Room {
    /// The server that it is on.
    pub server: Server,
    /// Its name.
    pub container: Container,
    /// The account and its credentials.
    pub account: Account,
    /// How stores on it are opened.
    pub settings: Settings,
}

impl Room {
    /// A new one, in one physical partition.
    pub async fn new() -> Self {
        Self::with(Options::default()).await
    }

    /// A new one, on a server that is set up so.
    pub async fn with(options: Options) -> Self {
        let options = Options { log: 20_000, ..options };
        let server = Server::start(options).await.expect("a server on this machine");
        let endpoint = server.endpoint();
        let address = endpoint.trim_start_matches("http://").trim_end_matches('/');
        let account = Account::parse(&format!("cosmos+http://{address}/{DATABASE}/{NAME}")).expect("a URL");
        let room = Self {
            account: account.with_key(server.key()),
            container: Container::new(DATABASE, NAME),
            server,
            settings: Settings::default(),
        };
        let made = perennial_cosmos::init(&room.account, Throughput::Serverless, &room.settings).await;
        assert_eq!(made.expect("a container"), Made::Created);
        room
    }

    /// The same, with calls that end soon.
    pub fn impatient(mut self) -> Self {
        self.settings.call_timeout = Duration::from_secs(1);
        self
    }

    /// Opens the store, as another process would.
    pub async fn store(&self) -> CosmosStore {
        let opened = perennial_cosmos::open(self.account.clone(), self.settings.clone()).await;
        opened.expect("the store opens")
    }

    /// Opens workflows, as another process would, but on the threads of the test.
    pub async fn workflows(&self) -> Workflows {
        let opened = Workflows::open(Arc::new(self.store().await), perennial_workflow::Settings::default()).await;
        opened.expect("workflows open")
    }

    /// Lets something go wrong here, and only here.
    pub fn fault(&self, rule: Rule) {
        self.server.faults().add(rule.within(self.container.clone()));
    }

    /// All is well again, and requests are counted from 0.
    pub fn mend(&self) {
        self.server.faults().reset_in(&self.container);
    }

    /// How many document requests there were since all was well.
    pub fn seen(&self) -> u64 {
        self.server.faults().seen_in(&self.container)
    }

    /// How often something went wrong on purpose.
    pub fn hits(&self) -> u64 {
        self.server.faults().hits_in(&self.container)
    }

    /// All requests so far.
    pub fn counts(&self) -> Counts {
        self.server.counts_in(&self.container)
    }

    /// The requests since the first `skip`, oldest first.
    pub fn requests_since(&self, skip: u64) -> Vec<Entry> {
        let log = self.server.log().into_iter();
        let ours = log.filter(|entry| entry.container.as_ref() == Some(&self.container));
        ours.skip(usize::try_from(skip).expect("few requests")).collect()
    }

    /// The same as text, one a line.
    pub fn log_since(&self, skip: u64) -> String {
        let lines: Vec<String> = self.requests_since(skip).iter().map(Entry::to_string).collect();
        lines.join("\n")
    }
}

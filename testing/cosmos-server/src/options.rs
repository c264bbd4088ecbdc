//! How a server is set up.

use crate::Latency;

/// The key of every Cosmos DB emulator. It is published, hence no secret.
pub const EMULATOR_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// How a server is set up. Plain data; the default is strict, fault-free and as fast as it gets.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// The master key, in base64.
    pub key: String,
    /// Physical partitions of each container that is created. The emulator copies a whole physical partition for
    /// each batch: tests with thousands of documents want 32.
    pub partitions: u32,
    /// The most items of a page of a query or feed.
    pub page_cap: usize,
    /// The most bytes of a page.
    pub page_bytes: usize,
    /// Every n-th page of a cross-partition query is empty, with a continuation; 0 is never.
    pub empty_pages: u32,
    /// Time added to each request.
    pub latency: Latency,
    /// Whether the rules of the strict front are enforced. Without them clients reach the bare emulator.
    pub strict: bool,
    /// How many of the latest requests the log keeps.
    pub log: usize,
    /// Whether there is a second replica, which serves reads and can lag behind: see [`crate::Replica`].
    pub replica: bool,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            key: EMULATOR_KEY.to_owned(),
            partitions: 1,
            page_cap: 100,
            page_bytes: 4 * 1024 * 1024,
            empty_pages: 0,
            latency: Latency::default(),
            strict: true,
            log: 256,
            replica: false,
            seed: 0,
        }
    }
}

//! A Cosmos DB server for tests, and for `perennial cosmos emulator`.
//!
//! It is Microsoft's own in-memory emulator, which comes inside `azure_data_cosmos_driver`, behind an HTTP host (HTTP/1.1,
//! and HTTP/2 with prior knowledge, as the official SDK speaks it) and a *strict front* that adds what the emulator lacks
//! and the service does, injects faults, and counts requests.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
//! use perennial_cosmos_server::{Fault, Kind, Options, Rule, Server};
//!
//! let server = Server::start(Options::default()).await?;
//! println!("connect to {} with {}", server.endpoint(), server.key());
//! // The third document request from now takes effect, and its reply is lost.
//! server.faults().add(Rule::at(2, Fault::LostReply));
//! let before = server.counts();
//! // ... run the code under test ...
//! let counts = server.counts().since(&before);
//! assert_eq!(counts.of(Kind::Batch), 0);
//! # Ok(()) }
//! ```
//!
//! # What it proves, and what it does not
//!
//! It was never compared with an account. The rules below encode our reading of the documents: a program that
//! passes has a chance on the real service; a program that fails most likely has a bug. Sources: **D**ocumented by the
//! vendor; **S**, read in source code of the vendor; **I**, reported in a public issue; **U**, an assumption of ours.
//!
//! | Family | Rule | Reply | Source |
//! |---|---|---|---|
//! | auth | signature of the master key over verb, type, link (ids unescaped) and date | 401 | D, S |
//! | auth | date more than 15 minutes off | 403 | D, I |
//! | auth | tokens of other kinds than `master` | 401 | ours: none is supported |
//! | ids | id empty, longer than 1,023 bytes, or none at all | 400 | D |
//! | ids | id with `/` `\` `#` `?` | 400 | D for the first two; U for the others, which the SDKs advise against |
//! | ids | databases and containers: the same letters, 255 bytes | 400 | D |
//! | ids | partition key longer than 2,048 bytes, 101 where the container's key has version 1 | 400 | D |
//! | ids | point operations and batches without a partition key header | 400 | D |
//! | ids | empty batch | 400 | D |
//! | queries | ORDER BY, TOP, DISTINCT, OFFSET, GROUP BY or an aggregate over all partitions, without a range | 400/1004 | I |
//! | queries | all partitions without `x-ms-documentdb-query-enablecrosspartition` | 400 | D |
//! | queries | ORDER BY on a path that the policy excludes (`id` and `_ts` never are) | 400 | D |
//! | queries | ORDER BY of several without a composite index of the same paths, in the same or the opposite directions | 400 | D |
//! | pages | 100 items at most, whatever the request says | shorter page | U: the default is D, the limit for larger requests is ours |
//! | pages | 4 MB at most | shorter page | D |
//! | pages | over all partitions some are empty, with a continuation ([`Options::empty_pages`]) | empty page | I |
//! | ttl | documents end `ttl` or `defaultTtl` seconds after their last write | gone | D |
//! | ttl | `ttl` that is neither -1 nor from 1 to 2,147,483,647 | 400 | D |
//! | numbers | integers beyond 2^53, also in parameters | 400 | D: the service takes them and returns another number; refusing finds the mistake |
//! | faults | 429/3200 with its wait, 449, 408, 410/1002, 410/1007, 500, 503 on any kind of request, batches and queries too | as named | D, S |
//! | faults | reply lost, request lost: the connection (HTTP/2: the stream) breaks | none | |
//! | replica | reads without a session token that covers a write may miss it ([`Replica`]) | older state | D |
//! | counting | `x-ms-request-charge`: an estimate, see the comments in `counting/price.rs` | | D, S, U |
//!
//! A query is checked by its words, not by a parser. An ORDER BY that names anything but properties passes unchecked, and
//! the indexing policy is checked for ORDER BY alone. With one physical partition an account may serve what is refused
//! here with 1004; a program should not rely on it.
//!
//! Not modelled, besides the gaps of the emulator itself (no stored procedures, no patch in a batch, no history in the
//! change feed, conditions of patches ignored): limits of time (5 s per request), of logical partitions (20 GB,
//! 10,000 RU/s) and of nesting; throttling by the container's throughput, except through faults; pages that end at a
//! physical partition; the new lifetime of a patched document; Entra ID. Documents that end while the replica lags
//! are still seen there until it catches up. Unique keys make a container of four physical partitions.
//!
//! # Speed
//!
//! A server starts in a few milliseconds and has a thread of its own; a process may have dozens. Databases and containers
//! are cheap, so that many tests can share a server: faults and counts can be limited to a container.
//! The emulator copies a physical partition for every batch, and every document in scope for every query:
//! take [`Options::partitions`] of 32 where there are thousands of documents, and measure requests on it, never time.
//!
//! `RUST_BACKTRACE` makes the emulator and the SDK up to ten times slower, because both record where their errors come from:
//! run tests with it unset, or 0.

mod auth;
mod backend;
mod call;
mod containers;
mod counting;
mod faults;
mod front;
mod host;
mod ids;
mod kind;
mod latency;
mod numbers;
mod options;
mod queries;
mod replica;
mod reply;
mod server;
mod ttl;

pub use call::Container;
pub use counting::{Counts, Entry};
pub use faults::{Fault, Faults, Rule, When};
pub use kind::Kind;
pub use latency::Latency;
pub use options::{EMULATOR_KEY, Options};
pub use replica::Replica;
pub use server::Server;

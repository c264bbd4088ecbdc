//! The Cosmos DB store: one container of [Azure Cosmos DB](https://learn.microsoft.com/azure/cosmos-db/), shared by
//! any number of processes.
//!
//! For programs that run on several machines and share their work. A record is a document, a partition a logical
//! partition, a commit a transactional batch. Nothing is locked and no process owns anything: conditions on versions
//! (ETags) decide which process was first.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use perennial_cosmos::{Account, Settings};
//! use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId, Store};
//!
//! let account = Account::parse("cosmos://my-account/orders/perennial")?;
//! let store = perennial_cosmos::open(account, Settings::default()).await?;
//! let key = Key::new(Partition::new("order-1"), RecordId::of("head"));
//! let draft = Draft::new(key.clone(), r#"{"state":"new"}"#);
//! store.commit(Commit::new(vec![Op::Create(draft)])).await?;
//! assert!(store.get(&key).await?.is_some());
//! store.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Requests to the service
//!
//! | operation | requests |
//! |---|---|
//! | commit, get | 1 |
//! | scan | 1 for each page of the service (up to 4 MB) |
//! | due | 1 for each physical partition |
//! | list | 1 for each physical partition at most, until the page has something |
//! | totals | 1, and 1 every few seconds while they change, 1 before they do and 1 when they have stopped |
//!
//! A commit whose reply was lost takes 1 more, to determine its outcome: every document carries the id of the commit
//! that wrote it.

mod account;
mod body;
mod commit;
mod container;
mod core;
mod counters;
mod document;
mod due;
mod error;
mod failure;
mod format;
mod get;
mod identity;
#[cfg(feature = "init")]
mod init;
mod list;
mod names;
mod open;
mod outcome;
mod prepare;
mod previous_commits;
mod query;
mod recount;
mod runs;
mod scan;
mod settings;
mod store;
mod totals;
mod usage;

pub use account::{Account, KEY_VARIABLE};
pub use error::OpenError;
pub use format::FORMAT;
#[cfg(feature = "init")]
pub use init::{Made, Throughput, adopt, init};
pub use open::open;
pub use runs::Run;
pub use settings::{Consistency, Settings};
pub use store::CosmosStore;
pub use usage::{Spent, Usage};

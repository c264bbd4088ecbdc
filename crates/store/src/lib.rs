//! The store contract of perennial: what every store must do, and nothing of what is built on it.
//!
//! Read this crate to implement a store for another database, or to build an engine on stores. A program that only wants
//! to store workflows needs the crate `perennial` instead.
//!
//! A [`Store`] knows partitions, records, versions, commits and due times. It knows neither workflows nor jobs, and
//! an engine above never learns which database it runs on. A new database is a new crate that implements one
//! trait and passes the `conformance` suite (feature `conformance`).
//!
//! | word | meaning |
//! |---|---|
//! | [`Partition`] | the unit of atomicity: everything that one workflow instance owns |
//! | [`Record`] | a body under an id inside a partition, with a [`Version`] that changes with every write |
//! | [`Commit`] | operations that all happen or none does |
//! | [`Lane`] | a queue that a record stands in, ready from its due time on, served in [`Order`] of arrival |
//! | [`Listing`] | attributes by which records are found without knowing their keys |
//! | [`Slot`] | one of 256 buckets of partitions, to spread work over processes |
//!
//! Two wrappers make a plain store comfortable: [`RetryStore`] retries transient failures and resolves lost replies,
//! [`ChunkedStore`] stores bodies that are larger than the database takes.
//!
//! ```
//! use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId, Result, Store};
//!
//! async fn rename(store: &dyn Store) -> Result<()> {
//!     let key = Key::new(Partition::new("order-7"), RecordId::of("head"));
//!     let Some(record) = store.get(&key).await? else { return Ok(()) };
//!     // Fails with a conflict if the record has changed since it was read.
//!     let replace = Op::Replace(Draft::new(key, r#"{"name":"new"}"#), record.version);
//!     store.commit(Commit::new(vec![replace])).await?;
//!     Ok(())
//! }
//! ```

mod chunked;
pub mod clock;
mod commit;
#[cfg(feature = "conformance")]
pub mod conformance;
mod due;
mod error;
mod handle;
mod health;
mod hold;
mod key;
mod limits;
mod list;
mod record;
mod remote;
mod retry;
mod runtime;
mod signal;
mod slot;
mod stamp;
mod store;
mod totals;

pub use chunked::{ChunkedStore, Swept, is_manifest};
pub use clock::{Clock, SystemClock};
pub use commit::{Commit, Committed, Durability, OnDurable, Op, Refused, call_on_durable};
pub use due::{DuePage, DueQuery, Topics};
pub use error::{ConflictReason, Error, Result};
pub use handle::{Generation, Opener, StoreHandle};
pub use health::{Health, HealthReporter, HealthWatch, Outage};
pub use hold::{Closer, Hold, Holders};
pub use key::{Key, Partition, RecordId};
pub use limits::Limits;
pub use list::{Cursor, ListFilter, ListPage, Listed, RecordPage};
pub use record::{Counter, Draft, Lane, Listing, Order, Place, Record, Version};
pub use remote::{Applied, MessageHandler, MessageSender};
pub use retry::RetryStore;
pub use runtime::on_one_runtime;
pub use signal::{Signal, SignalSender, Signals};
pub use slot::{SLOTS, Slot, SlotSet};
pub use stamp::Stamps;
pub use store::{ScanPage, ScanQuery, Sharing, Store};
pub use totals::{Counted, Doubt, Totals};

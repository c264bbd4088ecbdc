//! The narrow waist of perennial: what every store must do, and nothing of what is built on it.
//!
//! A [`Store`] knows partitions, records, versions, commits and due times. It knows neither workflows nor jobs;
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
mod retry;
mod runtime;
mod signal;
mod slot;
mod stamp;
mod store;
mod totals;

pub use chunked::{ChunkedStore, Swept, chunk_lane};
pub use clock::{Clock, SystemClock};
pub use commit::{Commit, Committed, Durability, Op};
pub use due::{DuePage, DueQuery, Topics};
pub use error::{ConflictReason, Error, Result};
pub use handle::{Generation, Opener, StoreHandle};
pub use health::{Health, HealthReporter, HealthWatch, Outage};
pub use hold::{Closer, Hold, Holders};
pub use key::{Key, Partition, RecordId};
pub use limits::Limits;
pub use list::{Cursor, ListFilter, ListPage, Listed, RecordPage};
pub use record::{Counter, Draft, Lane, Listing, Order, Place, Record, Version};
pub use retry::RetryStore;
pub use runtime::on_one_runtime;
pub use signal::{Signal, SignalSender, Signals};
pub use slot::{SLOTS, Slot, SlotSet};
pub use stamp::Stamps;
pub use store::{ScanPage, ScanQuery, Sharing, Store};
pub use totals::{Counted, Doubt, Totals};

//! Stores over ordered key-value engines.
//!
//! Use this crate to turn a key-value engine into a store of perennial, or to test on a store in memory. One mapping
//! from records to keys serves every engine that keeps keys in order: the [`memory`] engine here,
//! fjall in `perennial-fjall`, others elsewhere. An engine implements [`OrderedKv`]; [`KvStore`] makes a
//! [`perennial_store::Store`] of it.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use perennial_kv::{MemoryStore, Settings};
//! use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId, Store};
//!
//! let store = MemoryStore::open(Settings::default()).unwrap();
//! let key = Key::new(Partition::new("order-1"), RecordId::of("head"));
//! let draft = Draft::new(key.clone(), r#"{"state":"new"}"#);
//! store.commit(Commit::new(vec![Op::Create(draft)])).await.unwrap();
//! assert!(store.get(&key).await.unwrap().is_some());
//! # });
//! ```
//!
//! # How a commit travels
//!
//! 1. [`prepare`](KvStore) checks limits and encodes keys and values, in the caller's first poll.
//! 2. Under one mutex the conditions are checked against what is accepted but not yet written, else against the
//!    engine; versions are assigned; the commit joins the waiting group.
//! 3. The committer thread takes the whole group, writes one batch, syncs once, publishes and completes all.
//!
//! Invariant: commits take effect in the order in which they passed step 2.
//!
//! Invariant: readers see what is written, and relaxed commits once they returned; never a durable commit that
//! could still be lost.

mod accept;
mod bounded;
mod calls;
mod committer;
mod due;
pub mod engine;
mod keys;
mod known;
mod list;
pub mod memory;
mod meta;
mod pace;
mod prepare;
mod read;
mod settings;
pub mod shared;
mod state;
mod stats;
mod store;
mod value;

pub use engine::{Batch, EngineError, Entry, OrderedKv, Span, Table, View, Write};
pub use memory::{MemoryDisk, MemoryStore};
pub use meta::Progress;
pub use settings::Settings;
pub use shared::SharedMemory;
pub use stats::Stats;
pub use store::KvStore;

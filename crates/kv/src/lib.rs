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
//! 2. Under one mutex it is looked up what memory knows of its records: what is accepted and not yet written, what was
//!    written last, what is queued. If that is all of them, and no earlier commit waits to read one of them, the conditions
//!    are checked, versions are assigned, and the commit joins the waiting group.
//! 3. Else it takes a place in line for each of its records, leaves the mutex and reads those that are unknown, when it stands
//!    first for all of them. Then it goes on as in step 2. Nothing else can change them meanwhile.
//! 4. The committer thread takes the whole group, writes one batch, syncs once, publishes and completes all.
//!
//! Invariant: commits take effect in the order in which they passed step 2. That is the order in which they were first polled,
//! with one exception: a commit that must read records first delays only later ones that name a record of its own.
//!
//! Invariant: the engine is not read under the mutex, and no caller's thread waits for it. An engine whose reads
//! [wait](OrderedKv::blocking) is read on threads of its own runtime, one that is quick where the read is needed. Only an
//! [inline](OrderedKv::inline) engine, which is a map, is read and written in the caller's poll and under the mutex.
//!
//! Invariant: from its first poll on, a commit does not depend on its caller's future. A quick engine's reads are part of that
//! poll, or of the poll of a commit that it waits for; those of other engines run on the engine's runtime.
//!
//! Invariant: readers see what is written, and relaxed commits once they returned; never a durable commit that
//! could still be lost.

mod accept;
mod bounded;
mod calls;
mod committer;
mod due;
pub mod engine;
mod fetch;
mod inline;
mod keys;
mod known;
mod line;
mod list;
mod lookup;
pub mod memory;
mod meta;
mod pace;
mod prepare;
mod read;
mod read_only;
mod readers;
mod settings;
pub mod shared;
mod state;
mod stats;
mod store;
mod submit;
mod value;

pub use engine::{Batch, EngineError, Entry, OrderedKv, Span, Table, View, Write};
pub use memory::{MemoryDisk, MemoryStore};
pub use meta::Progress;
pub use read_only::{ReadOnlyKv, ReadOnlyStore};
pub use settings::Settings;
pub use shared::SharedMemory;
pub use stats::Stats;
pub use store::KvStore;

//! The embedded store: a directory on disk that one process owns, kept by [fjall](https://docs.rs/fjall).
//!
//! The default of perennial, for programs that need no database server. Every durable commit is on disk (`fdatasync`)
//! before it returns; commits that wait together share one sync.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use perennial_fjall::{FjallStore, Settings};
//! use perennial_store::{Commit, Draft, Key, Op, Partition, RecordId, Store};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("store");
//! let store = perennial_fjall::open(&path, Settings::default()).unwrap();
//! let key = Key::new(Partition::new("order-1"), RecordId::of("head"));
//! let draft = Draft::new(key.clone(), r#"{"state":"new"}"#);
//! store.commit(Commit::new(vec![Op::Create(draft)])).await.unwrap();
//! drop(store);
//!
//! let store: FjallStore = perennial_fjall::open(&path, Settings::default()).unwrap();
//! assert!(store.get(&key).await.unwrap().is_some());
//! # });
//! ```
//!
//! # On disk
//!
//! | name | what |
//! |---|---|
//! | `FORMAT` | says that the directory is a store, and in which format |
//! | `UNFINISHED` | present while a store is created; if that was interrupted, the next open starts over |
//! | `LOCK` | locked by the process that has the store open, and holds its process id |
//! | `data/` | the fjall database |
//! | `journals/` | the ledger of the database's journals, and a second name of each |
//! | `PROBE` | present for a moment after a failed read, to test whether the disk works elsewhere |
//!
//! Before the database is opened, everything that it would trust is verified: its manifests, the metadata of its tables,
//! and its journals. Only the end of the last journal, after a crash, cannot be told from a write that the crash interrupted.
//!
//! # Damage
//!
//! A record that cannot be read (a bad sector, a flipped bit, a file that was cut short) is
//! [`Corrupt`](perennial_store::Error::Corrupt) when it is read; queues and listings leave it out, and the log names
//! it. The next opening tries it again. If the disk fails elsewhere too, the store is
//! [`Unavailable`](perennial_store::Error::Unavailable). Where keys of queued records cannot be read, what is
//! missing is unknown: then the store is refused, with the name of the file.

mod archive;
mod blob;
mod bytes;
mod create;
mod damaged_file;
mod directory;
mod disk;
mod engine;
mod error;
mod files;
mod journal;
mod journals;
mod ledger;
mod lock;
mod manifest;
mod open_directory;
mod process_lock;
mod read;
mod recovery;
mod settings;

pub use engine::FjallEngine;
pub use error::OpenError;
pub use settings::Settings;

use directory::Directory;
use perennial_kv::{EngineError, KvStore};
use std::io;
use std::path::Path;

/// The embedded store.
pub type FjallStore = KvStore<FjallEngine>;

/// The version of the on-disk format that this program writes.
pub const FORMAT: u32 = 1;

/// Opens the store in a directory, or creates one if the directory is empty or missing.
///
/// Only the queued records are read, so that a store with a million finished workflows opens as quickly as an empty
/// one.
pub fn open(path: impl AsRef<Path>, settings: Settings) -> Result<FjallStore, OpenError> {
    open_in(Directory::open(path.as_ref())?, settings)
}

/// Opens the store in a directory again after it broke. Creates none: a disk that is no longer mounted must not pass
/// for an empty store.
pub fn reopen(path: impl AsRef<Path>, settings: Settings) -> Result<FjallStore, OpenError> {
    open_in(Directory::reopen(path.as_ref())?, settings)
}

fn open_in(directory: Directory, settings: Settings) -> Result<FjallStore, OpenError> {
    let path = directory.path.clone();
    let is_new = directory.is_new;
    let engine = FjallEngine::open(directory, &settings)?;
    let store = KvStore::with_engine(engine, settings.store).map_err(|error| match error {
        EngineError::Corrupt(why) => OpenError::damaged(&path, why),
        EngineError::Io(kind, why) => OpenError::failed(&path, io::Error::new(kind, why)),
        error => OpenError::failed(&path, io::Error::other(error)),
    })?;
    if is_new {
        directory::finish(&path)?;
    }
    Ok(store)
}

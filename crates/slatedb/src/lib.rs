//! The store of perennial in an object store: a [SlateDB](https://slatedb.io) database in a bucket.
//!
//! One process owns the database at a time, others stand by, and clients anywhere reach it through the bucket alone.

mod bounded;
mod bucket;
mod clock;
mod engine;
mod error;
mod inbox;
mod layout;
pub mod lease;
mod lock;
mod metered;
mod owner;
mod reader;
mod settings;
mod setup;
mod url;

pub use bounded::Deadline;
pub use bucket::Bucket;
pub use engine::{Closing, Opening, SlateEngine};
pub use error::OpenError;
pub use inbox::{Intake, IntakeSettings, Outgoing, OutgoingSettings, Random};
pub use layout::Shard;
pub use lock::DirectoryLock;
pub use metered::{Class, Counts, Operation, Requests};
pub use owner::{Ownership, SlateStore};
pub use reader::{DatabaseReader, ReaderSettings};
pub use settings::Settings;
pub use setup::{Description, FORMAT};
pub use url::Location;

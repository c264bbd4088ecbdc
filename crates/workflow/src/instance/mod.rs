//! An instance at one moment, and the cache of recent ones.

mod cache;
mod history;
mod load;
mod snapshot;
mod watchers;

pub use cache::{Cache, Trust};
pub use history::History;
#[cfg(feature = "testing")]
pub use load::load;
pub use load::{ended, executions, history_of, load_from, load_rest, scan};
pub use snapshot::Snapshot;
pub use watchers::Watchers;

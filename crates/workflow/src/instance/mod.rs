//! What an instance is at one moment, and the memory of recent ones.

mod cache;
mod history;
mod load;
mod snapshot;
mod watchers;

pub use cache::{Cache, Trust};
pub use history::History;
#[cfg(feature = "testing")]
pub use load::load;
pub use load::{PAGE, ended, executions, history_of, load_from, load_rest, scan};
pub use snapshot::Snapshot;
pub use watchers::Watchers;

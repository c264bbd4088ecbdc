//! What an instance is at one moment, and the memory of recent ones.

mod cache;
mod history;
mod load;
mod snapshot;

pub use cache::Cache;
pub use history::History;
pub use load::{ended, executions, history_of, load};
pub use snapshot::Snapshot;

//! How many requests there were, and what they would have cost.

mod counts;
mod log;
mod meter;
pub(crate) mod price;

pub use counts::Counts;
pub use log::Entry;
pub(crate) use meter::Meter;

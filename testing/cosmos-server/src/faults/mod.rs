//! What goes wrong on purpose, and when.

mod fault;
mod plan;
mod rule;

pub use fault::Fault;
pub use plan::Faults;
pub use rule::{Rule, When};

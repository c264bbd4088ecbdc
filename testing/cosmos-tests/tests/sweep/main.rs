//! Every fault at every request, and the death of the process at every request: workflows end as they should, their activities
//! run once, and nothing is left behind.
//!
//! The feature `full` takes all workflows, and deaths; `SWEEP=full` takes a fan-out of 100 instead of 10, and `SWEEP_ONLY=Values`
//! that workflow alone.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod faults;
#[cfg(feature = "full")]
mod kills;
mod scenario;

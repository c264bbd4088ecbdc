//! Shared by the tests of workflows on Cosmos DB: a container and its server, processes that can be killed, and the
//! workflows that they run.

// This crate is test support: a panic is how a test fails, and tests live in real time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::disallowed_methods)]

mod backend;
mod clock;
mod effects;
pub mod kit;
mod leftovers;
mod process;
mod program;
mod room;

pub use backend::Fresh;
pub use clock::{Hurried, Skewed};
pub use effects::Effects;
pub use process::Process;
pub use program::Program;
pub use room::Room;

//! Small commits: an engine on a store whose commits hold a hundred operations of one partition, and that fails or dies at
//! every commit in turn.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods
)]

mod budget;
mod clock;
mod crowded;
mod deletion;
mod large;
mod messages;
mod mutations;
mod pruning;
mod quiet;
mod store;
mod turns;
mod world;

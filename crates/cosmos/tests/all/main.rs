//! The store on Cosmos DB, from a user's view. One binary: each would link the SDK anew.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod adopt;
mod budgets;
mod conformance;
mod faults;
mod format;
mod lost_replies;
mod model;
mod names;
mod open;
mod recount;
mod runs;
mod sharing;
#[path = "../support/mod.rs"]
mod support;

//! The store on Cosmos DB, as its users meet it. One binary: each would link the SDK anew.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod adopt;
mod budgets;
mod conformance;
mod doubt;
mod faults;
mod format;
mod lost_replies;
mod model;
mod names;
mod open;
mod runs;
mod sharing;
#[path = "../support/mod.rs"]
mod support;

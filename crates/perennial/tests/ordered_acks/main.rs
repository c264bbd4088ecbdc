//! Acknowledgements that have returned and are not durable yet: how many there may be, what becomes of them when the store
//! breaks, and that closing and dropping wait for them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod bound;
mod breaking;
mod breaking_acks;
mod calls;
mod closing;
mod dropping;
#[path = "../support/gated.rs"]
mod gated;

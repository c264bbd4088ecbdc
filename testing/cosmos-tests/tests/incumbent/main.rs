//! Where another provider for Cosmos DB goes wrong, one test each: what happens there to others must not happen here.
//!
//! The first part of a name is the defect's number in the study of that provider.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod admin;
mod faults;
mod fences;
mod limits;
mod queues;
mod service;

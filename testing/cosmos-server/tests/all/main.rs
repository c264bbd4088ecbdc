//! The server, as a client meets it. One binary: each would link the SDK anew.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod auth;
mod containers;
mod counting;
mod faults;
mod ids;
mod numbers;
mod pages;
mod queries;
mod replica;
mod sdk;
mod support;
mod ttl;

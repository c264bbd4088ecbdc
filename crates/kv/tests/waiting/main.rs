//! A store on an engine whose reads wait: they block no caller, and only commits that must.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod closing;
mod commits;
mod conformance;
mod engine;
mod fixture;
mod model;
mod reads;

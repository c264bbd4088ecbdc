//! A store that takes large bodies over one that does not: nothing is lost, torn or left behind.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod conformance;
mod damage;
mod failures;
mod faulty;
mod fixture;
mod model;
mod races;
mod sizes;
mod sweeping;

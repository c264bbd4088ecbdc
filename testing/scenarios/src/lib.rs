//! What every store of perennial must be able to do, as tests that any store can run on itself.
//!
//! Three suites, each a set of plain functions and one macro that makes a test of each:
//!
//! * [`validation`] and [`validation_tests!`]: the runtime's own provider validation, all of it;
//! * [`e2e`] and [`e2e_tests!`]: whole workflows under a real runtime;
//! * [`contract`] and [`contract_tests!`]: the points of the provider contract that neither of them reaches.
//!
//! A store's test crate implements [`Backend`] (and duroxide's `ProviderFactory`), and depends on `tokio` for the
//! tests that the macros write:
//!
//! ```text
//! mod e2e { use super::*; perennial_scenarios::e2e_tests!(MyBackend::new()); }
//! mod contract { use super::*; perennial_scenarios::contract_tests!(MyBackend::new()); }
//! mod validation { use super::*; perennial_scenarios::validation_tests!(MyFactory::new()); }
//! ```

// This crate is test support: a panic is how a test fails, and tests live in real time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::disallowed_methods)]

mod awkward;
mod backend;
mod harness;
mod macros;
mod probe;
mod program;

pub mod calls;
pub mod contract;
pub mod e2e;
pub mod validation;

pub use backend::Backend;
pub use harness::{Harness, Node};
pub use program::Program;

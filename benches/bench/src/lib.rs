//! Workloads that measure any [`duroxide::providers::Provider`], side by side and in one process.
//!
//! A [`Target`] opens fresh stores; a [`Case`] says what is run on them; [`compare`] runs every case on every
//! target in interleaved rounds (A B A B …), so that noise of the machine falls on all alike, and returns a
//! [`Report`] that renders as rows, as JSON and as an SVG plot.
//!
//! # How time is taken
//!
//! duroxide's client learns of a completion by polling at 5 to 100 ms, which hides a fast store. By default
//! ([`Wait::Commit`]) a workflow counts as finished when a store's own [`Waiter`] reports it, which it does once the
//! commit that ends it is durable. A provider without one, such as SQLite's, is credited with the moment it acknowledged
//! that commit, seen by a thin wrapper ([`Observed`]) that every target gets alike. [`Wait::Client`] measures what a
//! polling client sees instead.

#![allow(clippy::disallowed_methods, reason = "measuring wall time is this crate's purpose")]

mod case;
mod closed_loop;
mod compare;
mod grow;
mod observe;
mod plot;
mod process;
mod report;
mod target;
mod workload;

pub use case::{Case, Slots, Wait};
pub use closed_loop::{Measurement, run_case};
pub use compare::{Plan, Round, compare};
pub use grow::{Filled, Sample, SamplePlan, grow, sample};
pub use observe::{Counts, Finished, Observed};
pub use plot::{Bar, Panel, bars, svg};
pub use process::{cpu_seconds, load_average, peak_rss_bytes, rss_bytes};
pub use report::{Cell, Report, Row, median};
pub use target::{BenchError, Opened, Subject, Target, Waiter};
pub use workload::Workload;

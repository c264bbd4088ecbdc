//! Clients and owners on one bucket, in virtual time.

mod budgets;
mod faults;
pub(crate) mod faulty;
mod forgetting;
mod mutants;
mod quarantine;
mod sending;
mod taking_over;
mod world;

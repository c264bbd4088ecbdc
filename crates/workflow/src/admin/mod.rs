//! Inspection, deletion and pruning.

pub mod delete;
pub mod inspect;
pub mod prune;
pub mod recount;
pub mod totals;
pub mod two_phase_delete;

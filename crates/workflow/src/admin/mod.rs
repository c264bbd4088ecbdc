//! Inspection, deletion and pruning.

pub mod delete;
pub mod inspect;
pub mod prune;
pub mod recount;
pub mod totals;
pub mod two_phase_delete;

/// How many roots a bulk operation works on if it is not told.
const BULK: usize = 1_000;

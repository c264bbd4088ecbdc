//! Totals, and what to do where they may be wrong.

use crate::Counter;

/// What commits have added up, and whether that can be trusted.
///
/// Where many processes share a store, each adds up its own. One that dies loses what it had not written yet, and totals
/// stay wrong until somebody counts. The store notices that; what is to be counted, only who made the records knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The sums.
    pub sums: Vec<(Counter, i64)>,
    /// Set if they may be wrong.
    pub doubt: Option<Doubt>,
}

impl Totals {
    /// Totals that are right.
    pub fn certain(sums: Vec<(Counter, i64)>) -> Self {
        Self { sums, doubt: None }
    }
}

/// Why a count is needed: somebody died before writing down what it had added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// Which doubt, to the handle that raised it: [`Store::settle`](crate::Store::settle) takes it.
    pub token: u64,
    /// Whether nobody seems to add to the totals just now, so that a count could settle it.
    pub quiet: bool,
    /// The last count, if there was one that could not settle the doubt because others went on working.
    pub counted: Option<Counted>,
}

/// Totals as somebody has counted them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// When the count began, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What was counted.
    pub sums: Vec<(Counter, i64)>,
}

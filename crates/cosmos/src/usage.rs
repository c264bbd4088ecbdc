//! The store's requests to the service, and their cost.

use azure_data_cosmos::diagnostics::DiagnosticsContext;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one kind of operation has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// How often it was done.
    pub calls: u64,
    /// How many requests that took, with all retries.
    pub requests: u64,
    /// How many request units the service charged.
    pub units: f64,
}

/// What a handle has cost so far, by operation: `commit`, `resolve`, `get`, `scan`, `due`, `list`, `tally` (the
/// totals).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The cost of each operation.
    pub by_operation: BTreeMap<&'static str, Spent>,
}

impl Usage {
    /// The sum of all operations.
    pub fn total(&self) -> Spent {
        self.by_operation.values().copied().sum()
    }
}

impl std::iter::Sum for Spent {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, spent| Self {
            calls: sum.calls + spent.calls,
            requests: sum.requests + spent.requests,
            units: sum.units + spent.units,
        })
    }
}

/// Adds up the cost, and reports it as metrics.
#[derive(Default)]
pub(crate) struct Meter(Mutex<Usage>);

impl Meter {
    /// Counts the cost of one request, or of several for the same purpose.
    pub(crate) fn add(&self, operation: &'static str, diagnostics: Option<&DiagnosticsContext>) {
        let requests = diagnostics.map_or(0, |seen| seen.request_count() as u64);
        let units = diagnostics.map_or(0.0, |seen| seen.total_request_charge().value());
        metrics::counter!("perennial_cosmos_requests_total", "operation" => operation).increment(requests);
        metrics::histogram!("perennial_cosmos_request_units", "operation" => operation).record(units);
        let mut usage = self.0.lock();
        let spent = usage.by_operation.entry(operation).or_default();
        spent.calls += 1;
        spent.requests += requests;
        spent.units += units;
        // Counters are whole numbers: what the sum has grown by, so that fractions add up.
        let grown = (spent.units.floor() - (spent.units - units).floor()).max(0.0);
        drop(usage);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        metrics::counter!("perennial_cosmos_request_units_total", "operation" => operation).increment(grown as u64);
    }

    /// The usage so far.
    pub(crate) fn snapshot(&self) -> Usage {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_added_up() {
        let meter = Meter::default();
        meter.add("get", None);
        meter.add("get", None);
        meter.add("due", None);
        let usage = meter.snapshot();
        assert_eq!(usage.by_operation["get"].calls, 2);
        assert_eq!(usage.total().calls, 3);
    }
}

//! Totals, and how to correct them where they may be wrong.

use crate::Counter;
use std::borrow::Cow;

/// The sums of all commits, and whether they can be trusted.
///
/// Where many processes share a store, each adds up its own commits. One that dies loses what it had not written yet,
/// and the totals stay wrong until the records are counted. The store notices the loss; what is to be counted, only the
/// engine knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The sums.
    pub sums: Vec<(Counter, i64)>,
    /// Set if they may be wrong.
    pub doubt: Option<Doubt>,
}

impl Totals {
    /// Totals that are known to be right.
    pub fn certain(sums: Vec<(Counter, i64)>) -> Self {
        Self { sums, doubt: None }
    }
}

/// Why a count is needed: a process died before it wrote down what it had added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// Identifies the doubt to the handle that raised it: [`Store::resolve_doubt`](crate::Store::resolve_doubt) takes
    /// it.
    pub token: u64,
    /// Whether no process seems to add to the totals just now, so that a count could resolve the doubt.
    pub quiet: bool,
    /// The last count, if it could not resolve the doubt because other processes went on working.
    pub counted: Option<Counted>,
    /// How the names of those counters begin that were counted since the doubt arose: their totals are right.
    pub certain: Vec<String>,
}

impl Doubt {
    /// Whether totals of counters may be wrong whose names begin like this.
    pub fn concerns(&self, prefix: &str) -> bool {
        !self.certain.iter().any(|certain| prefix.starts_with(certain))
    }
}

/// Totals from a count of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How the names of the counters begin that the count covers: those of one engine. One of them that is not among the
    /// `sums` is 0; of counters that begin otherwise the count says nothing.
    pub prefix: Cow<'static, str>,
    /// When the count began, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// How long the count took, in milliseconds.
    pub took_ms: u64,
    /// The counted sums.
    pub sums: Vec<(Counter, i64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_does_not_concern_what_was_counted() {
        let certain = |certain: &[&str]| Doubt {
            certain: certain.iter().map(|prefix| (*prefix).to_owned()).collect(),
            ..Doubt::default()
        };
        assert!(certain(&[]).concerns("wf.") && certain(&["jobs."]).concerns("wf."));
        assert!(!certain(&["jobs.", "wf."]).concerns("wf."));
        assert!(certain(&["wf."]).concerns("w"), "only some of them were counted");
        assert!(!certain(&[""]).concerns("wf."), "everything was counted");
    }
}

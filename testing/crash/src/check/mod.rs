//! The verdict: the ledger held against the store.

mod calls;
mod effects;
mod evidence;
mod figures;
mod histories;
mod results;
mod verdict;

pub use evidence::{Evidence, Instance, Outcome};
pub use figures::Figures;
pub use verdict::{Rule, Violation};

/// The rules that histories and acknowledgements break, whatever the workflows were. An activity that ran again breaks
/// none: where one process takes over from another that is only slow, both may run it.
pub fn check_recorded(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = effects::check_recorded(evidence);
    violations.extend(histories::check(evidence));
    violations
}

/// Everything that is wrong.
pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(effects::check(evidence));
    violations.extend(histories::check(evidence));
    violations.extend(calls::check(evidence));
    violations.extend(results::check(evidence));
    violations
}

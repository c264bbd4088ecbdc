//! The verdict: what the workers wrote down, held against what the store has recorded.

use crate::case::Case;
use perennial_crash::check::{Evidence, Rule, Violation, check_recorded};
use perennial_crash::line::{Activity, Line};
use std::collections::HashMap;

/// All violations.
///
/// Histories are whole, each event is there once, nothing completes twice, every acknowledged turn is there event for
/// event; every case ended as it must; and the result of each activity was acknowledged to one worker alone.
/// An activity that ran again is no violation: a worker that is frozen in the middle of it cannot know that another
/// one has taken over.
pub fn check(cases: &[Case], evidence: &Evidence) -> Vec<Violation> {
    let mut violations = check_recorded(evidence);
    violations.extend(cases.iter().filter_map(|case| wrong(*case, evidence)));
    violations.extend(accepted_twice(evidence));
    violations
}

fn wrong(case: Case, evidence: &Evidence) -> Option<Violation> {
    let instance = case.to_string();
    let Some(found) = evidence.instances.get(&instance) else {
        return Some(Rule::LostStart.broken(instance));
    };
    let family = evidence.instances.keys().filter(|id| belongs(id, &instance)).count();
    if family != case.kind.instances() {
        return Some(Rule::WrongResult.broken(format!("{case} is {family} instances")));
    }
    case.flaw(found).map(|flaw| Rule::WrongResult.broken(flaw))
}

/// Whether an instance is this one, or one that it has started.
fn belongs(id: &str, instance: &str) -> bool {
    id.strip_prefix(instance)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The store must take one result of an activity and refuse all others.
fn accepted_twice(evidence: &Evidence) -> Vec<Violation> {
    let mut accepted: HashMap<&Activity, usize> = HashMap::new();
    for line in &evidence.ledger.all {
        if let Line::Done(activity) = line {
            *accepted.entry(activity).or_default() += 1;
        }
    }
    let repeated = accepted.into_iter().filter(|(_, times)| *times > 1);
    repeated
        .map(|(activity, times)| Rule::RepeatedCompletion.broken(format!("{activity} was accepted {times} times")))
        .collect()
}

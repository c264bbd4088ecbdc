//! The results that each kind of workflow must have, however often it was interrupted.

use super::{Evidence, Instance, Outcome, Rule, Violation};
use crate::case::{Case, Kind, named_child};

const NAP: &str = "before,after";
const FAN: &str = "0,1,2,3,4,5";

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let cases = evidence
        .instances
        .iter()
        .filter_map(|(instance, found)| Some((Case::parse(instance)?, found)));
    cases.flat_map(|(case, found)| wrong(evidence, case, found)).collect()
}

fn wrong(evidence: &Evidence, case: Case, found: &Instance) -> Option<Violation> {
    let child = named_child(&case.instance());
    let child = evidence.outcome(&child);
    let right = match case.kind {
        Kind::Retry => is(&found.outcome, "at last"),
        Kind::Fan => is(&found.outcome, FAN),
        Kind::Nap => is(&found.outcome, NAP),
        Kind::Race => is(&found.outcome, "activity") || is(&found.outcome, "timer"),
        Kind::Parent => is(&found.outcome, &format!("{NAP}+{FAN}")) && child.is_some_and(|child| is(child, FAN)),
        // The messages that they received are checked against those that were sent.
        Kind::Approve | Kind::Inbox => matches!(found.outcome, Outcome::Completed(_)),
        Kind::Notes => notes(found),
        Kind::Cancel => {
            let child = child.is_some_and(|child| matches!(child, Outcome::Cancelled(_)));
            matches!(found.outcome, Outcome::Cancelled(_)) && child
        }
        Kind::Detach => is(&found.outcome, "done") && child.is_some_and(|child| is(child, NAP)),
    };
    let what = || {
        let Instance {
            outcome,
            custom_status,
            values,
            ..
        } = found;
        format!("{case} ended as {outcome:?}, status {custom_status:?}, values {values:?}, its child as {child:?}")
    };
    (!right).then(|| Rule::WrongResult.broken(what()))
}

fn is(outcome: &Outcome, output: &str) -> bool {
    matches!(outcome, Outcome::Completed(found) if found == output)
}

fn notes(found: &Instance) -> bool {
    let values = found.values.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    is(&found.outcome, "round-1,round-3")
        && values.eq([("round-1", "note 1"), ("round-3", "note 3")])
        && found.custom_status.as_deref() == Some("round 3")
        && found.executions.len() == 3
}

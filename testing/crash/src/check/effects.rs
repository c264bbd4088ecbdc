//! Activities: an acknowledged result is recorded, and a recorded activity does not run again.

use super::{Evidence, Outcome, Rule, Violation};
use crate::line::{Activity, Line};
use duroxide::{Event, EventKind};
use std::collections::{HashMap, HashSet};

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = repeated(evidence);
    violations.extend(check_recorded(evidence));
    violations
}

/// The same, for activities that several processes may run at once.
pub fn check_recorded(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = lost(evidence);
    violations.extend(missing(evidence));
    violations
}

/// No effect after the store acknowledged the activity or a process found it completed.
fn repeated(evidence: &Evidence) -> Vec<Violation> {
    let mut over: HashMap<&Activity, usize> = HashMap::new();
    let mut violations = Vec::new();
    for (position, line) in evidence.ledger.all.iter().enumerate() {
        match line {
            Line::Done(activity) | Line::Completed(activity) => _ = over.entry(activity).or_insert(position),
            Line::Effect(activity) => {
                if let Some(ended) = over.get(activity) {
                    let what = format!("{activity} was over at line {ended} and ran again at line {position}");
                    violations.push(Rule::RepeatedEffect.broken(what));
                }
            }
            _ => {}
        }
    }
    violations
}

/// Everything acknowledged or found completed is in the history. Only a result that was no longer wanted may be
/// missing: its activity or its whole instance was cancelled.
fn lost(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = Vec::new();
    for line in &evidence.ledger.all {
        let (activity, found) = match line {
            Line::Done(activity) => (activity, false),
            Line::Completed(activity) => (activity, true),
            _ => continue,
        };
        let history = evidence.history(&activity.instance, activity.execution);
        let unwanted = matches!(evidence.outcome(&activity.instance), Some(Outcome::Cancelled(_)))
            || history
                .iter()
                .any(|e| is_about(e, activity) && is_cancellation(&e.kind));
        let recorded = history.iter().any(|e| is_about(e, activity) && is_completion(&e.kind));
        if !recorded && (found || !unwanted) {
            violations.push(Rule::LostActivity.broken(format!("{line} but the history has no completion")));
        }
    }
    violations
}

/// Nothing is recorded as completed that never ran. A torn line may have been the one that is missing.
fn missing(evidence: &Evidence) -> Vec<Violation> {
    let mut ran: HashSet<&Activity> = HashSet::new();
    for line in &evidence.ledger.all {
        if let Line::Effect(activity) = line {
            ran.insert(activity);
        }
    }
    let mut violations = Vec::new();
    for (instance, found) in &evidence.instances {
        for (execution, history) in &found.executions {
            for event in history
                .iter()
                .filter(|e| matches!(e.kind, EventKind::ActivityCompleted { .. }))
            {
                let id = event.source_event_id.unwrap_or_default();
                let activity = Activity {
                    instance: instance.clone(),
                    execution: *execution,
                    id,
                };
                if !ran.contains(&activity) {
                    violations.push(Rule::MissingEffect.broken(format!("{activity} completed and never ran")));
                }
            }
        }
    }
    violations.drain(..evidence.ledger.torn.min(violations.len()));
    violations
}

fn is_about(event: &Event, activity: &Activity) -> bool {
    event.source_event_id == Some(activity.id)
}

fn is_completion(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. }
    )
}

fn is_cancellation(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ActivityCancelRequested { .. })
}

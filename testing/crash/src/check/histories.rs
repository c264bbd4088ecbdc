//! Histories: whole, each event once, as they were acknowledged, and at their end.

use super::{Evidence, Outcome, Rule, Violation};
use crate::line::Line;
use crate::witness::digest;
use duroxide::{Event, EventKind};
use std::collections::BTreeMap;

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (instance, found) in &evidence.instances {
        if found.outcome == Outcome::Running {
            violations.push(Rule::StillRunning.broken(instance));
        }
        let executions: Vec<u64> = found.executions.keys().copied().collect();
        if !executions.iter().copied().eq(1..=executions.len() as u64) || executions.is_empty() {
            violations.push(Rule::Gap.broken(format!("{instance} has the executions {executions:?}")));
        }
        for (execution, history) in &found.executions {
            violations.extend(one(&format!("{instance} {execution}"), history));
        }
    }
    violations.extend(turns(evidence));
    if evidence.queued > 0 {
        violations.push(Rule::StillQueued.broken(format!("{} items", evidence.queued)));
    }
    violations
}

/// Events are numbered from one without a gap, and nothing completes twice.
fn one(whose: &str, history: &[Event]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
    let mut completed: BTreeMap<u64, usize> = BTreeMap::new();
    for event in history {
        *numbers.entry(event.event_id).or_default() += 1;
        if let (Some(source), true) = (event.source_event_id, is_completion(&event.kind)) {
            *completed.entry(source).or_default() += 1;
        }
    }
    for (number, _) in numbers.iter().filter(|(_, times)| **times > 1) {
        violations.push(Rule::RepeatedEvent.broken(format!("{whose} has event {number} more than once")));
    }
    for (source, times) in completed.iter().filter(|(_, times)| **times > 1) {
        violations.push(Rule::RepeatedCompletion.broken(format!("{whose} completes {source} {times} times")));
    }
    if !numbers.keys().copied().eq(1..=numbers.len() as u64) || numbers.is_empty() {
        let numbers: Vec<_> = numbers.into_keys().collect();
        violations.push(Rule::Gap.broken(format!("{whose} has the events {numbers:?}")));
    }
    violations
}

fn is_completion(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
    )
}

/// Every turn that was acknowledged is in its history, event for event.
fn turns(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = Vec::new();
    for line in &evidence.ledger.all {
        let Line::Turned(turn) = line else { continue };
        let history = evidence.history(&turn.instance, turn.execution);
        let added = history
            .iter()
            .filter(|e| (turn.first..=turn.last).contains(&e.event_id));
        if digest(added) != turn.digest {
            violations.push(Rule::LostTurn.broken(format!("{turn} is not in the history as it was acknowledged")));
        }
    }
    violations
}

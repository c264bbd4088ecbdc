//! Calls of the client: every acknowledged call took effect, once and in order.

use super::{Evidence, Outcome, Rule, Violation};
use crate::case::{APPROVALS, CANCEL, Case, END, Kind, START};
use crate::line::{Attempt, Line};
use duroxide::EventKind;
use std::collections::BTreeMap;

/// The attempts of one instance's calls, in the order in which they were made, and whether each was acknowledged.
type Attempts<'a> = Vec<(&'a Attempt, bool)>;

pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (instance, attempts) in attempts(evidence) {
        let started = attempts.iter().any(|(attempt, acked)| attempt.call == START && *acked);
        let outcome = match (evidence.outcome(instance), started) {
            (Some(outcome), _) => outcome,
            (None, true) => {
                violations.push(Rule::LostStart.broken(instance));
                continue;
            }
            (None, false) => continue,
        };
        match (Case::parse(instance).map(|case| case.kind), outcome) {
            (Some(Kind::Inbox), Outcome::Completed(output)) => violations.extend(inbox(instance, &attempts, output)),
            (Some(Kind::Approve), Outcome::Completed(output)) => {
                violations.extend(approve(instance, &attempts, output));
                violations.extend(events(evidence, instance));
            }
            (Some(Kind::Cancel), Outcome::Cancelled(reason)) => {
                violations.extend(strange(instance, &attempts, CANCEL, reason));
            }
            _ => {}
        }
    }
    violations
}

fn attempts(evidence: &Evidence) -> BTreeMap<&str, Attempts<'_>> {
    let mut attempts: BTreeMap<&str, Attempts<'_>> = BTreeMap::new();
    for line in &evidence.ledger.all {
        match line {
            Line::Tried(tried) => attempts.entry(&tried.instance).or_default().push((tried, false)),
            Line::Acked(acked) => {
                let of_instance = attempts.entry(&acked.instance).or_default();
                match of_instance.iter_mut().find(|(tried, _)| *tried == acked) {
                    Some((_, done)) => *done = true,
                    // The line that recorded the attempt was torn.
                    None => of_instance.push((acked, true)),
                }
            }
            _ => {}
        }
    }
    attempts
}

/// Messages come in the order in which they were sent, acknowledged ones exactly once, others at most once; then
/// the end.
fn inbox(instance: &str, attempts: &Attempts<'_>, output: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let got: Vec<&str> = output.split(',').collect();
    for (attempt, acked) in attempts
        .iter()
        .filter(|(attempt, _)| ![START, END].contains(&&*attempt.call))
    {
        let times = got.iter().filter(|message| **message == attempt.payload()).count();
        match times {
            0 if *acked => violations.push(Rule::LostMessage.broken(format!("{attempt} is not in {output:?}"))),
            0 | 1 => {}
            _ => violations.push(Rule::RepeatedMessage.broken(format!("{attempt} is {times} times in {output:?}"))),
        }
    }
    let sent: Vec<String> = attempts.iter().map(|(attempt, _)| attempt.payload()).collect();
    let places: Vec<_> = got
        .iter()
        .map(|message| sent.iter().position(|sent| sent == message))
        .collect();
    if places.contains(&None) || !places.is_sorted() {
        let what = format!("{instance} was sent {sent:?} and got {got:?}");
        violations.push(Rule::StrangeMessage.broken(what));
    }
    if !got.last().is_some_and(|last| last.starts_with(END)) {
        violations.push(Rule::WrongResult.broken(format!("{instance} ended before its end: {output:?}")));
    }
    violations
}

/// Each approval is the first attempt that reached the workflow: an acknowledged one has no later rival.
fn approve(instance: &str, attempts: &Attempts<'_>, output: &str) -> Vec<Violation> {
    let got: Vec<&str> = output.split(',').collect();
    if got.len() != APPROVALS.len() {
        return vec![Rule::WrongResult.broken(format!("{instance} got {output:?}"))];
    }
    APPROVALS
        .iter()
        .zip(got)
        .filter_map(|(call, got)| strange(instance, attempts, call, got))
        .collect()
}

/// The rule that is broken if a workflow received no attempt of this call, or a later one than an acknowledged one,
/// which then was lost.
fn strange(instance: &str, attempts: &Attempts<'_>, call: &str, got: &str) -> Option<Violation> {
    for (attempt, acked) in attempts.iter().filter(|(attempt, _)| attempt.call == call) {
        if attempt.payload() == got {
            return None;
        }
        if *acked {
            return Some(Rule::LostMessage.broken(format!("{attempt} was acknowledged, but {got:?} came")));
        }
    }
    Some(Rule::StrangeMessage.broken(format!("{instance} got {got:?} as {call:?}, which nobody sent")))
}

/// No event is in a history twice.
fn events(evidence: &Evidence, instance: &str) -> Vec<Violation> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for event in evidence.history(instance, 1) {
        if let EventKind::ExternalEvent { data, .. } = &event.kind {
            *seen.entry(data).or_default() += 1;
        }
    }
    let repeated = seen.into_iter().filter(|(_, times)| *times > 1);
    repeated
        .map(|(data, times)| Rule::RepeatedMessage.broken(format!("{instance} got {data:?} {times} times")))
        .collect()
}

//! The checker finds every planted violation, and none in sound evidence.

// A panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind};
use perennial_crash::check::{Evidence, Instance, Outcome, Rule, check};
use perennial_crash::ledger::Lines;
use perennial_crash::line::{Activity, Attempt, Line, Turn};
use perennial_crash::witness::digest;
use std::collections::BTreeMap;

const INBOX: &str = "g0-Inbox";
const APPROVE: &str = "g0-Approve";
const CANCEL: &str = "g0-Cancel";

/// An execution that runs one activity, gets events, and ends.
fn history(instance: &str, execution: u64, got: &[&str], end: EventKind) -> Vec<Event> {
    let started = EventKind::OrchestrationStarted {
        name: String::new(),
        version: String::new(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    let scheduled = EventKind::ActivityScheduled {
        name: "Work".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    let completed = EventKind::ActivityCompleted { result: String::new() };
    let events = got.iter().map(|data| EventKind::ExternalEvent {
        name: String::new(),
        data: (*data).to_owned(),
    });
    let kinds = [started, scheduled, completed].into_iter().chain(events).chain([end]);
    let source = |kind: &EventKind| matches!(kind, EventKind::ActivityCompleted { .. }).then_some(2);
    let numbered = kinds
        .zip(1..)
        .map(|(kind, id)| Event::with_event_id(id, instance, execution, source(&kind), kind));
    numbered.collect()
}

fn activity(instance: &str, execution: u64) -> Activity {
    Activity {
        instance: instance.to_owned(),
        execution,
        id: 2,
    }
}

fn attempt(instance: &str, call: &str, attempt: u32) -> Attempt {
    Attempt {
        instance: instance.to_owned(),
        call: call.to_owned(),
        attempt,
    }
}

/// The lines of the ledger about an execution that went well.
fn lines_of(history: &[Event]) -> Vec<Line> {
    let (first, last) = (&history[0], &history[history.len() - 1]);
    let activity = activity(&first.instance_id, first.execution_id);
    let turn = Turn {
        instance: first.instance_id.clone(),
        execution: first.execution_id,
        first: first.event_id,
        last: last.event_id,
        digest: digest(history),
    };
    vec![
        Line::Effect(activity.clone()),
        Line::Done(activity.clone()),
        Line::Turned(turn),
        Line::Completed(activity),
    ]
}

fn add(evidence: &mut Evidence, name: &str, outcome: Outcome, got: &[&str]) {
    let end = match &outcome {
        Outcome::Completed(output) => EventKind::OrchestrationCompleted { output: output.clone() },
        other => EventKind::OrchestrationFailed {
            details: ErrorDetails::Application {
                kind: AppErrorKind::OrchestrationFailed,
                message: format!("{other:?}"),
                retryable: false,
            },
        },
    };
    let history = history(name, 1, got, end);
    evidence.ledger.all.extend(lines_of(&history));
    let instance = Instance {
        outcome,
        custom_status: None,
        values: BTreeMap::new(),
        executions: BTreeMap::from([(1, history)]),
    };
    evidence.instances.insert(name.to_owned(), instance);
}

fn acked(evidence: &mut Evidence, instance: &str, call: &str, number: u32) {
    evidence.ledger.all.push(Line::Tried(attempt(instance, call, number)));
    evidence.ledger.all.push(Line::Acked(attempt(instance, call, number)));
}

/// Evidence in which nothing is wrong, though two calls were cut off by kills.
fn sound() -> Evidence {
    let mut evidence = Evidence {
        ledger: Lines::default(),
        instances: BTreeMap::new(),
        queued: 0,
    };
    for instance in [INBOX, APPROVE, CANCEL] {
        acked(&mut evidence, instance, "start", 1);
    }
    evidence.ledger.all.push(Line::Tried(attempt(INBOX, "m0", 1)));
    for (call, number) in [("m0", 2), ("m1", 1), ("m2", 1), ("m3", 1), ("m4", 1), ("end", 1)] {
        acked(&mut evidence, INBOX, call, number);
    }
    acked(&mut evidence, APPROVE, "first", 1);
    evidence.ledger.all.push(Line::Tried(attempt(APPROVE, "second", 1)));
    acked(&mut evidence, APPROVE, "second", 2);
    acked(&mut evidence, CANCEL, "cancel", 1);
    add(
        &mut evidence,
        INBOX,
        Outcome::Completed("m0.1,m0.2,m1.1,m2.1,m3.1,m4.1,end.1".to_owned()),
        &[],
    );
    let approved = ["first.1", "second.1", "second.2"];
    add(
        &mut evidence,
        APPROVE,
        Outcome::Completed("first.1,second.1".to_owned()),
        &approved,
    );
    add(&mut evidence, CANCEL, Outcome::Cancelled("cancel.1".to_owned()), &[]);
    add(
        &mut evidence,
        "g0-Cancel-named",
        Outcome::Cancelled("parent canceled".to_owned()),
        &[],
    );
    evidence
}

/// The violations that the checker finds after `plant` has changed sound evidence.
fn found(plant: impl FnOnce(&mut Evidence)) -> Vec<Rule> {
    let mut evidence = sound();
    plant(&mut evidence);
    check(&evidence).into_iter().map(|violation| violation.rule).collect()
}

fn set_output(evidence: &mut Evidence, instance: &str, output: &str) {
    evidence.instances.get_mut(instance).unwrap().outcome = Outcome::Completed(output.to_owned());
}

fn events<'a>(evidence: &'a mut Evidence, instance: &str) -> &'a mut Vec<Event> {
    evidence
        .instances
        .get_mut(instance)
        .unwrap()
        .executions
        .get_mut(&1)
        .unwrap()
}

#[test]
fn sound_evidence_is_not_faulted() {
    assert_eq!(check(&sound()), []);
}

#[test]
fn an_effect_after_the_acknowledgement_is_found() {
    let again = Line::Effect(activity(INBOX, 1));
    assert_eq!(
        found(|evidence| evidence.ledger.all.push(again)),
        [Rule::RepeatedEffect]
    );
}

#[test]
fn an_effect_after_the_report_is_found_also_without_an_acknowledgement() {
    let rules = found(|evidence| {
        evidence
            .ledger
            .all
            .retain(|line| *line != Line::Done(activity(INBOX, 1)));
        evidence.ledger.all.push(Line::Effect(activity(INBOX, 1)));
    });
    assert_eq!(rules, [Rule::RepeatedEffect]);
}

#[test]
fn an_effect_of_an_activity_in_flight_may_be_repeated() {
    let again = Line::Effect(activity(INBOX, 1));
    assert_eq!(found(|evidence| evidence.ledger.all.insert(0, again)), []);
}

#[test]
fn a_completion_without_an_effect_is_found() {
    let rules = found(|evidence| {
        evidence
            .ledger
            .all
            .retain(|line| *line != Line::Effect(activity(INBOX, 1)))
    });
    assert_eq!(rules, [Rule::MissingEffect]);
}

#[test]
fn a_lost_start_is_found() {
    let rules = found(|evidence| acked(evidence, "g1-Fan", "start", 1));
    assert_eq!(rules, [Rule::LostStart]);
}

#[test]
fn a_start_that_was_not_acknowledged_may_be_lost() {
    let tried = Line::Tried(attempt("g1-Fan", "start", 1));
    assert_eq!(found(|evidence| evidence.ledger.all.push(tried)), []);
}

#[test]
fn a_lost_instance_is_found_in_every_way() {
    let rules = found(|evidence| _ = evidence.instances.remove(INBOX));
    for rule in [Rule::LostStart, Rule::LostTurn, Rule::LostActivity] {
        assert!(rules.contains(&rule), "{rule:?} is not in {rules:?}");
    }
}

#[test]
fn a_lost_message_is_found() {
    let rules = found(|evidence| set_output(evidence, INBOX, "m0.2,m1.1,m2.1,m4.1,end.1"));
    assert_eq!(rules, [Rule::LostMessage]);
}

#[test]
fn a_message_got_twice_is_found() {
    let rules = found(|evidence| set_output(evidence, INBOX, "m0.2,m1.1,m1.1,m2.1,m3.1,m4.1,end.1"));
    assert_eq!(rules, [Rule::RepeatedMessage]);
}

#[test]
fn messages_out_of_order_or_from_nowhere_are_found() {
    for output in ["m0.2,m2.1,m1.1,m3.1,m4.1,end.1", "m0.2,m1.1,m2.1,m3.1,m4.1,m4.2,end.1"] {
        assert_eq!(
            found(|evidence| set_output(evidence, INBOX, output)),
            [Rule::StrangeMessage]
        );
    }
}

#[test]
fn an_inbox_that_ends_before_its_end_is_found() {
    let rules = found(|evidence| set_output(evidence, INBOX, "m0.2,m1.1,m2.1,m3.1,m4.1"));
    assert_eq!(rules, [Rule::WrongResult]);
}

#[test]
fn a_lost_event_is_found() {
    let rules = found(|evidence| set_output(evidence, APPROVE, "first.2,second.2"));
    assert_eq!(rules, [Rule::LostMessage]);
}

#[test]
fn an_event_recorded_twice_is_found() {
    let rules = found(|evidence| {
        let events = events(evidence, APPROVE);
        let again = Event {
            event_id: events.len() as u64 + 1,
            ..events[3].clone()
        };
        events.push(again);
    });
    assert_eq!(rules, [Rule::RepeatedMessage]);
}

#[test]
fn a_cancellation_that_was_lost_is_found() {
    let rules = found(|evidence| set_output(evidence, CANCEL, "went on"));
    assert_eq!(rules, [Rule::WrongResult]);
}

#[test]
fn an_event_number_used_twice_is_found() {
    let rules = found(|evidence| {
        let again = events(evidence, CANCEL)[0].clone();
        events(evidence, CANCEL).push(again);
    });
    assert_eq!(rules, [Rule::RepeatedEvent, Rule::LostTurn]);
}

#[test]
fn a_gap_in_a_history_is_found() {
    let rules = found(|evidence| _ = events(evidence, CANCEL).remove(0));
    assert_eq!(rules, [Rule::Gap, Rule::LostTurn]);
}

#[test]
fn a_missing_execution_is_found() {
    let rules = found(|evidence| {
        let executions = &mut evidence.instances.get_mut(CANCEL).unwrap().executions;
        let mut later = executions[&1].clone();
        later.retain(|event| !matches!(event.kind, EventKind::ActivityCompleted { .. }));
        later.iter_mut().zip(1..).for_each(|(event, id)| event.event_id = id);
        executions.insert(3, later);
    });
    assert_eq!(rules, [Rule::Gap]);
}

#[test]
fn an_activity_completed_twice_is_found() {
    let rules = found(|evidence| {
        let events = events(evidence, INBOX);
        let again = Event {
            event_id: events.len() as u64 + 1,
            ..events[2].clone()
        };
        events.push(again);
    });
    assert_eq!(rules, [Rule::RepeatedCompletion]);
}

#[test]
fn an_acknowledged_result_that_is_not_recorded_is_found() {
    let other = |line| {
        let id = 9;
        let rules = found(|evidence| {
            let activity = Activity {
                id,
                ..activity(INBOX, 1)
            };
            evidence.ledger.all.push(Line::Effect(activity.clone()));
            evidence.ledger.all.push(if line == "done" {
                Line::Done(activity)
            } else {
                Line::Completed(activity)
            });
        });
        assert_eq!(rules, [Rule::LostActivity], "{line}");
    };
    other("done");
    other("completed");
}

#[test]
fn a_turn_that_was_replaced_by_another_is_found() {
    let rules = found(|evidence| events(evidence, CANCEL)[1].timestamp_ms += 1);
    assert_eq!(rules, [Rule::LostTurn]);
}

#[test]
fn what_still_runs_or_waits_is_found() {
    let rules = found(|evidence| {
        evidence.instances.get_mut("g0-Cancel-named").unwrap().outcome = Outcome::Running;
        evidence.queued = 1;
    });
    assert_eq!(rules, [Rule::StillRunning, Rule::StillQueued, Rule::WrongResult]);
}

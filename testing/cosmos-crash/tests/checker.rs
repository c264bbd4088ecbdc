//! The checker finds every planted violation, and none in sound evidence.

// A panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use duroxide::{Event, EventKind};
use perennial_cosmos_crash::case::{Case, Kind};
use perennial_cosmos_crash::check::check;
use perennial_crash::check::{Evidence, Instance, Outcome, Rule};
use perennial_crash::ledger::Lines;
use perennial_crash::line::{Activity, Line, Turn};
use perennial_crash::witness::digest;
use std::collections::BTreeMap;

const CASES: [Case; 1] = [Case {
    number: 0,
    kind: Kind::Hello,
}];
const HELLO: &str = "0-Hello";

/// The history of a hello-world.
fn history() -> Vec<Event> {
    let scheduled = EventKind::ActivityScheduled {
        name: "Work".to_owned(),
        input: "hello".to_owned(),
        session_id: None,
        tag: None,
    };
    let completed = EventKind::ActivityCompleted {
        result: "hello".to_owned(),
    };
    let ended = EventKind::OrchestrationCompleted {
        output: "hello".to_owned(),
    };
    vec![
        Event::with_event_id(1, HELLO, 1, None, scheduled),
        Event::with_event_id(2, HELLO, 1, Some(1), completed),
        Event::with_event_id(3, HELLO, 1, None, ended),
    ]
}

fn activity() -> Activity {
    Activity {
        instance: HELLO.to_owned(),
        execution: 1,
        id: 1,
    }
}

/// A hello-world that went well, though its activity ran twice.
fn sound() -> Evidence {
    let history = history();
    let turn = Turn {
        instance: HELLO.to_owned(),
        execution: 1,
        first: 1,
        last: 3,
        digest: digest(&history),
    };
    let lines = vec![
        Line::Effect(activity()),
        Line::Done(activity()),
        Line::Effect(activity()),
        Line::Turned(turn),
    ];
    let hello = Instance {
        outcome: Outcome::Completed("hello".to_owned()),
        custom_status: None,
        values: BTreeMap::new(),
        executions: BTreeMap::from([(1, history)]),
    };
    Evidence {
        ledger: Lines { all: lines, torn: 0 },
        instances: BTreeMap::from([(HELLO.to_owned(), hello)]),
        queued: 0,
    }
}

/// The rules that are broken after `plant` has changed sound evidence.
fn found(plant: impl FnOnce(&mut Evidence)) -> Vec<Rule> {
    let mut evidence = sound();
    plant(&mut evidence);
    let violations = check(&CASES, &evidence);
    violations.into_iter().map(|violation| violation.rule).collect()
}

fn events(evidence: &mut Evidence) -> &mut Vec<Event> {
    let hello = evidence.instances.get_mut(HELLO).unwrap();
    hello.executions.get_mut(&1).unwrap()
}

#[test]
fn nothing_is_found_in_sound_evidence_though_an_activity_ran_again() {
    assert_eq!(found(|_| {}), []);
}

#[test]
fn a_result_that_was_accepted_of_two_workers_is_found() {
    let twice = |evidence: &mut Evidence| evidence.ledger.all.push(Line::Done(activity()));
    assert_eq!(found(twice), [Rule::RepeatedCompletion]);
}

#[test]
fn an_instance_that_is_gone_is_found() {
    assert!(found(|evidence| evidence.instances.clear()).contains(&Rule::LostStart));
}

#[test]
fn a_wrong_result_is_found() {
    let wrong = |evidence: &mut Evidence| {
        evidence.instances.get_mut(HELLO).unwrap().outcome = Outcome::Completed("goodbye".to_owned());
    };
    assert_eq!(found(wrong), [Rule::WrongResult]);
}

#[test]
fn a_child_too_many_is_found() {
    let another = |evidence: &mut Evidence| {
        let child = evidence.instances[HELLO].clone();
        evidence.instances.insert(format!("{HELLO}::sub::1"), child);
    };
    assert!(found(another).contains(&Rule::WrongResult));
}

#[test]
fn an_acknowledged_turn_that_another_has_overwritten_is_found() {
    let overwritten = |evidence: &mut Evidence| {
        let other = EventKind::OrchestrationCompleted {
            output: "other".to_owned(),
        };
        events(evidence)[2] = Event::with_event_id(3, HELLO, 1, None, other);
    };
    assert_eq!(found(overwritten), [Rule::LostTurn]);
}

#[test]
fn a_completion_that_is_recorded_twice_is_found() {
    let twice = |evidence: &mut Evidence| {
        let completed = EventKind::ActivityCompleted {
            result: "hello".to_owned(),
        };
        events(evidence).push(Event::with_event_id(4, HELLO, 1, Some(1), completed));
    };
    assert_eq!(found(twice), [Rule::RepeatedCompletion]);
}

#[test]
fn an_acknowledged_result_that_is_not_recorded_is_found() {
    let lost = |evidence: &mut Evidence| _ = events(evidence).remove(1);
    assert!(found(lost).contains(&Rule::LostActivity));
}

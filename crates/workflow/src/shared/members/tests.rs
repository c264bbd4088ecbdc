use super::*;
use crate::records::lanes::{LaneLayout, work_topic};
use crate::records::{partition, work};
use crate::tuning::{DEFER_BACKLOG_MS, DEFER_MS, DEFER_TO_MOST, MEMBER_LIFE_MS};
use perennial_store::{Draft, Place, Version};
use std::collections::HashSet;

const NOW_MS: u64 = 1_000_000;

/// How each of some processes sees the others, all of whom serve these topics.
fn everybody(names: &[&str], topics: &[&str]) -> Vec<Members> {
    let serves = Serves {
        any_work: false,
        topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
    };
    let other = || Other {
        serves: serves.clone(),
        version: Version::number(1),
        since_ms: NOW_MS,
        round: 0,
    };
    let seen_by = |me: &&str| {
        let members = Members::default();
        let mut state = members.state.lock();
        state.said = Some((serves.clone(), NOW_MS));
        let others = names.iter().filter(|name| *name != me);
        state.others = others.map(|name| (Arc::from(*name), other())).collect();
        drop(state);
        members
    };
    names.iter().map(seen_by).collect()
}

fn record(key: Key, place: Place) -> Record {
    let draft = Draft::new(key, "{}").placed(place);
    Record {
        key: draft.key,
        version: Version::number(1),
        body: draft.body,
        place: draft.place,
        listing: None,
    }
}

fn message(instance: &str, maker: &str) -> Record {
    let id = crate::records::message::id(Order(7), Some(maker));
    let place = Place {
        lane: LaneLayout::Combined.turn(),
        order: Order(7),
        due_ms: 0,
    };
    record(Key::new(partition(instance), id), place)
}

fn activity(order: u64) -> Record {
    let id = work::of_activity(1, order).number(order);
    let place = Place {
        lane: LaneLayout::Combined.work(None),
        order: Order(order),
        due_ms: 0,
    };
    record(Key::new(partition("i"), id), place)
}

/// How many of 300 records each of four processes takes at once; every record must be one's and no other's.
fn shares(record: impl Fn(u64) -> Record) -> [usize; 4] {
    let names = ["a", "b", "c", "d"];
    let all = everybody(&names, &[lanes::TURN, &work_topic(None)]);
    let mut shares = [0; 4];
    for n in 0..300 {
        let record = record(n);
        let takes: Vec<usize> = (0..4)
            .filter(|at| {
                all[*at]
                    .deferred_until(names[*at], &record, None, false, NOW_MS)
                    .is_none()
            })
            .collect();
        assert_eq!(takes.len(), 1, "{record:?}");
        shares[takes[0]] += 1;
    }
    shares
}

#[test]
fn everything_is_somebodys_and_nothing_is_twos() {
    for shares in [shares(|n| message(&format!("i{n}"), "client")), shares(activity)] {
        assert!(shares.iter().all(|share| (45..=105).contains(share)), "{shares:?}");
    }
    assert_eq!(
        shares(|n| message(&format!("i{n}"), "c")),
        [0, 0, 300, 0],
        "whose it is"
    );
}

#[test]
fn what_is_still_there_after_a_moment_may_be_taken() {
    let names = ["a", "b"];
    let all = everybody(&names, &[lanes::TURN]);
    let (theirs, me) = (message("i", "b"), &all[0]);
    let first = me.deferred_until("a", &theirs, None, false, NOW_MS).unwrap();
    assert!((NOW_MS + DEFER_MS..=NOW_MS + DEFER_TO_MOST * DEFER_MS).contains(&first));
    assert_eq!(me.deferred_until("a", &theirs, None, false, first - 1), Some(first));
    assert_eq!(me.deferred_until("a", &theirs, None, false, first), None);
    let more = me.deferred_until("a", &theirs, None, true, first);
    assert_eq!(more, Some(NOW_MS + DEFER_BACKLOG_MS), "there is enough to do");
    let before = me.deferred_until("a", &theirs, None, false, NOW_MS - 60_000).unwrap();
    assert!(
        before < NOW_MS,
        "the clock was put back, and the wait is no longer by that"
    );
}

#[test]
fn nothing_is_left_to_who_cannot_do_it_or_is_gone() {
    let names = ["a", "b"];
    let [me, _] = &everybody(&names, &["work:gpu"])[..] else {
        unreachable!()
    };
    assert_eq!(
        me.deferred_until("a", &message("i", "b"), None, false, NOW_MS),
        None,
        "no turns"
    );
    let [me, _] = &everybody(&names, &[lanes::TURN])[..] else {
        unreachable!()
    };
    assert!(
        me.deferred_until("a", &message("i", "b"), None, false, NOW_MS)
            .is_some()
    );
    assert_eq!(
        me.deferred_until("a", &message("j", "b"), None, false, NOW_MS + MEMBER_LIFE_MS),
        None,
        "it is silent"
    );
    me.met_all();
    assert!(
        me.deferred_until("a", &message("k", "b"), None, false, NOW_MS)
            .is_some()
    );
    me.met_all();
    assert_eq!(
        me.deferred_until("a", &message("l", "b"), None, false, NOW_MS),
        None,
        "nobody met it"
    );
}

#[test]
fn a_process_lives_as_long_as_it_says_something_new_whatever_the_time_is_there() {
    let members = Members::default();
    let said = |version, said_ms, now_ms| {
        let b = Member {
            process: Arc::from("b"),
            said_ms,
            serves: Serves::default(),
        };
        members.met(b, Version::number(version), now_ms)
    };
    const AHEAD_MS: u64 = 10 * NOW_MS;
    assert!(said(1, AHEAD_MS, NOW_MS));
    assert!(said(1, AHEAD_MS, NOW_MS + MEMBER_LIFE_MS - 1));
    assert!(said(2, 0, NOW_MS + MEMBER_LIFE_MS), "it has said something new");
    assert!(said(2, 0, NOW_MS + 2 * MEMBER_LIFE_MS - 1));
    assert!(!said(2, 0, NOW_MS + 2 * MEMBER_LIFE_MS), "it is silent");
    assert!(said(3, 0, NOW_MS + 3 * MEMBER_LIFE_MS));
    assert!(said(3, 0, NOW_MS), "the clock was put back");
    assert!(
        !said(3, 0, NOW_MS + MEMBER_LIFE_MS),
        "and it does not live longer by that"
    );
}

#[test]
fn a_process_that_died_long_ago_is_waited_for_by_nobody_who_comes_later() {
    let said = |said_ms| {
        let b = Member {
            process: Arc::from("b"),
            said_ms,
            serves: Serves::default(),
        };
        Members::default().met(b, Version::number(1), NOW_MS)
    };
    assert!(said(NOW_MS - MEMBER_LIFE_MS + 1));
    assert!(!said(NOW_MS - MEMBER_LIFE_MS));
}

#[test]
fn activities_of_a_session_are_all_the_same_processs() {
    let names = ["a", "b", "c", "d"];
    let all = everybody(&names, &[&work_topic(None)]);
    let takes = |order: u64, session: &str| {
        let record = activity(order);
        let takes = |at: &usize| {
            all[*at]
                .deferred_until(names[*at], &record, Some(session), false, NOW_MS)
                .is_none()
        };
        (0..4).filter(takes).collect::<Vec<usize>>()
    };
    let mut used = HashSet::new();
    for session in (0..20).map(|n| format!("s{n}")) {
        let whose = takes(0, &session);
        assert_eq!(whose.len(), 1);
        assert!((1..20).all(|order| takes(order, &session) == whose));
        used.extend(whose);
    }
    assert_eq!(used.len(), 4, "sessions are shared out");
}

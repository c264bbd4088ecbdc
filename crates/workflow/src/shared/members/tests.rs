use super::announce::LIFE_MS;
use super::*;
use crate::records::queues::{Queues, work_topic};
use crate::records::{partition, work};
use perennial_store::{Draft, Place, Version};

const NOW_MS: u64 = 1_000_000;

/// How each of some processes sees the others, all of whom serve these topics.
fn everybody(names: &[&str], topics: &[&str]) -> Vec<Members> {
    let serves = Serves {
        any_work: false,
        topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
    };
    let member = |name: &str| Member {
        process: Arc::from(name),
        until_ms: NOW_MS + LIFE_MS,
        serves: serves.clone(),
    };
    let seen_by = |me: &&str| {
        let members = Members::default();
        let mut state = members.state.lock();
        state.said = Some((serves.clone(), NOW_MS));
        let others = names.iter().filter(|name| *name != me);
        state.others = others.map(|name| (Arc::from(*name), (member(name), 0))).collect();
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
        lane: Queues::One.turn(),
        order: Order(7),
        due_ms: 0,
    };
    record(Key::new(partition(instance), id), place)
}

fn activity(order: u64) -> Record {
    let id = work::of_activity(1, order).number(order);
    let place = Place {
        lane: Queues::One.work(None),
        order: Order(order),
        due_ms: 0,
    };
    record(Key::new(partition("i"), id), place)
}

/// How many of 300 records each of four processes takes at once; every record must be one's and no other's.
fn shares(record: impl Fn(u64) -> Record) -> [usize; 4] {
    let names = ["a", "b", "c", "d"];
    let all = everybody(&names, &[queues::TURN, &work_topic(None)]);
    let mut shares = [0; 4];
    for n in 0..300 {
        let record = record(n);
        let takes: Vec<usize> = (0..4)
            .filter(|at| all[*at].left_until(names[*at], &record, false, NOW_MS).is_none())
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
    let all = everybody(&names, &[queues::TURN]);
    let (theirs, me) = (message("i", "b"), &all[0]);
    let first = me.left_until("a", &theirs, false, NOW_MS).unwrap();
    assert!((NOW_MS + PATIENCE_MS..=NOW_MS + MOST * PATIENCE_MS).contains(&first));
    assert_eq!(me.left_until("a", &theirs, false, first - 1), Some(first));
    assert_eq!(me.left_until("a", &theirs, false, first), None);
    let more = me.left_until("a", &theirs, true, first);
    assert_eq!(more, Some(NOW_MS + BACKLOG_MS), "there is enough to do");
    let before = me.left_until("a", &theirs, false, NOW_MS - 60_000).unwrap();
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
    assert_eq!(me.left_until("a", &message("i", "b"), false, NOW_MS), None, "no turns");
    let [me, _] = &everybody(&names, &[queues::TURN])[..] else {
        unreachable!()
    };
    assert!(me.left_until("a", &message("i", "b"), false, NOW_MS).is_some());
    assert_eq!(
        me.left_until("a", &message("j", "b"), false, NOW_MS + LIFE_MS),
        None,
        "it is silent"
    );
    me.met_all();
    assert!(me.left_until("a", &message("k", "b"), false, NOW_MS).is_some());
    me.met_all();
    assert_eq!(
        me.left_until("a", &message("l", "b"), false, NOW_MS),
        None,
        "nobody met it"
    );
}

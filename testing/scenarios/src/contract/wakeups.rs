//! Waiters that must wake, and waiters that must not be woken in their place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::{
    DispatcherCapabilityFilter, Provider, ProviderError, SemverRange, SessionFetchConfig, TagFilter, WorkItem,
};
use semver::Version;
use tokio::task::JoinHandle;

use super::kit::*;
use crate::Harness;

type Waiter<T> = JoinHandle<Result<Option<T>, ProviderError>>;

/// A waiter for a turn, already waiting.
async fn turn_waiter(store: Arc<dyn Provider>, filter: Option<DispatcherCapabilityFilter>) -> Waiter<Turn> {
    let waiter = tokio::spawn(async move { store.fetch_orchestration_item(LEASE, LONG, filter.as_ref()).await });
    tokio::time::sleep(ms(20)).await;
    waiter
}

/// A waiter for work, already waiting.
async fn work_waiter(store: Arc<dyn Provider>, session: Option<SessionFetchConfig>, filter: TagFilter) -> Waiter<Work> {
    let waiter = tokio::spawn(async move { store.fetch_work_item(LEASE, LONG, session.as_ref(), &filter).await });
    tokio::time::sleep(ms(20)).await;
    waiter
}

async fn plain_waiter(h: &Harness) -> Waiter<Work> {
    work_waiter(h.store(), None, TagFilter::DefaultOnly).await
}

/// The result of a waiter, which must come soon.
async fn woken<T>(waiter: Waiter<T>, why: &str) -> T {
    let woken = tokio::time::timeout(SOON, waiter)
        .await
        .unwrap_or_else(|_| panic!("not woken by {why}"));
    woken
        .unwrap()
        .unwrap()
        .unwrap_or_else(|| panic!("returned empty-handed, in spite of {why}"))
}

/// A new message and new work wake at once.
pub async fn an_arrival_wakes(h: &Harness) {
    let (turn, work) = (turn_waiter(h.store(), None).await, plain_waiter(h).await);
    send(&*h.store(), start("i")).await;
    assert_eq!(woken(turn, "a start").await.0.instance, "i");
    push(&*h.store(), activity("i", 7)).await;
    assert_eq!(id_of(&woken(work, "work").await.0), 7);
}

/// An ack wakes the dispatchers that wait for what it creates: work, and messages for its own and for other instances.
pub async fn an_ack_wakes(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    let (one, two) = (turn_waiter(h.store(), None).await, turn_waiter(h.store(), None).await);
    let work = plain_waiter(h).await;
    let ack = Ack::first("i")
        .work([activity("i", 7)])
        .messages([raised("i", "own"), start("child")]);
    ack.send(&*store, &token).await.unwrap();
    let (work, token, _) = woken(work, "work of an ack").await;
    assert_eq!(id_of(&work), 7);
    let mut turns = [
        woken(one, "a message of an ack").await.0.instance,
        woken(two, "a message").await.0.instance,
    ];
    turns.sort_unstable();
    assert_eq!(turns, ["child", "i"]);
    let again = turn_waiter(h.store(), None).await;
    send(&*store, start("j")).await;
    let (_, turn, _) = woken(again, "a start").await;
    Ack::first("j").send(&*store, &turn).await.unwrap();
    let completion = turn_waiter(h.store(), None).await;
    store.ack_work_item(&token, Some(completed("j", 7))).await.unwrap();
    assert_eq!(woken(completion, "a completion").await.0.messages, [completed("j", 7)]);
}

/// The end of a turn wakes for the messages that came meanwhile.
pub async fn the_end_of_a_turn_wakes_for_what_came_meanwhile(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    let waiter = turn_waiter(h.store(), None).await;
    send(&*store, raised("i", "meanwhile")).await;
    tokio::time::sleep(ms(30)).await;
    assert!(!waiter.is_finished(), "a turn of a locked instance was handed out");
    Ack::first("i").send(&*store, &token).await.unwrap();
    assert_eq!(
        woken(waiter, "the end of the turn").await.0.messages,
        [raised("i", "meanwhile")]
    );
}

/// A moment just before the clock's next millisecond: counting whole milliseconds from here is too soon by almost one.
fn late_in_a_millisecond() -> Instant {
    let told_ms = clock_ms();
    while clock_ms() == told_ms {
        std::hint::spin_loop();
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(900) {
        std::hint::spin_loop();
    }
    Instant::now()
}

/// What comes due wakes: a timer of an ack, a delayed message, delayed work; and not before.
pub async fn what_comes_due_wakes(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    let waiter = turn_waiter(h.store(), None).await;
    let fire_at_ms = clock_ms() + 250;
    let timer = WorkItem::TimerFired {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 2,
        fire_at_ms,
    };
    Ack::first("i")
        .messages([timer.clone()])
        .send(&*store, &token)
        .await
        .unwrap();
    let (item, ..) = woken(waiter, "a timer").await;
    assert_eq!(item.messages, [timer]);
    assert!(clock_ms() >= fire_at_ms, "a timer fired early");

    let waiter = turn_waiter(h.store(), None).await;
    let begun = late_in_a_millisecond();
    store.enqueue_for_orchestrator(start("j"), Some(ms(250))).await.unwrap();
    assert_eq!(woken(waiter, "a delayed message").await.0.instance, "j");
    assert!(begun.elapsed() >= ms(250));

    push(&*store, activity("i", 7)).await;
    let (_, token, _) = work(&*store).await;
    let waiter = plain_waiter(h).await;
    let begun = late_in_a_millisecond();
    store.abandon_work_item(&token, Some(ms(250)), false).await.unwrap();
    assert_eq!(woken(waiter, "delayed work").await.2, 2);
    assert!(begun.elapsed() >= ms(250));
}

/// The end of a lease wakes waiting dispatchers, on both queues.
pub async fn the_end_of_a_lease_wakes(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    push(&*store, activity("i", 7)).await;
    store
        .fetch_orchestration_item(ms(250), NOW, None)
        .await
        .unwrap()
        .unwrap();
    store
        .fetch_work_item(ms(250), NOW, None, &TagFilter::DefaultOnly)
        .await
        .unwrap()
        .unwrap();
    let (turn, work) = (turn_waiter(h.store(), None).await, plain_waiter(h).await);
    assert_eq!(woken(turn, "the end of a lease").await.2, 2);
    assert_eq!(woken(work, "the end of a lease").await.2, 2);
}

/// Abandoned work wakes a waiter, on both queues.
pub async fn what_is_given_back_wakes(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    push(&*store, activity("i", 7)).await;
    let ((_, turn, _), (_, work, _)) = (turn(&*store).await, work(&*store).await);
    let (turns, works) = (turn_waiter(h.store(), None).await, plain_waiter(h).await);
    store.abandon_orchestration_item(&turn, None, false).await.unwrap();
    store.abandon_work_item(&work, None, true).await.unwrap();
    assert_eq!(woken(turns, "a turn given back").await.2, 2);
    assert_eq!(woken(works, "work given back").await.2, 1);
}

/// The end of a session's lease wakes the next owner.
pub async fn the_end_of_a_session_wakes(h: &Harness) {
    let store = h.store();
    push(&*store, routed("i", 1, Some("s"), None)).await;
    push(&*store, routed("i", 2, Some("s"), None)).await;
    let brief = SessionFetchConfig {
        owner_id: "first".to_owned(),
        lock_timeout: ms(250),
    };
    store
        .fetch_work_item(LEASE, NOW, Some(&brief), &TagFilter::DefaultOnly)
        .await
        .unwrap()
        .unwrap();
    let heir = work_waiter(h.store(), Some(owner("second")), TagFilter::DefaultOnly).await;
    assert_eq!(id_of(&woken(heir, "the end of a session").await.0), 2);
}

/// Waiters for other tags do not swallow the wake-up of the right one.
pub async fn other_tags_do_not_swallow_a_wake_up(h: &Harness) {
    let mut others = Vec::new();
    for tag in ["a", "b", "c", "d"] {
        others.push(work_waiter(h.store(), None, TagFilter::tags([tag])).await);
        others.push(plain_waiter(h).await);
    }
    let right = work_waiter(h.store(), None, TagFilter::tags(["right"])).await;
    push(&*h.store(), routed("i", 7, None, Some("right"))).await;
    assert_eq!(id_of(&woken(right, "work of its tag").await.0), 7);
    assert!(
        others.iter().all(|w| !w.is_finished()),
        "a waiter of another tag was handed something"
    );
    others.iter().for_each(JoinHandle::abort);
}

/// Waiters without or with another session do not swallow the wake-up of the session's owner.
pub async fn other_sessions_do_not_swallow_a_wake_up(h: &Harness) {
    let store = h.store();
    push(&*store, routed("i", 1, Some("s"), None)).await;
    store
        .fetch_work_item(LEASE, NOW, Some(&owner("right")), &TagFilter::DefaultOnly)
        .await
        .unwrap()
        .unwrap();
    let mut others = Vec::new();
    for other in ["x", "y", "z"] {
        others.push(work_waiter(h.store(), Some(owner(other)), TagFilter::DefaultOnly).await);
    }
    let right = work_waiter(h.store(), Some(owner("right")), TagFilter::DefaultOnly).await;
    push(&*store, routed("i", 2, Some("s"), None)).await;
    assert_eq!(id_of(&woken(right, "work of its session").await.0), 2);
    assert!(
        others.iter().all(|w| !w.is_finished()),
        "a waiter was handed another's session"
    );
    others.iter().for_each(JoinHandle::abort);
}

fn versions(from: Version, to: Version) -> Option<DispatcherCapabilityFilter> {
    Some(DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![SemverRange::new(from, to)],
    })
}

/// Waiters that cannot replay an instance do not swallow the wake-up of one that can.
pub async fn other_versions_do_not_swallow_a_wake_up(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    let mut others = Vec::new();
    for _ in 0..5 {
        let ancient = versions(Version::new(0, 0, 0), Version::new(0, 0, 9));
        others.push(turn_waiter(h.store(), ancient).await);
    }
    let right = turn_waiter(
        h.store(),
        versions(Version::new(0, 0, 0), duroxide::current_build_version()),
    )
    .await;
    send(&*store, raised("i", "go")).await;
    assert_eq!(woken(right, "a turn of its version").await.0.instance, "i");
    assert!(
        others.iter().all(|w| !w.is_finished()),
        "a waiter was handed what it cannot replay"
    );
    others.iter().for_each(JoinHandle::abort);
}

/// As many arrivals as waiters wake them all.
pub async fn many_arrivals_wake_many_waiters(h: &Harness) {
    let mut waiters = Vec::new();
    for _ in 0..8 {
        waiters.push(turn_waiter(h.store(), None).await);
    }
    for i in 0..8 {
        send(&*h.store(), start(&format!("i{i}"))).await;
    }
    let mut instances = Vec::new();
    for waiter in waiters {
        instances.push(woken(waiter, "one of many starts").await.0.instance);
    }
    instances.sort_unstable();
    assert_eq!(instances, (0..8).map(|i| format!("i{i}")).collect::<Vec<_>>());
}

/// A waiter that nothing wakes waits for its whole timeout and then returns nothing.
pub async fn nothing_wakes_a_waiter_for_nothing(h: &Harness) {
    let store = h.store();
    send(&*store, start("locked")).await;
    turn_of(&*store, "locked").await;
    send(&*store, raised("locked", "x")).await;
    send(&*store, raised("ghost", "x")).await;
    store
        .enqueue_for_orchestrator(start("later"), Some(LEASE))
        .await
        .unwrap();
    push(&*store, routed("i", 1, None, Some("tagged"))).await;
    let begun = late_in_a_millisecond();
    let turn = async {
        assert!(
            store
                .fetch_orchestration_item(LEASE, ms(400), None)
                .await
                .unwrap()
                .is_none()
        );
        begun.elapsed()
    };
    let work = async {
        let anyone = owner("anyone");
        let fetched = store.fetch_work_item(LEASE, ms(400), Some(&anyone), &TagFilter::DefaultOnly);
        assert!(fetched.await.unwrap().is_none());
        begun.elapsed()
    };
    let (turn, work) = tokio::join!(turn, work);
    assert!(
        turn >= ms(400) && work >= ms(400),
        "came back after {turn:?} and {work:?}"
    );
}

//! Fetches that are dropped before they return.

use std::time::Duration;

use duroxide::providers::TagFilter;
use futures::future::join_all;

use super::kit::*;
use crate::{Harness, Program};

/// Polls a future `times` times, then drops it. Gives its output if it was ready by then.
async fn poll_then_drop<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = std::pin::pin!(future);
    for poll in 0..times {
        if let std::task::Poll::Ready(output) = futures::poll!(&mut future) {
            return Some(output);
        }
        if poll % 3 == 2 {
            tokio::time::sleep(ms(1)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
    None
}

/// A waiter that goes away as a turn arrives does not take it along.
pub async fn a_dropped_waiter_takes_no_turn(h: &Harness) {
    let store = h.store();
    for round in 0..10 {
        let instance = format!("i{round}");
        let waiter = poll_then_drop(store.fetch_orchestration_item(LEASE, LONG, None), 1).await;
        assert!(waiter.is_none());
        {
            let mut waiter = store.fetch_orchestration_item(LEASE, LONG, None);
            assert!(futures::poll!(&mut waiter).is_pending());
            send(&*store, start(&instance)).await;
        }
        let fetched = store.fetch_orchestration_item(LEASE, SOON, None).await.unwrap();
        let (item, token, _) = fetched.expect("the turn is lost to a dropped waiter");
        assert_eq!(item.instance, instance);
        Ack::first(&instance).send(&*store, &token).await.unwrap();
    }
}

/// A waiter that goes away as work arrives does not take it along.
pub async fn a_dropped_waiter_takes_no_work(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    for round in 0..10 {
        send(&*store, raised("i", "go")).await;
        let (_, token, _) = turn_of(&*store, "i").await;
        {
            let mut waiter = store.fetch_work_item(LEASE, LONG, None, &TagFilter::DefaultOnly);
            assert!(futures::poll!(&mut waiter).is_pending());
            if round % 2 == 0 {
                Ack::empty()
                    .work([activity("i", round)])
                    .send(&*store, &token)
                    .await
                    .unwrap();
            } else {
                Ack::empty().send(&*store, &token).await.unwrap();
                push(&*store, activity("i", round)).await;
            }
        }
        let fetched = store
            .fetch_work_item(LEASE, SOON, None, &TagFilter::DefaultOnly)
            .await
            .unwrap();
        let (item, token, _) = fetched.expect("the work is lost to a dropped waiter");
        assert_eq!(id_of(&item), round);
        store.ack_work_item(&token, None).await.unwrap();
    }
}

/// A fetch that is dropped at any point, with a turn ready, leaves the turn.
pub async fn a_fetch_dropped_at_any_point_leaves_the_turn(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    for polls in 0..25 {
        let fetched = poll_then_drop(store.fetch_orchestration_item(LEASE, LONG, None), polls).await;
        let again = match fetched {
            Some(fetched) => fetched.unwrap(),
            None => store.fetch_orchestration_item(LEASE, SOON, None).await.unwrap(),
        };
        let (_, token, _) = again.unwrap_or_else(|| panic!("a fetch dropped after {polls} polls took the turn"));
        store.abandon_orchestration_item(&token, None, true).await.unwrap();
    }
}

/// A fetch that is dropped at any point, with work ready, leaves the work, and its session too.
pub async fn a_fetch_dropped_at_any_point_leaves_the_work(h: &Harness) {
    let store = h.store();
    push(&*store, routed("i", 1, Some("s"), Some("t"))).await;
    let filter = TagFilter::tags(["t"]);
    for polls in 0..25 {
        let (first, second) = (owner("first"), owner("second"));
        let fetched = poll_then_drop(store.fetch_work_item(LEASE, LONG, Some(&first), &filter), polls).await;
        let (holder, fetched) = match fetched {
            Some(fetched) => (first, fetched),
            None => {
                let fetched = store.fetch_work_item(LEASE, SOON, Some(&second), &filter).await;
                (second, fetched)
            }
        };
        let (_, token, _) = fetched
            .unwrap()
            .unwrap_or_else(|| panic!("dropped after {polls} polls: the work is gone"));
        store.abandon_work_item(&token, None, true).await.unwrap();
        // Let the session go, for the next round.
        assert_eq!(
            store
                .renew_session_lock(&[&holder.owner_id], ms(1), LEASE)
                .await
                .unwrap(),
            1
        );
        tokio::time::sleep(ms(5)).await;
    }
}

/// Fetches under short time limits, with turns arriving meanwhile, lose nothing.
pub async fn fetches_cut_off_by_a_time_limit_lose_nothing(h: &Harness) {
    let store = h.store();
    for round in 0..60u64 {
        let limit = Duration::from_micros(round * 23);
        let fetch = tokio::time::timeout(limit, store.fetch_orchestration_item(LEASE, LONG, None));
        let instance = format!("i{round}");
        let arrive = send(&*store, start(&instance));
        let (fetched, ()) = tokio::join!(fetch, arrive);
        let fetched = match fetched {
            Ok(fetched) => fetched.unwrap(),
            Err(_) => store.fetch_orchestration_item(LEASE, SOON, None).await.unwrap(),
        };
        let (item, token, _) = fetched.unwrap_or_else(|| panic!("a fetch cut off after {limit:?} lost the turn"));
        assert_eq!(item.instance, instance);
        Ack::first(&instance)
            .status("Completed")
            .send(&*store, &token)
            .await
            .unwrap();
    }
}

/// Work that a dropped fetch may have seen does not count as attempted.
pub async fn a_dropped_fetch_is_no_attempt(h: &Harness) {
    let store = h.store();
    for _ in 0..5 {
        let mut turn = store.fetch_orchestration_item(LEASE, LONG, None);
        let mut work = store.fetch_work_item(LEASE, LONG, None, &TagFilter::DefaultOnly);
        assert!(futures::poll!(&mut turn).is_pending());
        assert!(futures::poll!(&mut work).is_pending());
        drop((turn, work));
    }
    {
        let mut turn = store.fetch_orchestration_item(LEASE, LONG, None);
        let mut work = store.fetch_work_item(LEASE, LONG, None, &TagFilter::DefaultOnly);
        assert!(futures::poll!(&mut turn).is_pending());
        assert!(futures::poll!(&mut work).is_pending());
        send(&*store, start("i")).await;
        push(&*store, activity("i", 1)).await;
    }
    let (.., attempt) = store
        .fetch_orchestration_item(LEASE, SOON, None)
        .await
        .unwrap()
        .expect("the turn");
    assert_eq!(attempt, 1, "a delivery that nobody saw was counted");
    let fetched = store
        .fetch_work_item(LEASE, SOON, None, &TagFilter::DefaultOnly)
        .await
        .unwrap();
    let (.., attempt) = fetched.expect("the work");
    assert_eq!(attempt, 1, "a delivery that nobody saw was counted");
}

/// Of many waiters half go away; the others get all that comes.
pub async fn the_waiters_that_stay_get_everything(h: &Harness) {
    let store = h.store();
    let mut leaving = Vec::new();
    for _ in 0..10 {
        let mut waiter = store.fetch_work_item(LEASE, LONG, None, &TagFilter::DefaultOnly);
        assert!(futures::poll!(&mut waiter).is_pending());
        leaving.push(waiter);
    }
    let staying: Vec<_> = (0..10)
        .map(|_| {
            let store = h.store();
            tokio::spawn(async move { store.fetch_work_item(LEASE, LONG, None, &TagFilter::DefaultOnly).await })
        })
        .collect();
    tokio::time::sleep(ms(20)).await;
    for id in 0..10 {
        push(&*store, activity("i", id)).await;
    }
    drop(leaving);
    let fetched = tokio::time::timeout(SOON, join_all(staying))
        .await
        .expect("the waiters that stay get the work");
    let mut ids: Vec<_> = fetched
        .into_iter()
        .map(|f| id_of(&f.unwrap().unwrap().expect("work").0))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..10).collect::<Vec<_>>());
}

/// A runtime that is killed while it waits, as work arrives, holds nothing back.
pub async fn a_killed_runtime_holds_nothing_back(h: &Harness) {
    let store = h.store();
    for round in 0..5 {
        let node = h
            .runtime(Program::new().options(|o| o.dispatcher_long_poll_timeout = LONG))
            .await;
        tokio::time::sleep(ms(10)).await;
        h.kill(node).await;
        let instance = format!("i{round}");
        send(&*store, start(&instance)).await;
        push(&*store, activity(&instance, 1)).await;
        let (item, token, _) = turn(&*store).await;
        assert_eq!(item.instance, instance);
        Ack::first(&instance).send(&*store, &token).await.unwrap();
        let (_, token, _) = work(&*store).await;
        store.ack_work_item(&token, None).await.unwrap();
    }
}

//! Acknowledgements on a store of one process: they are ordered first, and a promise once they are durable.
//!
//! A process that dies takes those with it that were ordered and not synced: one of them and all after it, none before it.

use crate::facts::{Activity, Turn};
use crate::life::Life;
use crate::scene::Scene;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

tokio::task_local! {
    /// The number of the commit that the current ack has ordered; 0 if it has ordered none.
    static ORDERED: Cell<u64>;
}

/// What an ack promises.
pub enum Promise {
    /// The events of a turn are kept. With the id of the first of them.
    Turn(Turn, u64),
    /// An activity does not run again.
    Result(Activity),
}

/// The acks of one process.
#[derive(Default)]
pub struct Promises {
    ordered: u64,
    durable: u64,
    /// Those that have returned and are not durable, with the numbers of their commits.
    pending: Vec<(u64, Promise)>,
    /// Activities that turns have cancelled.
    pub cancelled: BTreeSet<Activity>,
}

/// Makes an ack; returns its outcome, and the number of the commit that it has ordered.
pub async fn ack<T>(ack: impl Future<Output = T>) -> (T, u64) {
    let ordering = async {
        let outcome = ack.await;
        (outcome, ORDERED.with(Cell::get))
    };
    ORDERED.scope(Cell::new(0), ordering).await
}

/// A commit is being ordered: returns its number.
pub fn order(life: &Life) -> u64 {
    let mut promises = life.promises.lock();
    promises.ordered += 1;
    let number = promises.ordered;
    // A commit that is ordered outside an ack promises nothing here.
    ORDERED.try_with(|ordered| ordered.set(number)).ok();
    number
}

/// That commit was refused.
pub fn refuse(life: &Life) {
    life.promises.lock().ordered -= 1;
    ORDERED.try_with(|ordered| ordered.set(0)).ok();
}

/// A commit is durable, and so is every one before it.
pub fn durable(life: &Life, number: u64) {
    let due = {
        let mut promises = life.promises.lock();
        promises.durable = promises.durable.max(number);
        let pending = std::mem::take(&mut promises.pending);
        let (due, later): (Vec<_>, Vec<_>) = pending.into_iter().partition(|(of, _)| *of <= promises.durable);
        promises.pending = later;
        due
    };
    for (_, promise) in due {
        keep(life, promise);
    }
}

/// An ack has returned. Its commit may be durable by now.
pub fn given(life: &Life, number: u64, promise: Promise) {
    let mut promises = life.promises.lock();
    if number <= promises.durable {
        drop(promises);
        return keep(life, promise);
    }
    let twice = promises.pending.iter().any(|(_, other)| other.is_same(&promise));
    promises.pending.push((number, promise));
    drop(promises);
    if twice {
        life.scene
            .blame("an ack was given twice before it was durable".to_owned());
    }
}

/// Whether the result of an activity was acknowledged by this process and is not durable yet.
pub fn is_pending(life: &Life, activity: &Activity) -> bool {
    let promises = life.promises.lock();
    let is_result = |promise: &Promise| matches!(promise, Promise::Result(result) if result == activity);
    promises.pending.iter().any(|(_, promise)| is_result(promise))
}

impl Promise {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Turn(one, first), Self::Turn(other, its_first)) => {
                (&one.0, one.1, first) == (&other.0, other.1, its_first)
            }
            (Self::Result(one), Self::Result(other)) => one == other,
            _ => false,
        }
    }
}

/// From now on the promise must be kept.
fn keep(life: &Life, promise: Promise) {
    let scene: &Scene = &life.scene;
    match promise {
        Promise::Turn(turn, first_event) => {
            let place = (turn.0.clone(), turn.1, first_event);
            let mut facts = scene.facts.lock();
            facts.turns.push(turn);
            let is_first = facts.first_events.insert(place.clone());
            drop(facts);
            if !is_first {
                scene.blame(format!("the turn {place:?} was acknowledged twice"));
            }
        }
        Promise::Result(activity) => {
            let wall = Arc::clone(&life.wall);
            let before = scene.facts.lock().results.insert(activity.clone(), wall);
            if before.is_some() {
                scene.blame(format!("activity {activity:?} was acknowledged twice"));
            }
        }
    }
}

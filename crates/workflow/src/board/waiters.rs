//! Dispatchers that wait for work.
//!
//! Work is never assigned to a waiter: a waiter is woken and takes the work itself, in one step under the
//! board's lock. So a fetch that is dropped can lose nothing; one that was woken and dropped wakes the next.
//! One waiter keeps watch: it sleeps until the next alarm, all the rest only until their own deadline.

use super::work::WorkWant;
use super::{Pin, Window};
use crate::mutation::mutant;
use duroxide::providers::TagFilter;
use std::sync::Arc;
use tokio::sync::Notify;

/// What a waiter waits for.
#[derive(Clone, Debug)]
pub enum Want {
    /// A turn that these versions may run.
    Turn(Window),
    /// An activity.
    Work(WorkWant),
}

impl Want {
    /// The versions that a dispatcher runs.
    pub fn window(&self) -> Option<&Window> {
        match self {
            Self::Turn(window) => Some(window),
            Self::Work(_) => None,
        }
    }
}

struct Waiter {
    id: u64,
    want: Want,
    bell: Arc<Notify>,
    woken: bool,
}

/// All waiters, longest waiting first.
#[derive(Default)]
pub struct Waiters {
    waiters: Vec<Waiter>,
    made: u64,
    watch: Option<u64>,
    watch_until_ms: Option<u64>,
}

impl Waiters {
    /// How many waiters there are.
    #[cfg(feature = "testing")]
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Adds a waiter.
    pub fn join(&mut self, want: Want) -> (u64, Arc<Notify>) {
        self.made += 1;
        let bell = Arc::new(Notify::new());
        self.waiters.push(Waiter {
            id: self.made,
            want,
            bell: Arc::clone(&bell),
            woken: false,
        });
        if self.watch.is_none() {
            self.watch = Some(self.made);
            self.watch_until_ms = None;
        }
        (self.made, bell)
    }

    /// Removes a waiter; returns whether it had been woken. If it kept watch, another one takes over.
    pub fn leave(&mut self, id: u64) -> bool {
        let Some(at) = self.waiters.iter().position(|waiter| waiter.id == id) else {
            return false;
        };
        let woken = self.waiters.remove(at).woken;
        if self.watch == Some(id) {
            self.watch_until_ms = None;
            self.watch = self.waiters.last().map(|waiter| {
                waiter.bell.notify_one();
                waiter.id
            });
        }
        woken
    }

    /// A waiter has looked for work, under the same lock, and found none: it may be woken again.
    pub fn found_nothing(&mut self, id: u64) {
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.id == id) {
            waiter.woken = false;
        }
    }

    /// A waiter goes to sleep; returns the alarm that must wake it. Only the waiter that keeps watch has one.
    pub fn sleep(&mut self, id: u64, next_alarm_ms: Option<u64>) -> Option<u64> {
        if self.watch != Some(id) {
            return None;
        }
        self.watch_until_ms = next_alarm_ms;
        next_alarm_ms
    }

    /// An alarm was set: the waiter that keeps watch must wake for it if it rings earlier than the one it sleeps for.
    pub fn alarm_set(&mut self, at_ms: u64) {
        let Some(watch) = self.watch else { return };
        if self.watch_until_ms.is_some_and(|until| until <= at_ms) {
            return;
        }
        self.watch_until_ms = Some(at_ms);
        if let Some(waiter) = self.waiters.iter().find(|waiter| waiter.id == watch) {
            waiter.bell.notify_one();
        }
    }

    /// Whether a sleeping waiter wants this.
    pub fn any_asleep(&self, wanted: impl Fn(&Want) -> bool) -> bool {
        self.waiters.iter().any(|waiter| !waiter.woken && wanted(&waiter.want))
    }

    /// What the sleeping workers serve.
    pub fn workers_asleep(&self) -> Vec<&TagFilter> {
        self.waiters
            .iter()
            .filter(|waiter| !waiter.woken)
            .filter_map(|waiter| match &waiter.want {
                Want::Work(want) => Some(&want.tags),
                Want::Turn(_) => None,
            })
            .collect()
    }

    /// What all waiters want.
    pub fn wants(&self) -> impl Iterator<Item = &Want> {
        self.waiters.iter().map(|waiter| &waiter.want)
    }

    /// Wakes the first sleeping waiter that wants a turn with this pin; returns whether there was one.
    pub fn wake_for_turn(&mut self, pin: &Pin) -> bool {
        self.wake(|want| matches!(want, Want::Turn(window) if window.admits(pin)))
    }

    /// Wakes the first sleeping waiter that wants this; returns whether there was one.
    pub fn wake(&mut self, wanted: impl Fn(&Want) -> bool) -> bool {
        let sleeper = self
            .waiters
            .iter_mut()
            .find(|waiter| !waiter.woken && wanted(&waiter.want));
        match sleeper {
            None => false,
            Some(waiter) => {
                waiter.woken = true;
                mutant!(ForgetWakeUp, {}, waiter.bell.notify_one());
                true
            }
        }
    }

    /// Wakes every sleeping waiter that wants this.
    pub fn wake_all(&mut self, wanted: impl Fn(&Want) -> bool) {
        for waiter in self
            .waiters
            .iter_mut()
            .filter(|waiter| !waiter.woken && wanted(&waiter.want))
        {
            waiter.woken = true;
            waiter.bell.notify_one();
        }
    }
}

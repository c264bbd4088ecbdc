//! The board: all work that waits or runs, in memory.
//!
//! On a store that belongs to this process alone, the board is complete: it is filled when the store is opened
//! and every commit updates it. Claims live here and nowhere else, so handing work out costs no write; a
//! process that dies takes its claims with it. Everything here happens under one lock and never waits.

mod alarms;
mod claims;
mod coalesce;
mod duration_estimate;
mod hints;
mod known;
mod mailbox;
mod marks;
mod pin;
mod reserve;
mod sessions;
mod steps;
mod turns;
mod waiters;
mod work;

pub use claims::{Claim, Handed, Subject};
pub use hints::{Covered, Hint};
pub use mailbox::{Body, MessageKind, QueuedMessage};
pub use marks::Mark;
pub use pin::{Pin, Window};
pub use reserve::{PendingClaim, Reservation};
pub use sessions::Tenure;
pub use waiters::Want;
pub use work::{QueuedActivity, WorkWant};

use crate::meters::Meters;
use crate::order::arrived_ms;
use alarms::{Alarm, AlarmKey, Alarms};
use duroxide::providers::TagFilter;
use parking_lot::{Mutex, MutexGuard};
use perennial_store::{Clock, Order};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Names a claim, within one opening of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId(u64);

/// What the lock protects.
pub struct Inner {
    turns: turns::Turns,
    work: work::Work,
    sessions: sessions::Sessions,
    alarms: Alarms,
    waiters: waiters::Waiters,
    claims: HashMap<ClaimId, Claim>,
    claims_made: u64,
    /// The time of the latest access.
    seen_ms: u64,
    /// How many messages to an instance are being stored and not posted yet.
    arriving: HashMap<Arc<str>, usize>,
    /// Instances that are being deleted, with how many deletions.
    deleting: HashMap<Arc<str>, usize>,
    /// Instances that a commit under way may claim.
    pending_claim: HashSet<Arc<str>>,
    /// Records that are gone, on a shared store.
    recent: Option<known::Recent>,
    /// Instances that other processes were found to work on.
    elsewhere: hints::Elsewhere,
    /// How long activities take.
    pub duration_estimate: duration_estimate::DurationEstimate,
    meters: Arc<Meters>,
}

/// All work that waits or runs.
pub struct Board {
    inner: Mutex<Inner>,
    clock: Arc<dyn Clock>,
    /// Part of every token, so that a token of an earlier opening is never mistaken for one of this.
    epoch: u64,
}

impl Inner {
    fn set_alarm(&mut self, at_ms: u64, alarm: Alarm) -> AlarmKey {
        let key = self.alarms.set(at_ms, alarm);
        self.waiters.alarm_set(at_ms);
        key
    }

    /// Lets everything happen that is due by now.
    pub fn advance(&mut self, now_ms: u64) {
        while let Some(alarm) = self.alarms.ring(now_ms) {
            match alarm {
                Alarm::QueuedMessage(instance, order) => self.reveal(&instance, order),
                Alarm::Coalesced(instance) => {
                    self.stop_coalescing(&instance);
                    self.refresh(&instance);
                }
                Alarm::QueuedActivity(order) => self.reveal_task(order, now_ms),
                Alarm::Claim(claim) => self.claim_alarm(claim, now_ms),
                Alarm::Session(session) => self.session_alarm(&session, now_ms),
            }
        }
    }

    /// All messages.
    pub fn turns(&self) -> &turns::Turns {
        &self.turns
    }

    /// All activities.
    pub fn work(&self) -> &work::Work {
        &self.work
    }

    /// All sessions.
    pub fn sessions(&mut self) -> &mut sessions::Sessions {
        &mut self.sessions
    }

    /// A claim, whatever its state.
    pub fn claim(&mut self, id: ClaimId) -> Option<&mut Claim> {
        self.claims.get_mut(&id)
    }

    /// How many claims there are, whatever their state.
    #[cfg(feature = "testing")]
    pub fn claims(&self) -> usize {
        self.claims.len()
    }

    /// The size of every auxiliary collection.
    #[cfg(feature = "testing")]
    pub fn bookkeeping(&self) -> [(&'static str, usize); 5] {
        let ready = usize::from(self.turns.is_any_ready()) + usize::from(self.work.is_any_ready());
        [
            ("alarms", self.alarms.len()),
            ("sessions", self.sessions.len()),
            ("ready", ready + self.turns.coalescing.len()),
            ("waiters", self.waiters.len()),
            ("arriving", self.arriving.len()),
        ]
    }

    /// Whether a commit is under way that relies on a claim on one of these instances or their activities, or that sends
    /// one of them a message.
    pub fn is_committing(&self, instances: &BTreeSet<String>) -> bool {
        if self.arriving.keys().any(|instance| instances.contains(&**instance)) {
            return true;
        }
        let mut under_way = self.claims.values().filter(|claim| claim.committing);
        under_way.any(|claim| match &claim.subject {
            Subject::Turn { instance, .. } => instances.contains(&**instance),
            Subject::Work { order } => {
                let queued = self.work.activity(*order);
                queued.is_some_and(|queued| instances.contains(&*queued.activity.instance))
            }
        })
    }

    /// Messages and activities that are not claimed.
    pub fn depths(&self, now_ms: u64) -> (usize, usize) {
        let mut messages = self.turns.len();
        let mut activities = self.work.len();
        for claim in self
            .claims
            .values()
            .filter(|claim| claim.until_ms > now_ms || claim.committing)
        {
            match &claim.subject {
                Subject::Turn { handed, .. } => messages = messages.saturating_sub(handed.len()),
                Subject::Work { .. } => activities = activities.saturating_sub(1),
            }
        }
        (messages, activities)
    }

    /// How long the oldest ready message and activity have waited, in seconds; 0 if there is none.
    pub fn oldest_ready(&self, now_ms: u64) -> (f64, f64) {
        let age = |order: Option<Order>| order.map_or(0.0, |order| waited(order, 0, now_ms));
        let turn = self.turns.first(|_| true).map(|(order, _)| order);
        let everyone = WorkWant {
            tags: TagFilter::Any,
            owner: None,
        };
        let work = [
            work::first(&self.work, &self.sessions, &everyone, now_ms),
            self.sessions.oldest(),
        ];
        (age(turn), age(work.into_iter().flatten().min()))
    }

    /// A waiter has looked for work and found none.
    pub fn found_nothing(&mut self, waiting: Option<&Waiting>) {
        if let Some(waiting) = waiting {
            self.waiters.found_nothing(waiting.id);
        }
    }

    /// A waiter that was woken has left: if work is still ready, another waiter must be woken.
    fn pass_on(&mut self, now_ms: u64) {
        let Self {
            waiters,
            turns,
            work,
            sessions,
            ..
        } = self;
        if turns.is_any_ready() {
            waiters
                .wake_all(|want| matches!(want, Want::Turn(window) if turns.first(|pin| window.admits(pin)).is_some()));
        }
        if work.is_any_ready() || sessions.is_any_ready() {
            let admits = |want: &WorkWant| work::first(work, sessions, want, now_ms).is_some();
            waiters.wake_all(|want| matches!(want, Want::Work(want) if admits(want)));
        }
    }
}

/// How long work has waited that arrived at `order` and was due at `due_ms`, in seconds.
pub fn waited(order: Order, due_ms: u64, now_ms: u64) -> f64 {
    let since_ms = arrived_ms(order).max(due_ms);
    now_ms.saturating_sub(since_ms) as f64 / 1_000.0
}

impl Board {
    /// An empty board.
    pub fn new(clock: Arc<dyn Clock>, epoch: u64, shared: bool, meters: Arc<Meters>) -> Self {
        let inner = Inner {
            turns: turns::Turns::default(),
            work: work::Work::default(),
            sessions: sessions::Sessions::default(),
            alarms: Alarms::default(),
            waiters: waiters::Waiters::default(),
            claims: HashMap::new(),
            claims_made: 0,
            seen_ms: 0,
            arriving: HashMap::new(),
            deleting: HashMap::new(),
            pending_claim: HashSet::new(),
            recent: shared.then(known::Recent::default),
            elsewhere: hints::Elsewhere::default(),
            duration_estimate: duration_estimate::DurationEstimate::default(),
            meters,
        };
        Self {
            inner: Mutex::new(inner),
            clock,
            epoch,
        }
    }

    /// Takes the lock, and the time.
    pub fn lock(&self) -> (MutexGuard<'_, Inner>, u64) {
        let mut guard = self.inner.lock();
        let now_ms = self.clock.now_ms();
        guard.see(now_ms);
        (guard, now_ms)
    }

    /// The token that names a claim to the outside.
    pub fn token(&self, id: ClaimId) -> String {
        format!("{:x}-{:x}", self.epoch, id.0)
    }

    /// The claim that a token names, if it is of this opening.
    pub fn claim_of(&self, token: &str) -> Option<ClaimId> {
        let (epoch, id) = token.split_once('-')?;
        let id = u64::from_str_radix(id, 16).ok()?;
        (u64::from_str_radix(epoch, 16).ok()? == self.epoch).then_some(ClaimId(id))
    }

    /// Starts to wait. The caller must look for work once more before the first [`Waiting::sleep`].
    pub fn wait(self: &Arc<Self>, want: Want) -> Waiting {
        let (id, bell) = self.inner.lock().waiters.join(want);
        Waiting {
            board: Arc::clone(self),
            id,
            bell,
        }
    }
}

/// A place in the line of waiters; leaves the line when it is dropped.
pub struct Waiting {
    board: Arc<Board>,
    id: u64,
    bell: Arc<Notify>,
}

impl Waiting {
    /// Sleeps until woken, until an alarm rings that this waiter watches for, or until the deadline.
    pub async fn sleep(&self, deadline_ms: u64) {
        let until_ms = {
            let (mut inner, _) = self.board.lock();
            let next = inner.alarms.next_ms();
            inner
                .waiters
                .sleep(self.id, next)
                .map_or(deadline_ms, |alarm| alarm.min(deadline_ms))
        };
        let wait_ms = until_ms.saturating_sub(self.board.clock.now_ms());
        tokio::select! {
            biased;
            () = self.bell.notified() => {}
            () = self.board.clock.sleep(Duration::from_millis(wait_ms)) => {}
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let (mut inner, now_ms) = self.board.lock();
        if inner.waiters.leave(self.id) {
            inner.pass_on(now_ms);
        }
    }
}

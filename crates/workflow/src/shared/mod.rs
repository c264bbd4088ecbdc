//! What it takes where many processes share one store.
//!
//! There a claim must be visible to all: it is a conditional write, to the head of an instance or to the record of an
//! activity. What other processes queue is found by polling. What this process queues goes to its own dispatchers through
//! memory, claimed by the very commit that creates it, if one of them waits for it. The board holds what this process
//! knows of; all of it is a hint until it is claimed.

mod affinity;
mod arrival_claim;
pub mod batcher;
mod handover;
mod members;
mod poll;
mod poller;
mod read;
mod renewal;
mod send;
pub mod turn;
pub mod work;

use affinity::{Affinity, affinity_of};
pub use arrival_claim::{Arrival, ArrivalClaim, deliver, known_version, receive};
use batcher::Batcher;
pub use members::{Members, meet};
pub use poller::{Poller, poll_first, poll_now, refresh_foreign, watch};
pub use read::{confirmed, is_consistent, is_surely_absent};
pub use send::{create_messages, send};
use work::{HeldSessions, ReservationReaper};

use crate::engine::{Engine, later};
use crate::mutation::mutant;
use crate::records::head::Lease;
use crate::records::lanes;
use crate::records::work::Activity;
use crate::settings::Settings;
use crate::tuning::LEASE_SLACK;
use perennial_store::{Error, Order, Result, Stamps};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What an engine keeps for a store that it shares.
pub struct Shared {
    /// The name of this process in leases and in ids of its records.
    pub owner: Arc<str>,
    /// A number that differs in every process.
    pub seed: u64,
    /// Marks this process's commits, to tell them from all others.
    pub stamps: Stamps,
    /// Joins commits to one partition.
    pub batcher: Batcher,
    /// Polls the store for work.
    pub poller: Poller,
    /// The other processes that work on the store.
    pub members: Members,
    /// Sessions that workers of this process hold.
    pub sessions: HeldSessions,
    /// Releases activities that were claimed in advance and not used.
    pub reaper: ReservationReaper,
    turn_lock_ms: AtomicU64,
    work_lock_ms: AtomicU64,
}

impl Shared {
    /// This process, among many.
    pub fn new(settings: &Settings) -> Self {
        let seed = settings
            .process_seed
            .unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let owner: Arc<str> = Arc::from(format!("{seed:016x}"));
        Self {
            stamps: Stamps::new(Arc::clone(&owner)),
            owner,
            seed,
            batcher: Batcher::default(),
            poller: Poller::default(),
            members: Members::default(),
            sessions: HeldSessions::default(),
            reaper: ReservationReaper::default(),
            turn_lock_ms: AtomicU64::new(0),
            work_lock_ms: AtomicU64::new(0),
        }
    }

    /// A lease of `lock` plus up to 1 s slack, so that it may be handed out late.
    pub fn lease(&self, now_ms: u64, lock: Duration) -> Lease {
        Lease {
            owner: Arc::clone(&self.owner),
            until_ms: until(now_ms, lock),
        }
    }

    /// Whether another process is preferred for an activity. One of a session is its holder's.
    pub fn is_foreign(&self, activity: &Activity, order: Order, now_ms: u64) -> bool {
        let by_order = || {
            let topic = lanes::work_topic(activity.tag.as_deref());
            self.members.is_foreign(&self.owner, &topic, order, now_ms)
        };
        activity.session.is_none() && by_order()
    }

    /// The lease that dispatchers ask for; 0 if none has come yet.
    pub fn turn_lock(&self) -> Duration {
        Duration::from_millis(self.turn_lock_ms.load(Ordering::Relaxed))
    }

    /// Remembers the lease that a dispatcher asks for.
    pub fn saw_turn_lock(&self, lock: Duration) {
        self.turn_lock_ms.store(crate::engine::millis(lock), Ordering::Relaxed);
    }

    /// The lease that workers ask for; 0 if none has come yet.
    pub fn work_lock(&self) -> Duration {
        Duration::from_millis(self.work_lock_ms.load(Ordering::Relaxed))
    }

    /// Remembers the lease that a worker asks for.
    pub fn saw_work_lock(&self, lock: Duration) {
        self.work_lock_ms.store(crate::engine::millis(lock), Ordering::Relaxed);
    }
}

/// When a lease taken now ends for other processes, if it may be handed out for `lock` a little later.
pub fn until(now_ms: u64, lock: Duration) -> u64 {
    later(later(now_ms, lock), LEASE_SLACK.min(lock / 4))
}

/// Whether a lease that ends for other processes at `until_ms` can still be handed out for `lock`.
pub fn lasts(until_ms: u64, now_ms: u64, lock: Duration) -> bool {
    until_ms >= later(now_ms, lock)
}

/// Begins to work on a store, or refuses one that cannot serve.
pub fn open(engine: &Engine) -> Result<()> {
    let ops = engine.store.limits().ops_per_commit;
    if ops < 16 {
        let why = format!("the workflow engine needs a store that commits 16 operations at once; this one takes {ops}");
        return Err(Error::Invalid(why));
    }
    engine.outbox.open();
    Ok(())
}

/// Releases what was claimed and not handed out, so that other processes need not wait for it, and withdraws the announcement
/// of this one.
pub async fn leave(engine: &Arc<Engine>, shared: &Arc<Shared>) -> Result<()> {
    mutant!(HangOnClose, std::future::pending::<()>().await);
    work::release_unused(engine, shared, u64::MAX).await;
    let reserved = engine.board.lock().0.take_reservations();
    for (instance, reservation) in reserved {
        turn::release(engine, &instance, &reservation.snapshot).await?;
    }
    members::leave(engine, shared).await;
    Ok(())
}

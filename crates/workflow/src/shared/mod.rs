//! What it takes where many processes share one store.
//!
//! There a claim must be seen by all: it is a conditional write, to the head of an instance or to the record of an
//! activity. What others queue is found by asking. What this process lanes goes to its own dispatchers through
//! memory, claimed by the very commit that makes it, if one of them waits for it. The board holds what this process
//! knows of; all of it is a hint until it is claimed.

mod affinity;
mod arrival_claim;
pub mod batcher;
mod handover;
mod members;
mod poll;
mod poller;
mod renewal;

use affinity::{Affinity, affinity_of};
pub use arrival_claim::{Arrival, ArrivalClaim, deliver, known_version, receive};
use batcher::Batcher;
pub use handover::see_through;
pub use members::{Members, meet};
pub use poller::{Poller, make_sure, poll_first, poll_now, watch};
pub use renewal::prolonged;

use crate::engine::{Engine, later};
use crate::mutation::mutant;
use crate::records::head::Lease;
use crate::records::lanes;
use crate::settings::Settings;
use crate::work::{HeldSessions, ReservationReaper, give_back};
use perennial_store::{Error, Order, Result, Stamps};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much longer a lease lasts for others than for who holds it: what is claimed before it is handed out may wait so
/// long for that.
const SLACK: Duration = Duration::from_secs(1);

/// What an engine keeps for a store that it shares.
pub struct Shared {
    /// The name of this process in leases and in ids of its records.
    pub owner: Arc<str>,
    /// A number that is another one in every process.
    pub seed: u64,
    /// What tells this process's commits from all others.
    pub stamps: Stamps,
    /// Commits that are made together.
    pub batcher: Batcher,
    /// Who asks the store for work.
    pub poller: Poller,
    /// Who else works on the store.
    pub members: Members,
    /// Sessions that workers of this process hold.
    pub sessions: HeldSessions,
    /// Who gives back activities that were claimed for nobody.
    pub reaper: ReservationReaper,
    turn_lock_ms: AtomicU64,
    work_lock_ms: AtomicU64,
}

impl Shared {
    /// A process among many.
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

    /// A lease on an instance that lasts for `lock`, counted from any moment of the next second.
    pub fn lease(&self, now_ms: u64, lock: Duration) -> Lease {
        Lease {
            owner: Arc::clone(&self.owner),
            until_ms: until(now_ms, lock),
        }
    }

    /// Whether an activity is another process's to work at, as far as it is anybody's.
    pub fn is_foreign(&self, tag: Option<&str>, order: Order, now_ms: u64) -> bool {
        let topic = lanes::work_topic(tag);
        self.members.is_foreign(&self.owner, &topic, order, now_ms)
    }

    /// For how long dispatchers want turns.
    pub fn turn_lock(&self) -> Duration {
        Duration::from_millis(self.turn_lock_ms.load(Ordering::Relaxed))
    }

    /// Remembers for how long a dispatcher wants turns.
    pub fn saw_turn_lock(&self, lock: Duration) {
        self.turn_lock_ms.store(crate::engine::millis(lock), Ordering::Relaxed);
    }

    /// For how long workers want activities.
    pub fn work_lock(&self) -> Duration {
        Duration::from_millis(self.work_lock_ms.load(Ordering::Relaxed))
    }

    /// Remembers for how long a worker wants activities.
    pub fn saw_work_lock(&self, lock: Duration) {
        self.work_lock_ms.store(crate::engine::millis(lock), Ordering::Relaxed);
    }
}

/// When a lease ends for others that was taken now and lasts for `lock` from when it is handed out.
pub fn until(now_ms: u64, lock: Duration) -> u64 {
    later(later(now_ms, lock), SLACK.min(lock / 4))
}

/// Whether a lease that ends for others at `until_ms` can still be handed out for `lock`.
pub fn lasts(until_ms: u64, now_ms: u64, lock: Duration) -> bool {
    until_ms >= later(now_ms, lock)
}

/// Begins to work on a store, or refuses one that cannot serve.
pub fn check(engine: &Engine) -> Result<()> {
    let ops = engine.store.limits().ops_per_commit;
    if ops < 16 {
        let why = format!("the workflow engine needs a store that commits 16 operations at once; this one takes {ops}");
        return Err(Error::Invalid(why));
    }
    engine.outbox.open();
    Ok(())
}

/// Gives back what was claimed and not handed out, so that others need not wait for it, and takes leave of them.
pub async fn leave(engine: &Arc<Engine>) -> Result<()> {
    mutant!(HangOnClose, std::future::pending::<()>().await);
    give_back(engine, u64::MAX).await;
    let reserved = engine.board.lock().0.take_reservations();
    for (instance, reservation) in reserved {
        crate::turn::release(engine, &instance, &reservation.snapshot).await?;
    }
    members::leave(engine).await;
    Ok(())
}

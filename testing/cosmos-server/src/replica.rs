//! A replica that lags behind.

use azure_data_cosmos_driver::in_memory_emulator::EmulatorStore;
use parking_lot::Mutex;
use perennial_store::Clock;
use std::fmt;
use std::sync::Arc;
use tokio::sync::{RwLock, RwLockReadGuard};

/// A replica that serves reads and lags behind, as one of a real account may.
///
/// While it lags, point reads, queries and feeds return the state of its last catch-up, all documents as of the same
/// moment, unless the request carries a session token that is ahead of it or demands the latest committed state: then
/// the up-to-date replica serves it. Writes, and the conditions in them, always meet the up-to-date replica.
///
/// There is one only if [`crate::Options::replica`] says so.
pub struct Replica {
    store: Arc<EmulatorStore>,
    region: &'static str,
    clock: Arc<dyn Clock>,
    /// Held shared by every request, and alone while the replica catches up, so that no request sees half a catch-up.
    gate: RwLock<()>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// How old its view may become; nothing while it does not lag.
    lag_ms: Option<u64>,
    /// When it last caught up.
    at_ms: u64,
    answered: u64,
}

impl Replica {
    pub(crate) fn new(store: Arc<EmulatorStore>, region: &'static str, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            region,
            clock,
            gate: RwLock::new(()),
            state: Mutex::default(),
        }
    }

    /// From now on reads may be this old; `u64::MAX` freezes what they see.
    pub async fn lag(&self, lag_ms: u64) {
        let _alone = self.gate.write().await;
        self.refresh();
        self.state.lock().lag_ms = Some(lag_ms);
    }

    /// Lets reads see everything up to now; the lag stays in force.
    pub async fn catch_up(&self) {
        let _alone = self.gate.write().await;
        if self.lags() {
            self.refresh();
        }
    }

    /// Reads are up to date from now on.
    pub async fn keep_up(&self) {
        let _alone = self.gate.write().await;
        self.state.lock().lag_ms = None;
        self.store.resume_replication(self.region);
    }

    /// How many requests it served while it lagged.
    pub fn answered(&self) -> u64 {
        self.state.lock().answered
    }

    fn refresh(&self) {
        self.store.resume_replication(self.region);
        self.store.pause_replication(self.region);
        self.state.lock().at_ms = self.clock.now_ms();
    }

    pub(crate) fn lags(&self) -> bool {
        self.state.lock().lag_ms.is_some()
    }

    pub(crate) async fn share(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// Catches up if its view has become too old.
    pub(crate) async fn stay_within_lag(&self) {
        let state = *self.state.lock();
        let age_ms = self.clock.now_ms().saturating_sub(state.at_ms);
        if state.lag_ms.is_some_and(|lag_ms| age_ms >= lag_ms) {
            self.catch_up().await;
        }
    }

    pub(crate) fn count_answer(&self) {
        self.state.lock().answered += 1;
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("state", &*self.state.lock()).finish()
    }
}

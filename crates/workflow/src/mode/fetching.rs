//! How the two modes fetch turns and activities.

use super::Mode;
use crate::board::{Want, Window, WorkWant};
use crate::engine::Engine;
use crate::exclusive;
use crate::records::work::Activity;
use crate::shared;
use crate::turn;
use crate::work::{self, Worker};
use perennial_store::{Order, Result};
use std::sync::Arc;
use std::time::Duration;

impl Mode {
    /// A dispatcher has come for turns, on leases of `lock`.
    pub async fn begin_turns(&self, engine: &Arc<Engine>, want: &Want, lock: Duration) {
        if let Self::Shared(shared) = self {
            shared.saw_turn_lock(lock);
            shared::poll_first(engine, shared, want).await;
        }
    }

    /// A worker has come for activities, on leases of `lock`.
    pub async fn begin_work(&self, engine: &Arc<Engine>, want: &Want, lock: Duration) {
        if let Self::Shared(shared) = self {
            shared.saw_work_lock(lock);
            shared::poll_first(engine, shared, want).await;
        }
    }

    /// Looks again before an activity is taken that another process is preferred for.
    pub async fn refresh_foreign(&self, engine: &Arc<Engine>, want: &WorkWant) {
        if let Self::Shared(shared) = self {
            shared::refresh_foreign(engine, shared, want).await;
        }
    }

    /// Polls the store once, for a fetch that does not wait; returns whether there was anything new.
    pub async fn poll_now(&self, engine: &Arc<Engine>, want: &Want) -> bool {
        match self {
            Self::Exclusive => false,
            Self::Shared(shared) => shared::poll_now(engine, shared, want).await,
        }
    }

    /// A fetch is about to wait: whatever other processes bring must wake it.
    pub fn watch(&self, engine: &Arc<Engine>) {
        if let Self::Shared(shared) = self {
            shared::watch(engine, shared);
        }
    }

    /// Claims and reads the turn that a dispatcher has taken from the board; `None` if it turns out that there is none.
    pub async fn acquire_turn(
        &self,
        engine: &Arc<Engine>,
        guard: turn::ClaimGuard,
        window: &Window,
        lock: Duration,
    ) -> Result<Option<turn::Fetched>> {
        match self {
            Self::Exclusive => exclusive::turn::acquire(engine, guard, window, lock).await,
            Self::Shared(shared) => shared::turn::acquire(engine, shared, guard, window, lock).await,
        }
    }

    /// Claims and reads the activity that a worker has taken from the board; `None` if it is gone.
    pub async fn acquire_work(
        &self,
        engine: &Arc<Engine>,
        guard: work::ClaimGuard,
        worker: &Worker,
    ) -> Result<Option<work::Fetched>> {
        match self {
            Self::Exclusive => exclusive::work::acquire(engine, guard, worker).await,
            Self::Shared(shared) => shared::work::acquire(engine, shared, guard, worker).await,
        }
    }

    /// Whether another process is preferred for an activity. One of a session is its holder's.
    pub fn is_foreign(&self, activity: &Activity, order: Order, now_ms: u64) -> bool {
        match self {
            Self::Exclusive => false,
            Self::Shared(shared) => shared.is_foreign(activity, order, now_ms),
        }
    }
}

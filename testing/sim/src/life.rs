//! One process of a run, from its start to its death.

use crate::clock::{WallClock, pause};
use crate::promise::Promises;
use crate::scene::Scene;
use async_trait::async_trait;
use parking_lot::Mutex;
use perennial_store::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Awake,
    /// It makes no step and receives nothing until it thaws: its machine was suspended, or it swaps.
    Frozen,
    Dead,
}

/// A process: its number, its clock, and whether it lives.
///
/// It is the process's [`Clock`], too: a task that sleeps in a frozen process sleeps until it thaws. Timers that the runtime
/// sets by itself cannot be frozen; what it does when they ring is stopped at its first call of the provider.
pub struct Life {
    /// The run that it is part of.
    pub scene: Arc<Scene>,
    /// Which process of the run it is, counted from 1.
    pub number: u32,
    /// Its machine's clock.
    pub wall: Arc<WallClock>,
    /// Its acks that are not durable yet, on a store of its own.
    pub promises: Mutex<Promises>,
    state: Mutex<State>,
    bell: Notify,
}

impl Life {
    /// A process begins.
    pub fn begin(scene: &Arc<Scene>, wall: &Arc<WallClock>) -> Arc<Self> {
        wall.begin();
        Arc::new(Self {
            scene: Arc::clone(scene),
            number: scene.facts.lock().begin_process(scene.config.is_shared()),
            wall: Arc::clone(wall),
            promises: Mutex::default(),
            state: Mutex::new(State::Awake),
            bell: Notify::new(),
        })
    }

    /// A number that differs in every process, and identifies it to the others.
    pub fn seed(&self) -> u64 {
        self.scene.chance(u64::from(self.number) ^ 0x9E0C).u64(..)
    }

    /// The name of the process in its leases.
    pub fn owner(&self) -> String {
        format!("{:016x}", self.seed())
    }

    /// Whether the process has died. What its tasks still do until they are dropped has no effect.
    pub fn is_over(&self) -> bool {
        *self.state.lock() == State::Dead
    }

    fn become_(&self, next: State) {
        {
            let mut state = self.state.lock();
            if *state == State::Dead || *state == next {
                return;
            }
            *state = next;
        }
        self.bell.notify_waiters();
    }

    /// Kills the process.
    pub fn end(&self) {
        self.become_(State::Dead);
    }

    /// Freezes the process.
    pub fn freeze(&self) {
        self.become_(State::Frozen);
    }

    /// Thaws the process.
    pub fn thaw(&self) {
        self.become_(State::Awake);
    }

    async fn until(&self, wanted: State) {
        loop {
            let mut changed = std::pin::pin!(self.bell.notified());
            changed.as_mut().enable();
            if *self.state.lock() == wanted {
                return;
            }
            changed.await;
        }
    }

    /// Waits for the death of the process.
    pub async fn ended(&self) {
        self.until(State::Dead).await;
    }

    /// A call that a dead process makes: it never returns.
    pub async fn check(&self) {
        if self.is_over() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns when the process is awake: at once, when it thaws, or never.
    pub async fn pass(&self) {
        self.until(State::Awake).await;
    }

    /// Sleeps in simulated time as part of the process. A sleep that should have ended while the process was frozen ends a
    /// moment after the rest of it, see [`crate::workflow`].
    pub async fn pause(&self, ms: u64) {
        pause(ms).await;
        while *self.state.lock() != State::Awake {
            self.pass().await;
            pause(1).await;
        }
    }

    /// The latest wall time that the process has read.
    pub fn high_ms(&self) -> u64 {
        self.wall.high_ms(&self.scene.time)
    }

    /// Writes a line into the trace, if there is one; where several processes live, with the number of this one.
    pub fn trace(&self, line: impl FnOnce() -> String) {
        self.scene.trace(|| match self.scene.config.is_shared() {
            true => format!("[{}] {}", self.number, line()),
            false => line(),
        });
    }
}

#[async_trait]
impl Clock for Life {
    fn now_ms(&self) -> u64 {
        self.wall.now_ms(&self.scene.time)
    }

    #[allow(clippy::disallowed_methods)]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
        self.pass().await;
    }
}

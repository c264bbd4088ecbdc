//! Time: it stands still while anybody works, and jumps when everybody waits.

use async_trait::async_trait;
use parking_lot::Mutex;
use perennial_store::Clock;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// When the simulated world begins, in milliseconds since the Unix epoch.
const BEGINNING_MS: u64 = 1_800_000_000_000;

/// The clock of a process. True time goes on from process to process; the wall clock may be off, and may jump.
pub struct SimClock(Mutex<State>);

struct State {
    /// True time when the process that runs now began.
    begun_ms: u64,
    began: Option<Instant>,
    /// The last true time that was told: destructors ask after their runtime has ended.
    last_ms: u64,
    skew_ms: i64,
    /// The latest wall time that this process has seen.
    high_ms: u64,
}

impl Default for SimClock {
    fn default() -> Self {
        Self(Mutex::new(State {
            begun_ms: 0,
            began: None,
            last_ms: 0,
            skew_ms: 0,
            high_ms: 0,
        }))
    }
}

impl State {
    fn true_ms(&mut self) -> u64 {
        if let (Some(began), Ok(_)) = (self.began, Handle::try_current()) {
            let elapsed = Instant::now().saturating_duration_since(began).as_millis() as u64;
            self.last_ms = self.last_ms.max(self.begun_ms + elapsed);
        }
        self.last_ms
    }
}

impl SimClock {
    /// A process begins, on a runtime whose time has just begun too.
    pub fn begin(&self) {
        let mut state = self.0.lock();
        state.begun_ms = state.last_ms;
        state.began = Some(Instant::now());
        state.high_ms = 0;
    }

    /// How long the world has lasted: the same for everybody.
    pub fn true_ms(&self) -> u64 {
        self.0.lock().true_ms()
    }

    /// The wall clock is put forward or back.
    pub fn jump(&self, by_ms: i64) {
        self.0.lock().skew_ms += by_ms;
    }

    /// The latest wall time that the process which runs now has seen.
    pub fn high_ms(&self) -> u64 {
        self.now_ms();
        self.0.lock().high_ms
    }
}

/// Sleeps in simulated time.
#[allow(clippy::disallowed_methods)]
pub async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

#[async_trait]
impl Clock for SimClock {
    fn now_ms(&self) -> u64 {
        let mut state = self.0.lock();
        let now_ms = (BEGINNING_MS + state.true_ms()).saturating_add_signed(state.skew_ms);
        state.high_ms = state.high_ms.max(now_ms);
        now_ms
    }

    #[allow(clippy::disallowed_methods)]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

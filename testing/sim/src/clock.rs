//! Time: it stands still while any task runs, and jumps when all of them wait.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// When the simulated world begins, in milliseconds since the Unix epoch.
pub const BEGINNING_MS: u64 = 1_800_000_000_000;

/// True time: the same for all processes, continuing from one to the next.
#[derive(Default)]
pub struct Time(Mutex<Elapsed>);

#[derive(Default)]
struct Elapsed {
    /// True time when the current runtime began.
    begun_ms: u64,
    began: Option<Instant>,
    /// The last true time that was read: destructors read it after their runtime has ended.
    last_ms: u64,
}

impl Time {
    /// Continues time on a runtime whose own time has just begun.
    pub fn begin(&self) {
        let mut elapsed = self.0.lock();
        elapsed.begun_ms = elapsed.last_ms;
        elapsed.began = Some(Instant::now());
    }

    /// How long the world has lasted.
    pub fn now_ms(&self) -> u64 {
        let mut elapsed = self.0.lock();
        if let (Some(began), Ok(_)) = (elapsed.began, Handle::try_current()) {
            let since = Instant::now().saturating_duration_since(began).as_millis() as u64;
            elapsed.last_ms = elapsed.last_ms.max(elapsed.begun_ms + since);
        }
        elapsed.last_ms
    }
}

/// The wall clock of a machine: it may be off, and it may jump.
#[derive(Default)]
pub struct WallClock(Mutex<Wall>);

#[derive(Default)]
struct Wall {
    skew_ms: i64,
    jumped: bool,
    /// The latest time that was read since its process began.
    high_ms: u64,
}

impl WallClock {
    /// A clock that is off by this much.
    pub fn skewed(skew_ms: i64) -> Self {
        Self(Mutex::new(Wall {
            skew_ms,
            ..Wall::default()
        }))
    }

    /// A process begins, which has not read the clock.
    pub fn begin(&self) {
        self.0.lock().high_ms = 0;
    }

    /// Reads the clock.
    pub fn now_ms(&self, time: &Time) -> u64 {
        let mut wall = self.0.lock();
        let now_ms = (BEGINNING_MS + time.now_ms()).saturating_add_signed(wall.skew_ms);
        wall.high_ms = wall.high_ms.max(now_ms);
        now_ms
    }

    /// Puts the clock forward or back.
    pub fn jump(&self, by_ms: i64) {
        let mut wall = self.0.lock();
        wall.skew_ms += by_ms;
        wall.jumped = true;
    }

    /// Whether this clock and another one have never been further apart than this.
    pub fn agrees(&self, other: &Self, within_ms: u64) -> bool {
        let read = |clock: &Self| {
            let wall = clock.0.lock();
            (wall.skew_ms, wall.jumped)
        };
        let ((one, jumped), (another, jumped_too)) = (read(self), read(other));
        !jumped && !jumped_too && one.abs_diff(another) <= within_ms
    }

    /// The latest time that the current process has read.
    pub fn high_ms(&self, time: &Time) -> u64 {
        self.now_ms(time);
        self.0.lock().high_ms
    }
}

/// Sleeps in simulated time.
#[allow(clippy::disallowed_methods)]
pub async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

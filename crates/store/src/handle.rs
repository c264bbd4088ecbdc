//! A handle that survives the failure of its store: the store is opened again, as a new generation.

use crate::{Clock, Error, Health, Outage, Result, Sharing, Store};
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{info, warn};

/// Opens a store. It is called again after the store broke, once the earlier generation has released everything it
/// held.
pub type Opener = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Store>>> + Send + Sync>;

/// One opening of a store.
#[derive(Clone)]
pub struct Generation {
    /// The number of this opening, from 0.
    pub number: u64,
    /// The store. Once broken, it refuses every request for good: work that began on one generation cannot write to a
    /// later one.
    pub store: Arc<dyn Store>,
}

/// A handle on a store that is opened again after it broke.
///
/// A store that broke stays broken: its memory may differ from its disk. The handle opens the store anew, with a new
/// epoch and empty memory. Engines request the [`working`](Self::working) generation on every call, and start afresh
/// when it has changed. Nothing happens in the background: the callers that need the store drive its opening, with
/// increasing waits between failed attempts.
pub struct StoreHandle {
    opener: Option<Opener>,
    clock: Arc<dyn Clock>,
    current: Mutex<Generation>,
    reopening: tokio::sync::Mutex<Attempts>,
    last_failure: Mutex<Option<String>>,
    /// Why the user of the current generation gave it up.
    given_up: Mutex<Option<Outage>>,
    closed: AtomicBool,
    changed: Notify,
}

/// The attempts to open the store since it last worked for a while.
#[derive(Default)]
struct Attempts {
    failed: u32,
    /// No attempt is made before this time.
    next_ms: u64,
    opened_ms: u64,
}

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// A store that breaks sooner than this after it was opened has not recovered: the waits keep growing.
const RECOVERED_MS: u64 = 30_000;

impl Attempts {
    fn wait(&self) -> Duration {
        FIRST_WAIT
            .saturating_mul(1_u32 << self.failed.min(16).saturating_sub(1))
            .min(LONGEST_WAIT)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoreHandle {
    /// A handle on a store that is not opened again after a failure.
    pub fn fixed(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self::new(store, None, clock)
    }

    /// A handle on a store that `opener` has opened, and opens again after a failure.
    pub fn reopening(store: Arc<dyn Store>, opener: Opener, clock: Arc<dyn Clock>) -> Self {
        Self::new(store, Some(opener), clock)
    }

    fn new(store: Arc<dyn Store>, opener: Option<Opener>, clock: Arc<dyn Clock>) -> Self {
        let attempts = Attempts {
            opened_ms: clock.now_ms(),
            ..Attempts::default()
        };
        Self {
            opener,
            clock,
            current: Mutex::new(Generation { number: 0, store }),
            reopening: tokio::sync::Mutex::new(attempts),
            last_failure: Mutex::new(None),
            given_up: Mutex::new(None),
            closed: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// The latest generation, whether it works or not.
    pub fn current(&self) -> Generation {
        lock(&self.current).clone()
    }

    /// Whether the store is opened again after it broke.
    pub fn can_reopen(&self) -> bool {
        self.opener.is_some() && !self.closed.load(Ordering::Acquire)
    }

    /// Whether the store takes requests and, if not, why and since when.
    pub fn health(&self) -> Health {
        let health = match (self.current().store.health().now(), &*lock(&self.given_up)) {
            _ if self.closed.load(Ordering::Acquire) => Health::Closed,
            (Health::Closed, Some(outage)) => Health::Broken(outage.clone()),
            (health, _) => health,
        };
        match health {
            Health::Broken(outage) => Health::Broken(Outage {
                why: match &*lock(&self.last_failure) {
                    Some(failure) => format!("{}; opening it again failed: {failure}", outage.why),
                    None => outage.why,
                },
                ..outage
            }),
            health => health,
        }
    }

    /// Waits until the store takes no more requests, and returns why.
    pub async fn stopped(&self) -> Health {
        loop {
            let changed = self.changed.notified();
            if self.closed.load(Ordering::Acquire) {
                return Health::Closed;
            }
            let mut watch = self.current().store.health();
            tokio::select! {
                health = watch.stopped() => return health,
                () = changed => {}
            }
        }
    }

    /// The generation that works now. A store that broke is opened again; the call waits for that until `deadline_ms`.
    pub async fn working(&self, deadline_ms: u64) -> Result<Generation> {
        loop {
            let current = self.current();
            if current.store.health().is_working() {
                return Ok(current);
            }
            self.check()?;
            let mut attempts = tokio::select! {
                attempts = self.reopening.lock() => attempts,
                () = self.sleep_until(deadline_ms) => return Err(self.away()),
            };
            if self.current().number != current.number {
                continue;
            }
            let now_ms = self.clock.now_ms();
            if attempts.next_ms > now_ms.max(deadline_ms) {
                drop(attempts);
                self.sleep_until(deadline_ms).await;
                return Err(self.away());
            }
            // The lock is held while waiting: one caller waits for the time of the next attempt, the others wait for
            // that caller.
            self.sleep_until(attempts.next_ms).await;
            self.check()?;
            match self.attempt(&mut attempts, &current).await {
                Err(_) if self.clock.now_ms() < deadline_ms => {}
                outcome => return outcome,
            }
        }
    }

    /// Reopens a broken store now, without waiting for the time of the next attempt.
    pub async fn reopen_now(&self) -> Result<Generation> {
        let mut attempts = self.reopening.lock().await;
        let current = self.current();
        if current.store.health().is_working() {
            return Ok(current);
        }
        self.check()?;
        self.attempt(&mut attempts, &current).await
    }

    /// Gives up a generation on which its user could not start: the next call opens the store again.
    pub async fn give_up(&self, generation: &Generation, why: &Error) {
        *lock(&self.given_up) = Some(Outage {
            why: why.to_string(),
            since_ms: self.clock.now_ms(),
        });
        generation.store.close().await.ok();
    }

    /// Begins to close the store for good: it is not opened again. Returns whether this is the first such call.
    pub fn begin_close(&self) -> bool {
        let is_first = !self.closed.swap(true, Ordering::AcqRel);
        self.changed.notify_waiters();
        is_first
    }

    /// Closes the store for good.
    pub async fn close(&self) -> Result<()> {
        self.begin_close();
        self.current().store.close().await
    }

    /// Fails if the store will not come back.
    fn check(&self) -> Result<()> {
        match self.health() {
            Health::Fenced(outage) => Err(Error::Fenced(outage.why)),
            Health::Broken(outage) if self.opener.is_none() => Err(Error::Closed(outage.why)),
            Health::Closed => Err(Error::Closed("it was closed; open the store again".to_owned())),
            _ => Ok(()),
        }
    }

    fn away(&self) -> Error {
        Error::Unavailable(format!("{}; it is opened again once the cause is gone", self.health()))
    }

    async fn sleep_until(&self, until_ms: u64) {
        let left_ms = until_ms.saturating_sub(self.clock.now_ms());
        if left_ms > 0 {
            self.clock.sleep(Duration::from_millis(left_ms)).await;
        }
    }

    async fn attempt(&self, attempts: &mut Attempts, broken: &Generation) -> Result<Generation> {
        let Some(opener) = &self.opener else {
            return Err(self.away());
        };
        if self.clock.now_ms().saturating_sub(attempts.opened_ms) > RECOVERED_MS {
            attempts.failed = 0;
        }
        attempts.failed += 1;
        // How closing the broken generation ends does not matter, but it must have released its files.
        broken.store.close().await.ok();
        let opened = opener().await.and_then(|store| follows(store, broken));
        let now_ms = self.clock.now_ms();
        attempts.next_ms = now_ms.saturating_add(attempts.wait().as_millis() as u64);
        match opened {
            Ok(store) => {
                attempts.opened_ms = now_ms;
                info!(attempts = attempts.failed, "the store was opened again after it broke");
                metrics::counter!("perennial_store_reopened_total").increment(1);
                let next = Generation {
                    number: broken.number + 1,
                    store,
                };
                *lock(&self.last_failure) = None;
                *lock(&self.given_up) = None;
                *lock(&self.current) = next.clone();
                self.changed.notify_waiters();
                Ok(next)
            }
            Err(error) => {
                warn!(%error, attempts = attempts.failed, "a store that broke could not be opened again yet");
                *lock(&self.last_failure) = Some(error.to_string());
                Err(self.away())
            }
        }
    }
}

/// Fails if `store` is not a later opening of the one that broke, as when another disk was mounted in its place.
fn follows(store: Arc<dyn Store>, broken: &Generation) -> Result<Arc<dyn Store>> {
    if store.sharing() == Sharing::Exclusive && store.epoch() <= broken.store.epoch() {
        let why = "what is there now is not the store that broke, or an older copy of it";
        return Err(Error::Unavailable(why.to_owned()));
    }
    Ok(store)
}

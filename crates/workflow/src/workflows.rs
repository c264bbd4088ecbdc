//! The handle that programs hold: an engine on a store, and a new engine after the store broke.

use crate::engine::{Engine, later};
use crate::error::from_store;
use crate::settings::Settings;
use crate::tuning::RETRY_FOR;
use duroxide::providers::ProviderError;
use parking_lot::RwLock;
use perennial_store::{
    Clock, Error, Generation, Health, HealthWatch, Hold, Holders, Opener, Result, Store, StoreHandle, SystemClock,
};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Durable workflows on a store: give it to `duroxide::runtime::Runtime` and `duroxide::Client` as their provider.
///
/// Clones share one engine, and one hold on the store: closing one closes all of them.
///
/// # Messages to instances that do not exist
///
/// A cancellation or an event for an id that no instance has is kept until one is started under that id, however long that
/// takes and whether or not there was one before; then it is delivered with the start. So an event may be raised before its
/// workflow begins, and a cancellation that overtakes a start is not lost. But a cancellation that was sent to a wrong id, or
/// to an instance that was deleted meanwhile, cancels whatever is started under that id next, once. It does not expire. Ask
/// for the instance first (`Client::get_orchestration_status`) if that matters; to get rid of one that was sent, start any
/// workflow under the id: it is cancelled at once and can be deleted. Messages for a queue of such an instance are dropped.
///
/// # When the store breaks
///
/// A write that fails (a full disk, a failing device) breaks an embedded store. [`health`](Self::health) tells why and
/// since when; [`closed`](Self::closed) is for programs that would rather exit. A store that was opened with
/// [`open_reopening`](Self::open_reopening) is opened again once the cause has passed, and goes on: as a new engine behind
/// this handle, with nothing remembered. Calls that were under way fail and write nothing any more; work that was handed
/// out is handed out again, and its old tokens are refused.
#[derive(Clone)]
pub struct Workflows {
    inner: Arc<Inner>,
    hold: Hold,
}

struct Inner {
    store: Arc<StoreHandle>,
    settings: Settings,
    clock: Arc<dyn Clock>,
    current: RwLock<Current>,
    /// Held by the one caller that starts the next engine.
    starting: tokio::sync::Mutex<()>,
    is_stopped: AtomicBool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.current.get_mut().engine.outstanding.drop_engine();
    }
}

/// The engine of a generation of the store.
#[derive(Clone)]
struct Current {
    engine: Arc<Engine>,
    generation: u64,
    health: HealthWatch,
}

impl Current {
    async fn start(generation: Generation, settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Self> {
        let health = generation.store.health();
        let engine = Arc::new(Engine::new(generation.store, settings.clone(), Arc::clone(clock)));
        engine.mode.open(&engine).await?;
        Ok(Self {
            engine,
            generation: generation.number,
            health,
        })
    }
}

impl Workflows {
    /// Opens the workflows of a store, on the machine's clock.
    pub async fn open(store: Arc<dyn Store>, settings: Settings) -> Result<Self> {
        Self::open_with_clock(store, settings, SystemClock::shared()).await
    }

    /// Opens the workflows of a store, on a clock of the caller's.
    pub async fn open_with_clock(store: Arc<dyn Store>, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let handle = StoreHandle::fixed(store, Arc::clone(&clock));
        Self::on(Arc::new(handle), settings, clock).await
    }

    /// Opens the workflows of a store that `opener` has opened, and opens again after it broke.
    pub async fn open_reopening(
        store: Arc<dyn Store>,
        opener: Opener,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let handle = StoreHandle::reopening(store, opener, Arc::clone(&clock));
        Self::on(Arc::new(handle), settings, clock).await
    }

    /// Opens the workflows of a store by its handle, which other engines may use too. To close these workflows is to close
    /// the store; give them another [hold](Self::held_by) where that is not enough.
    pub async fn on(store: Arc<StoreHandle>, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let current = Current::start(store.current(), &settings, &clock).await?;
        let inner = Arc::new(Inner {
            store,
            settings,
            clock,
            current: RwLock::new(current),
            starting: tokio::sync::Mutex::default(),
            is_stopped: AtomicBool::new(false),
        });
        let hold = {
            let inner = Arc::clone(&inner);
            Holders::first(Box::new(move || Box::pin(close(Arc::clone(&inner)))))
        };
        Ok(Self { inner, hold })
    }

    /// The same workflows under another hold on the store: closing them releases that one.
    pub fn held_by(&self, hold: Hold) -> Self {
        let inner = Arc::clone(&self.inner);
        Self { inner, hold }
    }

    /// A reference that does not keep the engine alive.
    pub fn downgrade(&self) -> WeakWorkflows {
        WeakWorkflows(Arc::downgrade(&self.inner))
    }

    /// Writes down what is only in memory and closes the store, unless another part of this process has opened it too: then
    /// only this handle is closed. Runtimes on it must be shut down first.
    pub async fn close(&self) -> Result<()> {
        self.hold.release().await
    }

    /// Waits until everything that a runtime was acknowledged before is durable, or was lost because the store broke.
    ///
    /// On a store of this process alone, an ack of a runtime returns when it is ordered, and is durable a sync later. Nothing
    /// that a program sees, no status and no result of a wait, is ahead of that; so few programs need this.
    pub async fn flush(&self) {
        self.engine().outstanding.all().await;
    }

    /// Stops the engine, which writes down what is only in memory, and leaves the store to be closed by the caller. Nothing
    /// opens the store again after this.
    pub async fn stop(&self) -> Result<()> {
        stop(&self.inner).await
    }

    /// The store beneath, for records of the program's own: they are kept, shared and made durable as its workflows are.
    ///
    /// A partition whose name begins with `wf:`, `ses:` or `mem:` belongs to the workflows; choose any other. Transient
    /// failures are retried, and bodies may be larger than the store takes at once. Ask for it with each use: a store that
    /// broke stays broken, and the one that was opened in its place is another.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.engine().store)
    }

    /// Whether the store takes no more requests: it was [closed](Self::close), or it broke and was not opened again yet.
    pub fn is_closed(&self) -> bool {
        self.engine().is_closed() || !self.health().is_working()
    }

    /// Whether the store takes requests and, if not, why and since when.
    pub fn health(&self) -> Health {
        match self.hold.is_released() {
            true => Health::Closed,
            false => self.inner.store.health(),
        }
    }

    /// Whether the store takes requests, or is opened again once the cause has passed.
    pub(crate) fn may_recover(&self) -> bool {
        match self.health() {
            Health::Working => true,
            Health::Broken(_) => self.inner.store.can_reopen(),
            _ => false,
        }
    }

    /// Waits until the store takes no more requests, and tells why. For programs that exit when their store breaks; others
    /// need not care, for the store is opened again once the cause has passed.
    pub async fn closed(&self) -> Health {
        tokio::select! {
            health = self.inner.store.stopped() => health,
            () = self.hold.released() => Health::Closed,
        }
    }

    /// Opens a store that broke again, now. Does nothing if it works.
    pub async fn reopen(&self) -> Result<()> {
        self.hold.check()?;
        self.inner.store.reopen_now().await?;
        self.working(self.inner.clock.now_ms()).await.map(drop)
    }

    /// The latest engine, whether its store works or not.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.inner.current.read().engine)
    }

    /// The engine for a call that does not rest on what an earlier engine handed out: if the store broke, it is opened
    /// again first.
    pub(crate) async fn engine_for(&self, operation: &'static str) -> Result<Arc<Engine>, ProviderError> {
        self.hold.check().map_err(|error| from_store(operation, &error))?;
        {
            let current = self.inner.current.read();
            if !self.inner.store.can_reopen() || current.health.is_working() {
                return Ok(Arc::clone(&current.engine));
            }
        }
        let deadline_ms = later(self.inner.clock.now_ms(), RETRY_FOR);
        let current = self.working(deadline_ms).await;
        current
            .map(|current| current.engine)
            .map_err(|error| from_store(operation, &error))
    }

    /// Waits until an engine cannot go on: its store broke or was closed.
    pub(crate) async fn replaced(&self, engine: &Arc<Engine>) {
        let current = self.inner.current.read().clone();
        if Arc::ptr_eq(&current.engine, engine) {
            let mut health = current.health;
            tokio::select! {
                _ = health.stopped() => {}
                () = self.hold.released() => {}
            }
        }
    }

    /// Fetches from the engine that works, and from the next one if the store breaks meanwhile. `fetch` is given the time
    /// that is left.
    pub(crate) async fn poll<T, Fetch, Fetched>(
        &self,
        operation: &'static str,
        poll: Duration,
        fetch: Fetch,
    ) -> Result<Option<T>, ProviderError>
    where
        Fetch: Fn(Arc<Engine>, Duration) -> Fetched,
        Fetched: Future<Output = Result<Option<T>, ProviderError>>,
    {
        self.hold.check().map_err(|error| from_store(operation, &error))?;
        if !self.inner.store.can_reopen() {
            return fetch(self.engine(), poll).await;
        }
        let deadline_ms = later(self.inner.clock.now_ms(), poll);
        loop {
            let mut current = match self.working(deadline_ms).await {
                Ok(current) => current,
                // The store says itself what is wrong. The runtime's dispatchers count errors of a fetch, and do not
                // survive a hundred in a row.
                Err(Error::Unavailable(_)) if !poll.is_zero() => return Ok(None),
                Err(error) => return Err(from_store(operation, &error)),
            };
            // The clock truncates: what is left is never less than what the caller has not waited.
            let left_ms = deadline_ms.saturating_add(1).saturating_sub(self.inner.clock.now_ms());
            let left = poll.min(Duration::from_millis(left_ms));
            tokio::select! {
                biased;
                fetched = fetch(current.engine, left) => return fetched,
                _ = current.health.stopped() => {}
            }
        }
    }

    /// The engine on a store that works.
    async fn working(&self, deadline_ms: u64) -> Result<Current> {
        let current = self.inner.current.read().clone();
        if current.health.is_working() || !self.inner.store.can_reopen() {
            return Ok(current);
        }
        // Two engines must not be on one store, so a start that has begun is not cut short.
        let next = current
            .engine
            .spawner
            .shield(start_next(Arc::clone(&self.inner), current.generation, deadline_ms));
        next.await
    }
}

/// Workflows that do not keep their engine alive.
pub struct WeakWorkflows(Weak<Inner>);

impl WeakWorkflows {
    /// The workflows under this hold, if their engine is still there.
    pub fn upgrade(&self, hold: Hold) -> Option<Workflows> {
        let inner = self.0.upgrade()?;
        Some(Workflows { inner, hold })
    }
}

/// Stops the engine for good, once.
async fn stop(inner: &Inner) -> Result<()> {
    inner.store.begin_close();
    if inner.is_stopped.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let _starting = inner.starting.lock().await;
    let engine = Arc::clone(&inner.current.read().engine);
    engine.retire();
    engine.mode.leave(&engine).await
}

/// Stops the engine and closes the store.
async fn close(inner: Arc<Inner>) -> Result<()> {
    let stopped = stop(&inner).await;
    inner.store.close().await.and(stopped)
}

/// Starts the engine that follows the one of `generation`, unless another caller has.
async fn start_next(inner: Arc<Inner>, generation: u64, deadline_ms: u64) -> Result<Current> {
    let _starting = inner.starting.lock().await;
    let latest = inner.current.read().clone();
    if latest.generation != generation && latest.health.is_working() {
        return Ok(latest);
    }
    latest.engine.retire();
    let generation = inner.store.working(deadline_ms).await?;
    match Current::start(generation.clone(), &inner.settings, &inner.clock).await {
        Ok(next) => {
            *inner.current.write() = next.clone();
            Ok(next)
        }
        Err(error) => {
            // No trace of this engine may be left on the store that the next one is on.
            inner.store.give_up(&generation, &error).await;
            Err(error)
        }
    }
}

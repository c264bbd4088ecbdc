//! Drops a runtime at every position, and checks that another one can go on.

use crate::acks::Acks;
use crate::clock::Quick;
use crate::gated::GatedDisk;
use crate::stopping_store::{BUSY, Stop, StoppingStore};
use crate::story::Runner;
use perennial_store::Store;
use perennial_workflow::{Settings, Workflows};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// How long anything that must happen may take.
const LONG: Duration = Duration::from_secs(60);
/// How many attempts run at once.
const AT_ONCE: usize = 4;
const SHORT_LEASE: Duration = Duration::from_secs(5);
const LONG_LEASE: Duration = Duration::from_secs(60);

/// The runtime that is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// It has one thread: the one that drops it.
    OneThread,
    /// It has several threads.
    Threads,
    /// It has one thread and is not dropped, but no longer run.
    StandsStill,
}

/// What delays a call while its runtime is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The store takes its time.
    Slow,
    /// The store is busy, and the engine waits to retry.
    Busy,
}

/// A store, and what it is on.
pub struct Medium {
    pub store: Arc<dyn Store>,
    /// A directory that is to outlive it.
    pub directory: Option<tempfile::TempDir>,
    /// A disk whose syncs can be held back.
    pub disk: Option<GatedDisk>,
}

impl Medium {
    /// A store that needs nothing else.
    pub fn of(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            directory: None,
            disk: None,
        }
    }
}

/// A kind of store.
pub struct Case {
    pub name: &'static str,
    pub open: fn() -> Medium,
    pub settings: fn() -> Settings,
    pub flavors: &'static [Flavor],
    pub values: u64,
}

/// One attempt.
#[derive(Clone, Copy, Debug)]
struct Try {
    at: usize,
    flavor: Flavor,
    reason: Reason,
}

fn multi() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn runtime(flavor: Flavor) -> Runtime {
    match flavor {
        Flavor::Threads => multi(),
        Flavor::OneThread | Flavor::StandsStill => Builder::new_current_thread().enable_all().build().unwrap(),
    }
}

/// A store, and the runtime it lives on.
pub struct Setup {
    runtime: Runtime,
    stopping: Arc<StoppingStore>,
    clock: Arc<Quick>,
    store: Workflows,
    values: u64,
    pub acks: Arc<Acks>,
    pub disk: Option<GatedDisk>,
    _directory: Option<tempfile::TempDir>,
}

impl Setup {
    pub fn new(case: &Case) -> Self {
        let Medium { store, directory, disk } = (case.open)();
        let (runtime, stopping, clock) = (multi(), StoppingStore::new(store), Quick::new());
        let opened = Workflows::open_with_clock(stopping.clone(), (case.settings)(), clock.clone());
        let store = runtime.block_on(opened).unwrap();
        Self {
            runtime,
            stopping,
            clock,
            store,
            values: case.values,
            acks: Arc::default(),
            disk,
            _directory: directory,
        }
    }

    fn runner(&self, lease: Duration) -> Runner {
        Runner {
            store: self.store.clone(),
            clock: self.clock.clone(),
            lease,
            values: self.values,
            acks: Arc::clone(&self.acks),
        }
    }

    /// A whole life on the runtime of the store.
    pub fn live(&self) {
        self.stopping.stop_at(None);
        self.runtime.block_on(self.runner(SHORT_LEASE).live());
    }

    /// Whatever has happened elsewhere, a life ends here.
    #[allow(clippy::disallowed_methods)]
    pub fn go_on(&self) -> Result<(), String> {
        let runner = self.runner(LONG_LEASE);
        let going_on = async {
            runner.run().await;
            // An instance that is just being deleted is gone in a moment.
            while runner.root().await.as_deref() != Some("Completed") {
                runner.start().await;
                runner.run().await;
            }
            runner.verdict().await
        };
        let in_time = async { tokio::time::timeout(LONG, going_on).await };
        match self.runtime.block_on(in_time) {
            Ok(verdict) => verdict,
            Err(_) => Err(format!(
                "it does not go on: {:?}",
                perennial_workflow::testing::residue(&self.store)
            )),
        }
    }
}

/// Runs a life on another runtime until a signal comes, or it is over; then that runtime is dropped. Returns it if it only
/// stands still.
pub fn live_until(
    setup: &Setup,
    flavor: Flavor,
    (came, comes): (mpsc::Sender<()>, mpsc::Receiver<()>),
) -> Option<Runtime> {
    let (runner, runtime) = (setup.runner(SHORT_LEASE), runtime(flavor));
    let stopped = Arc::new(tokio::sync::Notify::new());
    let watcher = std::thread::spawn({
        let stopped = Arc::clone(&stopped);
        move || {
            comes.recv().ok();
            stopped.notify_one();
        }
    });
    let living = async move {
        runner.live().await;
        came.send(()).ok();
    };
    match flavor {
        Flavor::StandsStill => runtime.block_on(async {
            tokio::select! { () = living => {}, () = stopped.notified() => {} }
        }),
        _ => {
            let task = runtime.spawn(living);
            runtime.block_on(stopped.notified());
            drop(task);
        }
    }
    watcher.join().unwrap();
    (flavor == Flavor::StandsStill).then_some(runtime)
}

/// Runs a life until the position is reached, or it is over; then the runtime is gone, and the delayed call goes on. Returns
/// whether there was one, and the runtime if it only stands still.
fn live_and_drop(setup: &Setup, one: Try) -> (bool, Option<Runtime>) {
    let (came, comes) = mpsc::channel();
    let (go, wait) = oneshot::channel();
    let stop = match one.reason {
        Reason::Slow => Stop::Wait(came.clone(), wait),
        Reason::Busy => {
            setup.clock.tell((BUSY, came.clone()));
            Stop::Busy
        }
    };
    setup.stopping.stop_at(Some((one.at, stop)));
    let still = live_until(setup, one.flavor, (came, comes));
    let reached = setup.stopping.reached();
    go.send(()).ok();
    (reached, still)
}

fn try_once(case: &Case, one: Try) -> Result<bool, String> {
    let setup = Setup::new(case);
    let (reached, _still) = live_and_drop(&setup, one);
    setup.go_on()?;
    Ok(reached)
}

/// How many positions a life has.
fn positions(case: &Case) -> usize {
    let setup = Setup::new(case);
    setup.live();
    setup.stopping.passed()
}

/// What is tried: every position with one flavor, or with all.
fn tries(case: &Case, positions: usize) -> Vec<Try> {
    let exhaustive = std::env::var_os("PERENNIAL_EXHAUSTIVE").is_some();
    let mut tries = Vec::new();
    for at in 0..positions {
        for (number, flavor) in case.flavors.iter().copied().enumerate() {
            if !exhaustive && at % case.flavors.len() != number {
                continue;
            }
            let reason = Reason::Slow;
            tries.push(Try { at, flavor, reason });
            // A store that has done its work is not too busy: that is before a call, at every other position.
            if at % 2 == 0 && (exhaustive || at % 4 == 0) {
                let reason = Reason::Busy;
                tries.push(Try { at, flavor, reason });
            }
        }
    }
    tries
}

/// Tries everything, several at a time because they mostly wait; returns how many tries got to their position.
pub fn try_all<T: Copy + std::fmt::Debug + Sync>(
    case: &Case,
    tries: &[T],
    try_once: impl Fn(T) -> Result<bool, String> + Sync,
) -> usize {
    let (next, reached) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(one) = tries.get(next.fetch_add(1, SeqCst)).copied() {
                    match try_once(one) {
                        Ok(there) => reached.fetch_add(usize::from(there), SeqCst),
                        Err(why) => panic!("{}: {one:?}: {why}", case.name),
                    };
                }
            });
        }
    });
    reached.into_inner()
}

/// Tries every position.
pub fn sweep(case: &Case) {
    let positions = positions(case);
    let tries = tries(case, positions);
    let reached = try_all(case, &tries, |one| try_once(case, one));
    let tried = tries.len();
    println!(
        "{}: {positions} positions, {tried} tries, {reached} of them reached",
        case.name
    );
    assert!(reached * 2 > tried, "only {reached} of {tried} positions were reached");
}

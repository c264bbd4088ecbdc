//! Drops a runtime at every position, and checks that another one can go on.

use crate::clock::Quick;
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

/// A store, and the directory that it is in, if there is one.
pub type Medium = (Arc<dyn Store>, Option<tempfile::TempDir>);

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
struct Setup {
    runtime: Runtime,
    stopping: Arc<StoppingStore>,
    clock: Arc<Quick>,
    store: Workflows,
    values: u64,
    _directory: Option<tempfile::TempDir>,
}

impl Setup {
    fn new(case: &Case) -> Self {
        let (store, directory) = (case.open)();
        let (runtime, stopping, clock) = (multi(), StoppingStore::new(store), Quick::new());
        let opened = Workflows::open_with_clock(stopping.clone(), (case.settings)(), clock.clone());
        let store = runtime.block_on(opened).unwrap();
        Self {
            runtime,
            stopping,
            clock,
            store,
            values: case.values,
            _directory: directory,
        }
    }

    fn runner(&self, lease: Duration) -> Runner {
        Runner {
            store: self.store.clone(),
            clock: self.clock.clone(),
            lease,
            values: self.values,
        }
    }

    /// Whatever has happened elsewhere, a life ends here.
    #[allow(clippy::disallowed_methods)]
    fn go_on(&self) -> Result<(), String> {
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

/// Runs a life until the position is reached, or it is over; then the runtime is gone. Returns what lets the delayed
/// call go on, if there was one.
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
    let (runner, runtime) = (setup.runner(SHORT_LEASE), runtime(one.flavor));
    let over = came;
    let held = Arc::new(tokio::sync::Notify::new());
    let watcher = std::thread::spawn({
        let held = Arc::clone(&held);
        move || {
            comes.recv().ok();
            held.notify_one();
        }
    });
    let living = async move {
        runner.live().await;
        over.send(()).ok();
    };
    match one.flavor {
        Flavor::StandsStill => runtime.block_on(async {
            tokio::select! { () = living => {}, () = held.notified() => {} }
        }),
        _ => {
            let task = runtime.spawn(living);
            runtime.block_on(held.notified());
            drop(task);
        }
    }
    watcher.join().unwrap();
    let still = (one.flavor == Flavor::StandsStill).then_some(runtime);
    // Dropped by now, unless it stands still.
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
    setup.stopping.stop_at(None);
    setup.runtime.block_on(setup.runner(SHORT_LEASE).live());
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

/// Tries every position, several at a time: they mostly wait.
pub fn sweep(case: &Case) {
    let positions = positions(case);
    let tries = tries(case, positions);
    let (next, reached) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(one) = tries.get(next.fetch_add(1, SeqCst)).copied() {
                    match try_once(case, one) {
                        Ok(there) => reached.fetch_add(usize::from(there), SeqCst),
                        Err(why) => panic!("{}: {one:?} of {positions}: {why}", case.name),
                    };
                }
            });
        }
    });
    let (tried, reached) = (tries.len(), reached.into_inner());
    println!(
        "{}: {positions} positions, {tried} tries, {reached} of them reached",
        case.name
    );
    assert!(reached * 2 > tried, "only {reached} of {tried} positions were reached");
}

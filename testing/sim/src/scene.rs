//! What outlives the processes of one run: its configuration, its time, and what was observed.

use crate::clock::Time;
use crate::config::Config;
use crate::facts::Facts;
use crate::fault::{Counters, Fault, Operation};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A run with more calls than this loops.
const MOST_CALLS: u64 = 300_000;

/// One run.
pub struct Scene {
    /// Its configuration.
    pub config: Config,
    /// Its time.
    pub time: Time,
    /// What was observed.
    pub facts: Mutex<Facts>,
    calls: AtomicU64,
    calm: AtomicBool,
    outage_until_ms: AtomicU64,
    /// What the calls were before the final checks began.
    operations: Mutex<Vec<Operation>>,
    /// The faults that were injected, by the number of the call.
    done: Mutex<BTreeMap<u64, Fault>>,
    counters: Mutex<Counters>,
}

impl Scene {
    /// Sets the scene.
    pub fn new(config: Config, trace: bool) -> Arc<Self> {
        Arc::new(Self {
            config,
            time: Time::default(),
            facts: Mutex::new(Facts::new(trace)),
            calls: AtomicU64::new(0),
            calm: AtomicBool::new(false),
            outage_until_ms: AtomicU64::new(0),
            operations: Mutex::default(),
            done: Mutex::default(),
            counters: Mutex::default(),
        })
    }

    /// Stops a run that calls the store without end.
    pub async fn stop_if_endless(&self) {
        if self.calls() == MOST_CALLS {
            self.blame(format!("the store was called {MOST_CALLS} times"));
        }
        if self.calls() >= MOST_CALLS {
            std::future::pending::<()>().await;
        }
    }

    /// Numbers a call of the store, and draws its fault.
    pub fn next_call(&self, operation: Operation) -> (u64, Option<Fault>) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.is_calm() {
            return (call, None);
        }
        self.operations.lock().push(operation);
        let fault = match self.config.faults.get(&call) {
            Some(fault) => Some(*fault),
            None => self.config.rates.draw(&mut self.chance(call)),
        };
        if let Some(fault) = fault {
            self.done.lock().insert(call, fault);
            self.counters.lock().count(fault, operation);
        }
        (call, fault)
    }

    /// Randomness that depends on the number of a call and nothing else.
    pub fn chance(&self, call: u64) -> fastrand::Rng {
        let mixed = (self.config.seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xD129_0F3C_5A1B_7E4D);
        fastrand::Rng::with_seed(mixed.wrapping_add(call.wrapping_mul(0xA24B_AED4_963E_E407)))
    }

    /// From now on there are no faults.
    pub fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.outage_until_ms.store(0, Ordering::Relaxed);
    }

    /// Whether there are no more faults.
    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// The store is out for a while.
    pub fn out_for(&self, ms: u64) {
        self.outage_until_ms.store(self.time.now_ms() + ms, Ordering::Relaxed);
    }

    /// Whether the store is out.
    pub fn is_out(&self) -> bool {
        self.time.now_ms() < self.outage_until_ms.load(Ordering::Relaxed)
    }

    /// How many calls the store has had.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// What they were, before the final checks began.
    pub fn operations(&self) -> Vec<Operation> {
        self.operations.lock().clone()
    }

    /// The faults that were injected, by the number of the call.
    pub fn done(&self) -> BTreeMap<u64, Fault> {
        self.done.lock().clone()
    }

    /// The faults that were injected, counted.
    pub fn counters(&self) -> Counters {
        self.counters.lock().clone()
    }

    /// Adds a line to the trace, if there is one.
    pub fn trace(&self, line: impl FnOnce() -> String) {
        let mut facts = self.facts.lock();
        if facts.is_traced() {
            let line = format!("{:>9} {}", self.time.now_ms(), line());
            facts.trace(line);
        }
    }

    /// Records a violation.
    pub fn blame(&self, what: String) {
        self.trace(|| format!("!! {what}"));
        self.facts.lock().violations.push(what);
    }
}

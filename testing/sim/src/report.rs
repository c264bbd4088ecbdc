//! Many seeds, and their results.

use crate::config::Kind;
use crate::fault::Counters;
use crate::run::{Outcome, run};
use parking_lot::Mutex;
use perennial_store::{Clock, SystemClock};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The results of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many were run.
    pub seeds: u64,
    /// How long that took, in milliseconds of the machine.
    pub took_ms: u64,
    /// How many processes lived in them.
    pub processes: u64,
    /// How many calls of the store they made.
    pub calls: u64,
    /// The faults that were injected.
    pub counters: Counters,
    /// Seeds that failed, and how.
    pub failed: Vec<(Kind, u64, Vec<String>)>,
}

impl Report {
    /// Runs seeds of these kinds on several threads, until all are run or this many have failed.
    pub fn of_seeds(kinds: &[Kind], seeds: Range<u64>, threads: usize, most: usize) -> Self {
        let began_ms = SystemClock.now_ms();
        let next = AtomicU64::new(seeds.start);
        let report = Mutex::new(Self::default());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds.end || report.lock().failed.len() >= most {
                            return;
                        }
                        for kind in kinds {
                            let outcome = run(&kind.of_seed(seed), false);
                            report.lock().add(*kind, seed, outcome);
                        }
                    }
                });
            }
        });
        let mut report = report.into_inner();
        report.took_ms = SystemClock.now_ms().saturating_sub(began_ms).max(1);
        report.failed.sort();
        report
    }

    fn add(&mut self, kind: Kind, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        self.processes += u64::from(outcome.processes);
        self.calls += outcome.calls;
        self.counters.add(&outcome.counters);
        if !outcome.violations.is_empty() {
            self.failed.push((kind, seed, outcome.violations));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} seeds in {:.1} s: {:.0} seeds/s; {} processes, {} store calls, {} faults; {} failed",
            self.seeds,
            self.took_ms as f64 / 1_000.0,
            self.seeds as f64 * 1_000.0 / self.took_ms as f64,
            self.processes,
            self.calls,
            self.counters.total(),
            self.failed.len()
        )?;
        write!(f, "{}", self.counters)
    }
}

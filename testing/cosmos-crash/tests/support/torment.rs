//! Workers that are killed and frozen at random moments.

use super::arena::Arena;
use fastrand::Rng;
use perennial_cosmos_crash::worker::{READY, TURN_LEASE, WORK_LEASE};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a worker is left alone once it runs.
const PEACE: Range<u64> = 300..8_000;
/// How long a killed worker stays dead.
const DEATH: Range<u64> = 0..2_000;
/// How long a worker is frozen: longer than its turns are claimed for, at times longer than its activities are.
const ICE: Range<u64> = 3_000..8_500;

/// How often workers were killed and frozen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    pub kills: usize,
    pub freezes: usize,
}

impl std::ops::AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.freezes += other.freezes;
    }
}

/// A running worker, killed when dropped: also when it is frozen.
struct Worker {
    child: Child,
    pid: Pid,
}

impl Worker {
    fn start(arena: &Arena, number: usize, ahead_ms: u64) -> Self {
        let mut child = arena.worker(number, ahead_ms).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let mut told = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut told)
            .unwrap();
        assert_eq!(told.trim_end(), READY, "worker {number} did not come up");
        Self { child, pid }
    }

    fn signal(&mut self, signal: Signal) {
        let ended = self.child.try_wait().unwrap();
        assert_eq!(ended, None, "a worker ended by itself");
        kill_process(self.pid, signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be dead already; what matters is that it is afterwards.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Keeps worker `number` running, killing and freezing it, until told to stop; then leaves it alone until dropped.
pub fn torment(
    arena: &Arc<Arena>,
    number: usize,
    ahead_ms: u64,
    seed: u64,
    stop: &AtomicBool,
) -> (impl Drop + use<>, Done) {
    let mut rng = Rng::with_seed(seed);
    let mut done = Done::default();
    let mut worker = Worker::start(arena, number, ahead_ms);
    loop {
        if sleep(rng.u64(PEACE), stop) {
            return (worker, done);
        }
        if rng.bool() {
            worker.signal(Signal::KILL);
            drop(worker);
            done.kills += 1;
            sleep(rng.u64(DEATH), stop);
            worker = Worker::start(arena, number, ahead_ms);
        } else {
            worker.signal(Signal::STOP);
            done.freezes += 1;
            sleep(rng.u64(ICE), stop);
            worker.signal(Signal::CONT);
        }
    }
}

/// Whether it was told to stop meanwhile.
fn sleep(ms: u64, stop: &AtomicBool) -> bool {
    let end = Instant::now() + Duration::from_millis(ms);
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

#[test]
fn ice_outlasts_leases() {
    assert!(Duration::from_millis(ICE.start) > TURN_LEASE + Duration::from_millis(500));
    assert!(Duration::from_millis(ICE.end) > WORK_LEASE * 2);
}

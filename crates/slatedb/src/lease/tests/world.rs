//! Processes on one bucket in virtual time, and a check that at most one of them owns the shard at any moment.

use super::*;
use crate::{Bucket, Shard};
use async_trait::async_trait;
use object_store::path::Path;
use parking_lot::Mutex;
use perennial_bucket::{FaultyBucket, Latency, MemoryBucket, Method, Tags};
use perennial_store::Clock;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Handle as Runtime};
use tokio::sync::watch;
use tokio::time::Instant;

/// The length of leases in these tests.
pub(super) const LENGTH: Duration = Duration::from_secs(2);

pub(super) fn settings() -> Settings {
    Settings::of_length(LENGTH)
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Runs a test on a runtime of its own, whose time jumps when all tasks wait. Whatever it leaves behind ends with it.
pub(super) fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(test)
}

/// Lets virtual time pass.
#[allow(clippy::disallowed_methods)]
pub(super) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The result of a future, or `None` if it takes longer in virtual time.
#[allow(clippy::disallowed_methods)]
pub(super) async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, future).await.ok()
}

/// The clocks of one machine: a wall clock that is off, and a boot clock with an origin and a rate of its own.
pub(super) struct Clocks {
    origin: Instant,
    wall_error_ms: AtomicI64,
    boot_origin: Duration,
    /// How fast its clocks run, in thousandths.
    rate: u64,
    /// What the boot clock fails to count.
    lost: AtomicU64,
    is_frozen: watch::Sender<bool>,
}

const EPOCH_MS: i64 = 1_800_000_000_000;

impl Clocks {
    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Puts the wall clock wrong by so much.
    pub(super) fn set_wall_error_ms(&self, error_ms: i64) {
        self.wall_error_ms.store(error_ms, Ordering::Relaxed);
    }

    /// Makes the boot clock forget this time, as one that does not count suspension.
    pub(super) fn lose(&self, time: Duration) {
        self.lost.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for Clocks {
    fn now_ms(&self) -> u64 {
        let now_ms = EPOCH_MS + self.elapsed().as_millis() as i64 + self.wall_error_ms.load(Ordering::Relaxed);
        now_ms.max(0) as u64
    }

    async fn sleep(&self, duration: Duration) {
        pass(duration * 1_000 / self.rate as u32).await;
        let mut is_frozen = self.is_frozen.subscribe();
        is_frozen.wait_for(|is_frozen| !is_frozen).await.ok();
    }
}

impl BootClock for Clocks {
    fn now(&self) -> Duration {
        let lost = ms(self.lost.load(Ordering::Relaxed));
        (self.boot_origin + self.elapsed() * self.rate as u32 / 1_000).saturating_sub(lost)
    }
}

/// A process that wants the shard.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) clocks: Arc<Clocks>,
    pub(super) bucket: FaultyBucket,
    pub(super) candidate: Candidate,
    world: World,
    /// The lease that a [`stand_by`](Self::stand_by) has got.
    pub(super) held: Arc<Mutex<Option<Held>>>,
}

/// What is known of all processes.
#[derive(Clone)]
pub(super) struct World(Arc<Inner>);

struct Inner {
    origin: Instant,
    root: FaultyBucket,
    settings: Settings,
    owners: Mutex<Vec<(String, Handle)>>,
    facts: Mutex<Facts>,
}

#[derive(Default)]
struct Facts {
    violations: Vec<String>,
    /// Since when nobody has owned the shard, and the longest such time after the first owner.
    unowned_since: Option<Instant>,
    longest_gap: Duration,
    had_owner: bool,
    processes: u128,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(Tags::Counter, settings())
    }

    #[allow(clippy::disallowed_methods)]
    pub(super) fn with(tags: Tags, settings: Settings) -> Self {
        let origin = Instant::now();
        // The object store's own clock is wrong, too: by four hours.
        let clock = clocks(origin, -4 * 3_600_000, Duration::ZERO, 1_000);
        let server = Arc::new(MemoryBucket::with_tags(clock.clone(), tags));
        let world = Self(Arc::new(Inner {
            origin,
            root: FaultyBucket::new(server, clock),
            settings,
            owners: Mutex::default(),
            facts: Mutex::default(),
        }));
        let observed = world.clone();
        tokio::spawn(async move {
            loop {
                observed.observe();
                pass(ms(50)).await;
            }
        });
        world
    }

    /// A process whose clocks agree with no other's.
    pub(super) fn process(&self, name: &str) -> Process {
        let number = {
            let mut facts = self.0.facts.lock();
            facts.processes += 1;
            facts.processes
        };
        // By days, in both directions.
        let wall_error_ms = [0, 86_400_000, -86_400_000, 3_600_000][number as usize % 4] * number as i64;
        self.process_with(
            name,
            clocks(self.0.origin, wall_error_ms, secs(1_000 * number as u64), 1_000),
        )
    }

    /// A process whose clocks run slow or fast, in thousandths.
    pub(super) fn process_at_rate(&self, name: &str, rate: u64) -> Process {
        self.process_with(name, clocks(self.0.origin, 0, secs(7), rate))
    }

    /// A process that has other settings than the rest.
    pub(super) fn process_with_settings(&self, name: &str, settings: Settings) -> Process {
        self.make(name, clocks(self.0.origin, 0, secs(7), 1_000), settings)
    }

    fn process_with(&self, name: &str, clocks: Arc<Clocks>) -> Process {
        self.make(name, clocks, self.0.settings.clone())
    }

    fn make(&self, name: &str, clocks: Arc<Clocks>, settings: Settings) -> Process {
        let number = {
            let mut facts = self.0.facts.lock();
            facts.processes += 1;
            facts.processes
        };
        let counter = AtomicU64::new(0);
        let random = move || {
            let count = counter.fetch_add(1, Ordering::Relaxed);
            // Virtual time stands still for a task that never waits: it must not take the machine with it.
            assert!(count < 20_000, "a process writes without end");
            number << 64 | u128::from(count)
        };
        let machine = Machine {
            clock: clocks.clone(),
            boot: clocks.clone(),
            random: Arc::new(random),
            host: format!("host-of-{name}"),
            process: 4_000 + number as u32,
        };
        let objects = self.0.root.client(clocks.clone());
        objects.set_latency(Latency {
            put: ms(5),
            get: ms(3),
            list: ms(5),
            delete: ms(3),
        });
        let bucket = Bucket::new(Arc::new(objects.clone()), Path::from("app"), "s3://bucket/app");
        let candidate = Candidate::new(&bucket, Shard(0), settings, machine, Runtime::current());
        Process {
            name: name.to_owned(),
            clocks,
            bucket: objects,
            candidate: candidate.unwrap(),
            world: self.clone(),
            held: Arc::default(),
        }
    }

    /// The bucket itself, without faults.
    pub(super) fn bucket(&self) -> FaultyBucket {
        self.0.root.client(clocks(self.0.origin, 0, Duration::ZERO, 1_000))
    }

    pub(super) fn now(&self) -> Duration {
        self.0.origin.elapsed()
    }

    /// Counts the owners of this moment. A second one begins when it acquires or renews, and lasts until it fails to: so
    /// every acquisition is observed, and every moment now and then.
    pub(super) fn observe(&self) {
        let owners: Vec<String> = {
            let owners = self.0.owners.lock();
            let valid = owners.iter().filter(|(_, handle)| handle.would_be_valid());
            valid.map(|(name, _)| name.clone()).collect()
        };
        let mut facts = self.0.facts.lock();
        let now = self.0.origin + self.now();
        match owners.len() {
            0 => {
                let since = *facts.unowned_since.get_or_insert(now);
                if facts.had_owner {
                    facts.longest_gap = facts.longest_gap.max(now - since);
                }
            }
            1 => {
                facts.unowned_since = None;
                facts.had_owner = true;
            }
            _ => facts
                .violations
                .push(format!("at {:?}: {}", self.now(), owners.join(" and "))),
        }
    }

    fn own(&self, name: &str, handle: Handle) {
        self.0.owners.lock().push((name.to_owned(), handle));
        self.observe();
    }

    /// The owner of this moment.
    pub(super) fn owner(&self) -> Option<String> {
        let owners = self.0.owners.lock();
        let valid = owners.iter().find(|(_, handle)| handle.would_be_valid());
        valid.map(|(name, _)| name.clone())
    }

    /// Waits until somebody owns the shard.
    pub(super) async fn owned(&self, limit: Duration) -> Option<String> {
        let owned = async {
            while self.owner().is_none() {
                pass(ms(5)).await;
            }
        };
        within(limit, owned).await?;
        self.owner()
    }

    /// Moments at which there was more than one owner.
    pub(super) fn violations(&self) -> Vec<String> {
        self.0.facts.lock().violations.clone()
    }

    /// The longest time without an owner, after there had been one.
    pub(super) fn longest_gap(&self) -> Duration {
        self.0.facts.lock().longest_gap
    }

    /// Fails if there ever was more than one owner.
    #[track_caller]
    pub(super) fn check(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "two owners: {}", violations[0]);
    }
}

fn clocks(origin: Instant, wall_error_ms: i64, boot_origin: Duration, rate: u64) -> Arc<Clocks> {
    Arc::new(Clocks {
        origin,
        wall_error_ms: AtomicI64::new(wall_error_ms),
        boot_origin,
        rate,
        lost: AtomicU64::new(0),
        is_frozen: watch::Sender::new(false),
    })
}

impl Process {
    pub(super) async fn acquire(&self, wait: Wait) -> Result<Held, Error> {
        let held = self.candidate.acquire(wait).await?;
        self.world.own(&self.name, held.handle());
        Ok(held)
    }

    /// Acquires without waiting for others.
    pub(super) async fn acquire_now(&self) -> Held {
        self.acquire(Wait::For(Duration::ZERO)).await.unwrap()
    }

    /// Waits for the lease in the background and keeps it.
    pub(super) fn stand_by(&self) {
        let this = self.clone();
        tokio::spawn(async move {
            if let Ok(held) = this.acquire(Wait::Forever).await {
                *this.held.lock() = Some(held);
            }
        });
    }

    /// Stops the process with all its clocks but the one since boot.
    pub(super) fn freeze(&self) {
        self.clocks.is_frozen.send_replace(true);
        self.bucket.freeze();
    }

    pub(super) fn thaw(&self) {
        self.clocks.is_frozen.send_replace(false);
        self.bucket.thaw();
    }

    /// When it last wrote the lease with success, and when it first did, in virtual time.
    pub(super) fn writes(&self) -> Vec<Duration> {
        let wall_error_ms = self.clocks.wall_error_ms.load(Ordering::Relaxed);
        let at = |at_ms: u64| ms((at_ms as i64 - EPOCH_MS - wall_error_ms) as u64);
        let records = self.bucket.records();
        let lease = records
            .iter()
            .filter(|record| record.request.method == Method::Put && record.request.path.as_ref().ends_with("/lease"));
        lease
            .filter(|record| record.is_ok())
            .map(|record| at(record.request.at_ms))
            .collect()
    }
}

//! Polling the store for work that other processes queued, as long as a fetch here waits for it.

use super::poll::{Found, poll};
use crate::board::{Want, WorkWant};
use crate::chores;
use crate::engine::Engine;
use crate::lazy_task::LazyTask;
use crate::records::lanes::{self, work_topic};
use crate::records::member::Serves;
use crate::shared::{Shared, members};
use crate::tuning::{
    CHORES_EVERY_MS, CHORES_FIRST_MS, CHORES_SECOND_MS, POLL_ASLEEP_MS, POLL_BUSY_MS, POLL_FALL_ASLEEP_MS,
    POLL_FRESH_MS, POLL_IDLE_MS, POLL_PAGES_AHEAD,
};
use duroxide::providers::TagFilter;
use parking_lot::Mutex;
use perennial_store::{Order, Result, Topics};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::warn;

/// What polls the store for work.
#[derive(Default)]
pub struct Poller {
    task: LazyTask,
    /// Whether the store has been polled at all.
    polled: AtomicBool,
    /// Whether other processes are expected to bring work soon.
    expecting: AtomicBool,
    /// When the store was last polled with success.
    pub polled_ms: AtomicU64,
    /// Held while polling because what a fetch could take may be gone.
    refreshing: tokio::sync::Mutex<()>,
    /// Where the last page ended, if there was more: what stands in front may be nothing for this process.
    pub cursor: Mutex<Option<Order>>,
}

impl Poller {
    /// Activities were left to other processes: their results are expected soon.
    pub fn expect_results(&self) {
        self.expecting.store(true, Ordering::Relaxed);
    }
}

/// The work that fetches of this process wait for.
#[derive(Default)]
struct Wanted(Serves);

impl Wanted {
    fn add(&mut self, want: &Want) {
        let Self(serves) = self;
        match want {
            Want::Turn(_) => drop(serves.topics.insert(Arc::from(lanes::TURN))),
            Want::Work(want) => match &want.tags {
                TagFilter::None => {}
                TagFilter::DefaultOnly => drop(serves.topics.insert(work_topic(None))),
                TagFilter::Any => serves.any_work = true,
                TagFilter::Tags(tags) => serves.topics.extend(tags.iter().map(|tag| work_topic(Some(tag)))),
                TagFilter::DefaultAnd(tags) => {
                    serves.topics.insert(work_topic(None));
                    serves.topics.extend(tags.iter().map(|tag| work_topic(Some(tag))));
                }
            },
        }
    }

    /// The topics to poll, and whether turns are among them.
    fn topics(self) -> Option<(Topics, bool)> {
        let Self(serves) = self;
        let turns = serves.takes(lanes::TURN);
        if serves.any_work {
            return Some((Topics::All, turns));
        }
        (!serves.topics.is_empty()).then_some((
            Topics::These {
                topics: serves.topics,
                default: false,
            },
            turns,
        ))
    }
}

/// How long to wait between two polls.
struct Cadence {
    wait_ms: u64,
    since_ms: u64,
}

impl Cadence {
    /// Whether no process brings work, but not for so long that polls are rare.
    fn is_idle(&self) -> bool {
        self.wait_ms == POLL_IDLE_MS
    }

    fn next(&mut self, news: bool, now_ms: u64) -> Duration {
        if news {
            (self.wait_ms, self.since_ms) = (POLL_BUSY_MS, now_ms);
        } else {
            let asleep = now_ms.saturating_sub(self.since_ms) > POLL_FALL_ASLEEP_MS;
            self.wait_ms = (self.wait_ms * 3 / 2).min(if asleep { POLL_ASLEEP_MS } else { POLL_IDLE_MS });
        }
        Duration::from_millis(self.wait_ms)
    }
}

/// When to do chores.
struct ChoreRounds {
    next_ms: u64,
    wait_ms: u64,
}

impl ChoreRounds {
    /// Does chores if it is time to; returns whether a request was made for that.
    async fn run_if_due(&mut self, engine: &Arc<Engine>, shared: &Shared, leisurely: bool, now_ms: u64) -> bool {
        if now_ms < self.next_ms {
            return false;
        }
        engine.board.lock().0.forget_unwanted();
        let outcome = announce_or_run(engine, shared, leisurely).await;
        if !matches!(outcome, Ok(Round::Announced)) {
            self.next_ms = now_ms + std::mem::replace(&mut self.wait_ms, CHORES_EVERY_MS);
        }
        if let Err(error) = outcome {
            warn!(%error, "chores are put off");
        }
        true
    }
}

/// What a round did.
enum Round {
    /// This process has announced itself; chores are still to be looked for.
    Announced,
    /// All chores that are due.
    Chores,
}

/// Announces this process, if it is time to, and does chores, among which it meets the other processes that work on the
/// store. Only one of both if it is `leisurely`.
async fn announce_or_run(engine: &Arc<Engine>, shared: &Shared, leisurely: bool) -> Result<Round> {
    if members::announce(engine, shared).await? && leisurely {
        return Ok(Round::Announced);
    }
    chores::round(engine).await?;
    shared.members.met_all();
    Ok(Round::Chores)
}

/// A run of the poller, from the first fetch that waits to the last.
struct Watch {
    cadence: Cadence,
    chores: ChoreRounds,
}

impl Watch {
    fn new(now_ms: u64, seed: u64) -> Self {
        let (soon_ms, spread_ms) = CHORES_FIRST_MS;
        Self {
            cadence: Cadence {
                wait_ms: POLL_BUSY_MS,
                since_ms: now_ms,
            },
            chores: ChoreRounds {
                next_ms: now_ms + soon_ms + seed % spread_ms,
                wait_ms: CHORES_SECOND_MS,
            },
        }
    }

    /// Polls once, or does chores; returns how long to wait, or `None` if the run is over.
    async fn step(&mut self, engine: &Arc<Engine>, shared: &Shared) -> Option<Duration> {
        let now_ms = engine.clock.now_ms();
        let (topics, turns) = wanted_or_end(engine, shared)?;
        if engine.is_closed() {
            return None;
        }
        let idle = self.cadence.is_idle();
        let busy = self.chores.run_if_due(engine, shared, idle, now_ms).await;
        // An idle process makes one request at a time.
        let found = if busy && idle {
            Found::default()
        } else {
            poll(engine, shared, topics, turns).await.unwrap_or_else(|error| {
                warn!(%error, "the store cannot be polled for work; trying again");
                Found::default()
            })
        };
        let expecting = shared.poller.expecting.swap(false, Ordering::Relaxed);
        let now_ms = engine.clock.now_ms();
        let wait = self.cadence.next(found.news > 0 || expecting, now_ms);
        Some(found.next_poll(wait, now_ms))
    }
}

/// Polls the store for work, from now until no fetch waits any more.
pub fn watch(engine: &Arc<Engine>, shared: &Arc<Shared>) {
    let run = || run(Arc::downgrade(engine), Arc::clone(shared));
    shared.poller.task.start(engine.spawner, run);
}

async fn run(engine: Weak<Engine>, shared: Arc<Shared>) {
    let mut watch = None;
    loop {
        let (clock, wait) = {
            let Some(engine) = engine.upgrade() else { return };
            let watch = watch.get_or_insert_with(|| Watch::new(engine.clock.now_ms(), shared.seed));
            let Some(wait) = watch.step(&engine, &shared).await else {
                return;
            };
            (Arc::clone(&engine.clock), wait)
        };
        clock.sleep(wait).await;
    }
}

/// What the fetches want that wait; `None` if there are none and the poller must end.
fn wanted_or_end(engine: &Engine, shared: &Shared) -> Option<(Topics, bool)> {
    loop {
        if let Some(wanted) = wanted(engine, shared) {
            return Some(wanted);
        }
        if shared.poller.task.may_end(|| wanted(engine, shared).is_none()) {
            return None;
        }
    }
}

fn wanted(engine: &Engine, shared: &Shared) -> Option<(Topics, bool)> {
    let mut wanted = Wanted::default();
    engine.board.lock().0.wants().for_each(|want| wanted.add(want));
    shared.members.serve(&wanted.0);
    wanted.topics()
}

/// Polls on while what this process knows of came later than what it has not seen yet.
async fn poll_ahead(engine: &Arc<Engine>, shared: &Shared, want: &Want) {
    for _ in 0..POLL_PAGES_AHEAD {
        let Some(seen) = *shared.poller.cursor.lock() else {
            return;
        };
        let first = engine.board.lock().0.first_of(want);
        if first.is_none_or(|first| first <= seen)
            || !poll(engine, shared, Topics::All, true)
                .await
                .is_ok_and(|found| found.news > 0)
        {
            return;
        }
    }
}

/// Polls before the first fetch: what was there before this process must not stand behind what it brings itself.
pub async fn poll_first(engine: &Arc<Engine>, shared: &Shared, want: &Want) {
    if !shared.poller.polled.swap(true, Ordering::AcqRel) {
        // What cannot be had now is had later.
        poll(engine, shared, Topics::All, true).await.ok();
    }
    poll_ahead(engine, shared, want).await;
}

/// Polls again before an activity is taken that another process is preferred for: that one may long have done it.
pub async fn refresh_foreign(engine: &Arc<Engine>, shared: &Shared, want: &WorkWant) {
    let is_foreign = || {
        let (board, now_ms) = engine.board.lock();
        board.would_take_foreign(want, now_ms)
    };
    if !is_foreign() {
        return;
    }
    let _refreshing = shared.poller.refreshing.lock().await;
    let polled_ms = shared.poller.polled_ms.load(Ordering::Relaxed);
    if engine.clock.now_ms().abs_diff(polled_ms) > POLL_FRESH_MS && is_foreign() {
        // If the poll fails, what is known here is taken.
        poll_now(engine, shared, &Want::Work(want.clone())).await;
    }
}

/// Polls once, for a fetch that does not wait; returns whether there was news.
pub async fn poll_now(engine: &Arc<Engine>, shared: &Shared, want: &Want) -> bool {
    let mut wanted = Wanted::default();
    wanted.add(want);
    match wanted.topics() {
        None => false,
        Some((topics, turns)) => poll(engine, shared, topics, turns)
            .await
            .is_ok_and(|found| found.news > 0),
    }
}

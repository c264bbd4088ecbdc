//! Asking the store for work that others queued, as long as somebody here waits for it.

use super::poll::{Found, poll};
use crate::board::{Want, WorkWant};
use crate::chores;
use crate::engine::Engine;
use crate::records::lanes::{self, work_topic};
use crate::records::member::Serves;
use crate::shared::{Shared, members};
use duroxide::providers::TagFilter;
use parking_lot::Mutex;
use perennial_store::{Order, Result, Topics};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::warn;

/// The shortest time between two questions: while others bring work.
pub const BUSY_MS: u64 = 25;
/// The longest, at first: when nobody brings any.
const IDLE_MS: u64 = 1_050;
/// The longest, when nobody has brought any for a while.
const ASLEEP_MS: u64 = 4_600;
/// After how long without work.
const FALL_ASLEEP_MS: u64 = 45_000;
/// How many questions are asked before something is handed out that came late.
const AHEAD: usize = 4;
/// How long an answer is good enough to take what is another process's.
const SURE_MS: u64 = 50;
/// How often chores are looked for.
const CHORES_MS: u64 = 15_000;
/// When they are first looked for: soon after those are due that a process left behind which died just before. Not all
/// processes that start together look at once.
const FIRST_CHORES_MS: (u64, u64) = (5_500, 1_000);
/// When they are looked for again: those who started together have all announced themselves by then.
const SECOND_CHORES_MS: u64 = 1_500;

/// Who asks the store for work.
#[derive(Default)]
pub struct Poller {
    running: AtomicBool,
    /// Whether anybody has looked yet.
    looked: AtomicBool,
    hurry: AtomicBool,
    /// When somebody last asked, and was answered.
    pub looked_ms: AtomicU64,
    /// Held by who asks because what it could take may be gone.
    asking: tokio::sync::Mutex<()>,
    /// Where the last question ended, if there was more: what stands in front may be nothing for us.
    pub cursor: Mutex<Option<Order>>,
}

impl Poller {
    /// Others are expected to bring work soon.
    pub fn hurry(&self) {
        self.hurry.store(true, Ordering::Relaxed);
    }
}

/// What is looked for.
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

    /// The topics to ask for, and whether turns are among them.
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

/// How long to wait between two questions.
struct Cadence {
    wait_ms: u64,
    since_ms: u64,
}

impl Cadence {
    /// Whether nobody brings work, and it is not so long that questions are rare.
    fn is_idle(&self) -> bool {
        self.wait_ms == IDLE_MS
    }

    fn next(&mut self, news: bool, now_ms: u64) -> Duration {
        if news {
            (self.wait_ms, self.since_ms) = (BUSY_MS, now_ms);
        } else {
            let asleep = now_ms.saturating_sub(self.since_ms) > FALL_ASLEEP_MS;
            self.wait_ms = (self.wait_ms * 3 / 2).min(if asleep { ASLEEP_MS } else { IDLE_MS });
        }
        Duration::from_millis(self.wait_ms)
    }
}

/// Sees to it that the store is asked for work, from now until nobody waits any more.
pub fn watch(engine: &Arc<Engine>, shared: &Arc<Shared>) {
    if !shared.poller.running.swap(true, Ordering::AcqRel) {
        engine.spawner.spawn(run(Arc::downgrade(engine), Arc::clone(shared)));
    }
}

async fn run(engine: Weak<Engine>, shared: Arc<Shared>) {
    let mut cadence = Cadence {
        wait_ms: BUSY_MS,
        since_ms: 0,
    };
    let mut chores_at_ms = 0;
    let mut chores_wait_ms = SECOND_CHORES_MS;
    loop {
        let (clock, wait) = {
            let Some(engine) = engine.upgrade() else { return };
            let now_ms = engine.clock.now_ms();
            if cadence.since_ms == 0 {
                let (soon_ms, spread_ms) = FIRST_CHORES_MS;
                (cadence.since_ms, chores_at_ms) = (now_ms, now_ms + soon_ms + shared.seed % spread_ms);
            }
            let Some((topics, turns)) = wanted(&engine, &shared) else {
                shared.poller.running.store(false, Ordering::Release);
                // Whoever began to wait just now relies on us.
                if wanted(&engine, &shared).is_none() || shared.poller.running.swap(true, Ordering::AcqRel) {
                    return;
                }
                continue;
            };
            if engine.closed.load(Ordering::Acquire) {
                return;
            }
            let mut asked = false;
            if now_ms >= chores_at_ms {
                engine.board.lock().0.forget_unwanted();
                match keep_house(&engine, &shared, cadence.is_idle()).await {
                    Ok(House::Announced) => {}
                    outcome => {
                        chores_at_ms = now_ms + std::mem::replace(&mut chores_wait_ms, CHORES_MS);
                        if let Err(error) = outcome {
                            warn!(%error, "chores are put off");
                        }
                    }
                }
                asked = true;
            }
            // Who is idle asks one thing at a time.
            let found = if asked && cadence.is_idle() {
                Found::default()
            } else {
                poll(&engine, &shared, topics, turns).await.unwrap_or_else(|error| {
                    warn!(%error, "the store cannot be asked for work; trying again");
                    Found::default()
                })
            };
            let hurry = shared.poller.hurry.swap(false, Ordering::Relaxed);
            let now_ms = engine.clock.now_ms();
            let wait = cadence.next(found.news > 0 || hurry, now_ms);
            (Arc::clone(&engine.clock), found.soon(wait, now_ms))
        };
        clock.sleep(wait).await;
    }
}

/// What was done in the house.
enum House {
    /// This process has announced itself; chores are still to be looked for.
    Announced,
    /// All that there was.
    Kept,
}

/// Announces this process, if it is time to, and does chores: who looks for them meets the others who work on the store.
/// Only one of both, if there is time.
async fn keep_house(engine: &Arc<Engine>, shared: &Shared, leisurely: bool) -> Result<House> {
    if members::announce(engine, shared).await? && leisurely {
        return Ok(House::Announced);
    }
    chores::round(engine).await?;
    shared.members.met_all();
    Ok(House::Kept)
}

fn wanted(engine: &Engine, shared: &Shared) -> Option<(Topics, bool)> {
    let mut wanted = Wanted::default();
    engine.board.lock().0.wants().for_each(|want| wanted.add(want));
    shared.members.serve(&wanted.0);
    wanted.topics()
}

/// Goes on asking while what this process knows of came later than what it has not seen yet.
async fn poll_ahead(engine: &Arc<Engine>, shared: &Shared, want: &Want) {
    for _ in 0..AHEAD {
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

/// Asks once, if nobody has yet: what was there before this process must not stand behind what it brings itself.
pub async fn poll_first(engine: &Arc<Engine>, shared: &Shared, want: &Want) {
    if !shared.poller.looked.swap(true, Ordering::AcqRel) {
        // What cannot be had now is had later.
        poll(engine, shared, Topics::All, true).await.ok();
    }
    poll_ahead(engine, shared, want).await;
}

/// Asks again before an activity is taken that is another process's: that one may long have done it.
pub async fn refresh_foreign(engine: &Arc<Engine>, shared: &Shared, want: &WorkWant) {
    let is_foreign = || {
        let (board, now_ms) = engine.board.lock();
        board.would_take_foreign(want, now_ms)
    };
    if !is_foreign() {
        return;
    }
    let _asking = shared.poller.asking.lock().await;
    let looked_ms = shared.poller.looked_ms.load(Ordering::Relaxed);
    if engine.clock.now_ms().abs_diff(looked_ms) > SURE_MS && is_foreign() {
        // Who cannot ask takes what it knows of.
        poll_now(engine, shared, &Want::Work(want.clone())).await;
    }
}

/// Asks once, for somebody who does not wait; returns whether there was news.
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

//! Asking the store for work that others queued, as long as somebody here waits for it.

use crate::board::{Body, Covered, Hint, Letter, Sort, Task, Want, WorkWant};
use crate::chores;
use crate::engine::Engine;
use crate::outbox::{Fate, Origin};
use crate::records::envelope::Envelope;
use crate::records::member::Serves;
use crate::records::queues::{self, work_topic};
use crate::records::work::Activity;
use crate::records::{instance_of, message};
use crate::recover;
use crate::shared::{Home, Shared, home_of, members};
use duroxide::providers::TagFilter;
use parking_lot::Mutex;
use perennial_store::{DueQuery, Error, Key, Lane, Order, Place, Record, Result, Topics};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::warn;

/// How many records one question asks for.
const PAGE: usize = 64;
/// How much may be known before no more is asked for.
const ENOUGH: usize = 2_048;
/// The shortest time between two questions: while others bring work.
const BUSY_MS: u64 = 25;
/// The longest, at first: when nobody brings any.
const IDLE_MS: u64 = 1_150;
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
pub struct Lookout {
    running: AtomicBool,
    /// Whether anybody has looked yet.
    looked: AtomicBool,
    hurry: AtomicBool,
    /// When somebody last asked, and was answered.
    looked_ms: AtomicU64,
    /// Held by who asks because what it could take may be gone.
    asking: tokio::sync::Mutex<()>,
    /// Where the last question ended, if there was more: what stands in front may be nothing for us.
    cursor: Mutex<Option<Order>>,
}

impl Lookout {
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
            Want::Turn(_) => drop(serves.topics.insert(Arc::from(queues::TURN))),
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
        let turns = serves.takes(queues::TURN);
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
struct Rhythm {
    wait_ms: u64,
    since_ms: u64,
}

impl Rhythm {
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
pub fn watch(engine: &Arc<Engine>) {
    let Some(shared) = &engine.shared else { return };
    if !shared.lookout.running.swap(true, Ordering::AcqRel) {
        tokio::spawn(keep_watch(Arc::downgrade(engine)));
    }
}

async fn keep_watch(engine: Weak<Engine>) {
    let mut rhythm = Rhythm {
        wait_ms: BUSY_MS,
        since_ms: 0,
    };
    let mut chores_at_ms = 0;
    let mut chores_wait_ms = SECOND_CHORES_MS;
    loop {
        let (clock, wait) = {
            let Some(engine) = engine.upgrade() else { return };
            let Some(shared) = &engine.shared else { return };
            let now_ms = engine.clock.now_ms();
            if rhythm.since_ms == 0 {
                let (soon_ms, spread_ms) = FIRST_CHORES_MS;
                (rhythm.since_ms, chores_at_ms) = (now_ms, now_ms + soon_ms + shared.seed % spread_ms);
            }
            let Some((topics, turns)) = wanted(&engine) else {
                shared.lookout.running.store(false, Ordering::Release);
                // Whoever began to wait just now relies on us.
                if wanted(&engine).is_none() || shared.lookout.running.swap(true, Ordering::AcqRel) {
                    return;
                }
                continue;
            };
            if engine.closed.load(Ordering::Acquire) {
                return;
            }
            if now_ms >= chores_at_ms {
                chores_at_ms = now_ms + std::mem::replace(&mut chores_wait_ms, CHORES_MS);
                engine.board.lock().0.forget_unwanted();
                if let Err(error) = keep_house(&engine).await {
                    warn!(%error, "chores are put off");
                }
            }
            let found = match look(&engine, topics, turns).await {
                Ok(found) => found,
                Err(error) => {
                    warn!(%error, "the store cannot be asked for work; trying again");
                    Found::default()
                }
            };
            let hurry = shared.lookout.hurry.swap(false, Ordering::Relaxed);
            let now_ms = engine.clock.now_ms();
            let wait = rhythm.next(found.news > 0 || hurry, now_ms);
            (Arc::clone(&engine.clock), found.soon(wait, now_ms))
        };
        clock.sleep(wait).await;
    }
}

/// Does chores; who looks for them meets the others who work on the store.
async fn keep_house(engine: &Arc<Engine>) -> Result<()> {
    members::announce(engine).await?;
    chores::round(engine).await?;
    if let Some(shared) = &engine.shared {
        shared.members.met_all();
    }
    Ok(())
}

fn wanted(engine: &Engine) -> Option<(Topics, bool)> {
    let mut wanted = Wanted::default();
    engine.board.lock().0.wants().for_each(|want| wanted.add(want));
    if let Some(shared) = &engine.shared {
        shared.members.serve(&wanted.0);
    }
    wanted.topics()
}

/// Goes on asking while what this process knows of came later than what it has not seen yet.
async fn look_ahead(engine: &Arc<Engine>, want: &Want) {
    for _ in 0..AHEAD {
        let Some(seen) = engine.shared.as_ref().and_then(|shared| *shared.lookout.cursor.lock()) else {
            return;
        };
        let first = engine.board.lock().0.first_of(want);
        if first.is_none_or(|first| first <= seen)
            || !look(engine, Topics::All, true).await.is_ok_and(|found| found.news > 0)
        {
            return;
        }
    }
}

/// Asks once, if nobody has yet: what was there before this process must not stand behind what it brings itself.
pub async fn look_first(engine: &Arc<Engine>, want: &Want) {
    let first = |shared: &Shared| !shared.lookout.looked.swap(true, Ordering::AcqRel);
    if engine.shared.as_ref().is_some_and(first) {
        // What cannot be had now is had later.
        look(engine, Topics::All, true).await.ok();
    }
    look_ahead(engine, want).await;
}

/// Asks again before an activity is taken that is another process's: that one may long have done it.
pub async fn make_sure(engine: &Arc<Engine>, want: &WorkWant) {
    let Some(shared) = &engine.shared else { return };
    let is_foreign = || {
        let (board, now_ms) = engine.board.lock();
        board.would_take_foreign(want, now_ms)
    };
    if !is_foreign() {
        return;
    }
    let _asking = shared.lookout.asking.lock().await;
    let looked_ms = shared.lookout.looked_ms.load(Ordering::Relaxed);
    if engine.clock.now_ms().abs_diff(looked_ms) > SURE_MS && is_foreign() {
        // Who cannot ask takes what it knows of.
        look_now(engine, &Want::Work(want.clone())).await;
    }
}

/// Asks once, for somebody who does not wait; returns whether there was news.
pub async fn look_now(engine: &Arc<Engine>, want: &Want) -> bool {
    if engine.shared.is_none() {
        return false;
    }
    let mut wanted = Wanted::default();
    wanted.add(want);
    match wanted.topics() {
        None => false,
        Some((topics, turns)) => look(engine, topics, turns).await.is_ok_and(|found| found.news > 0),
    }
}

/// What an answer of the store brought.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// How much was new.
    news: usize,
    /// When something may be taken that is left to others until then.
    again_ms: Option<u64>,
    /// Whether there is more to do than the answer tells.
    backlog: bool,
}

impl Found {
    /// Something is left to others until this time.
    fn left_until(&mut self, until_ms: u64) {
        self.again_ms = Some(self.again_ms.map_or(until_ms, |again_ms| again_ms.min(until_ms)));
    }

    /// How long to wait before the next question.
    fn soon(&self, wait: Duration, now_ms: u64) -> Duration {
        let again = self
            .again_ms
            .map(|again_ms| again_ms.saturating_sub(now_ms).max(BUSY_MS));
        again.map_or(wait, |again_ms| wait.min(Duration::from_millis(again_ms)))
    }
}

/// Asks the store for work and puts it on the board. What it does not tell of any more is taken off.
async fn look(engine: &Arc<Engine>, topics: Topics, turns: bool) -> Result<Found> {
    let mut found = Found::default();
    let Some(shared) = &engine.shared else { return Ok(found) };
    if engine.board.lock().0.known() > ENOUGH {
        return Ok(found);
    }
    let after = *shared.lookout.cursor.lock();
    let until_ms = engine.clock.now_ms();
    let covered = Covered {
        topics: &topics,
        after,
        until_ms,
    };
    let hints = engine.board.lock().0.hints(&covered);
    let query = DueQuery {
        topics: topics.clone(),
        after,
        ..DueQuery::new(&Lane::new(queues::READY), until_ms, PAGE)
    };
    let page = engine.parts.due_outlined(&query).await?;
    shared.lookout.looked_ms.store(until_ms, Ordering::Relaxed);
    let last = page.records.last().and_then(|record| record.place.as_ref());
    let end = last.filter(|_| page.more).map(|place| place.order);
    *shared.lookout.cursor.lock() = end;
    forget_untold(engine, hints, &page.records, end);
    found.backlog = page.more;
    for record in page.records {
        learn(engine, record, turns, &mut found).await?;
    }
    if found.backlog && found.news == 0 {
        // There is more to do, for this process too.
        found.left_until(0);
    }
    Ok(found)
}

/// Takes off the board what an answer does not tell of that goes up to the order `end`.
fn forget_untold(engine: &Engine, mut hints: Vec<Hint>, told: &[Record], end: Option<Order>) {
    let told: HashSet<&Key> = told.iter().map(|record| &record.key).collect();
    // Of what came at the very end, some may be left for the next answer.
    hints.retain(|hint| end.is_none_or(|end| hint.order < end) && !told.contains(&hint.key));
    if !hints.is_empty() {
        engine.board.lock().0.forget_hints(hints);
    }
}

/// Puts a queued record on the board; one that cannot be read is set aside, in nobody's way.
async fn learn(engine: &Arc<Engine>, mut record: Record, turns: bool, found: &mut Found) -> Result<()> {
    let Some(place) = record.place.clone() else {
        return Ok(());
    };
    engine.orders.pass(place.order);
    if engine.board.lock().0.is_known(&record, place.order) {
        return Ok(());
    }
    let is_message = record.key.id.below(&message::root()).is_some();
    if is_message && !turns {
        return Ok(());
    }
    if let Some(until_ms) = left_alone(engine, &record, is_message, found.backlog) {
        found.left_until(until_ms);
        return Ok(());
    }
    if record.body.is_empty() && is_message {
        found.news += usize::from(learn_letter(engine, record, place, None));
        return Ok(());
    }
    if record.body.is_empty() {
        record = match engine.store.get(&record.key).await? {
            // Another process may have claimed it since the store told that it was due.
            Some(whole) if whole.version == record.version => whole,
            _ => return Ok(()),
        };
    }
    let envelope = match Envelope::open(&record) {
        Ok(envelope) => envelope,
        Err(why @ Error::Corrupt(_)) => {
            let lane = if is_message { queues::TURN } else { queues::WORK };
            match recover::quarantine(engine, record, place, lane, &why).await {
                // Another process was faster.
                Ok(()) | Err(Error::Conflict { .. }) => return Ok(()),
                Err(other) => return Err(other),
            }
        }
        Err(other) => return Err(other),
    };
    let bytes = record.body.len();
    let news = match Activity::of(&envelope.item) {
        Some(activity) => {
            let foreign = engine.is_foreign(activity.tag.as_deref(), place.order);
            let task = Task {
                key: record.key,
                version: record.version,
                activity,
                attempts: envelope.attempts,
                noted: envelope.attempts,
                old: false,
                body: engine.body(envelope.item, bytes),
                due_ms: place.due_ms,
                reserved_ms: 0,
                foreign,
            };
            let (mut board, now_ms) = engine.board.lock();
            board.learn_task(place.order, task, now_ms)
        }
        None => turns && learn_letter(engine, record, place, Some(envelope)),
    };
    found.news += usize::from(news);
    Ok(())
}

/// Until when something is left to others: to who works on the instance, or to whose it is.
fn left_alone(engine: &Engine, record: &Record, is_message: bool, backlog: bool) -> Option<u64> {
    let now_ms = engine.clock.now_ms();
    let shared = engine.shared.as_ref()?;
    let instance = instance_of(&record.key.partition);
    let is_home = is_message && home_of(engine, shared, instance) == Home::Here;
    let by_affinity = shared.members.left_until(&shared.owner, record, backlog, now_ms);
    by_affinity.filter(|_| !is_home).or_else(|| {
        let (board, now_ms) = engine.board.lock();
        board.left_alone_until(instance, now_ms).filter(|_| is_message)
    })
}

/// Puts a message on the board; one that is large is not opened for that.
fn learn_letter(engine: &Engine, record: Record, place: Place, envelope: Option<Envelope>) -> bool {
    let instance: Arc<str> = Arc::from(instance_of(&record.key.partition));
    let attempts = envelope.as_ref().map_or(0, |envelope| envelope.attempts);
    let sort = envelope
        .as_ref()
        .map_or(Sort::Other, |envelope| Sort::of(&envelope.item));
    let from = envelope.and_then(|envelope| envelope.from);
    let letter = Letter {
        id: record.key.id,
        version: record.version,
        due_ms: place.due_ms,
        attempts,
        noted: attempts,
        old: false,
        certain: false,
        since: None,
        from: from.map(|from| Arc::new(Origin::new(from, Fate::Unknown))),
        sort,
        // It is read when its instance is claimed.
        body: Body::Stored,
    };
    let pin = engine.known_pin(&instance);
    let (mut board, now_ms) = engine.board.lock();
    board.learn_letter(&instance, place.order, letter, pin, now_ms)
}

//! One question to the store for work, and what becomes of its answer.

use super::poller::BUSY_MS;
use crate::board::{Body, Covered, Hint, MessageKind, QueuedActivity, QueuedMessage};
use crate::engine::Engine;
use crate::outbox::{Fate, Origin};
use crate::records::envelope::Envelope;
use crate::records::head::Head;
use crate::records::work::Activity;
use crate::records::{decode, instance_of, lanes, message};
use crate::recover;
use crate::shared::turn::set_free;
use crate::shared::{Affinity, Shared, affinity_of};
use perennial_store::{DueQuery, Error, Key, Lane, Order, Place, Record, Result, Topics};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How many records one question asks for.
const PAGE: usize = 64;
/// How much may be known before no more is asked for.
const ENOUGH: usize = 2_048;

/// What an answer of the store brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// How much was new.
    pub news: usize,
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
    pub fn soon(&self, wait: Duration, now_ms: u64) -> Duration {
        let again = self
            .again_ms
            .map(|again_ms| again_ms.saturating_sub(now_ms).max(BUSY_MS));
        again.map_or(wait, |again_ms| wait.min(Duration::from_millis(again_ms)))
    }
}

/// Asks the store for work and puts it on the board. What it does not tell of any more is taken off.
pub async fn poll(engine: &Arc<Engine>, shared: &Shared, topics: Topics, turns: bool) -> Result<Found> {
    let mut found = Found::default();
    if engine.board.lock().0.known() > ENOUGH {
        return Ok(found);
    }
    let after = *shared.poller.cursor.lock();
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
        ..DueQuery::new(&Lane::new(lanes::READY), until_ms, PAGE)
    };
    let page = engine.parts.due_inline(&query).await?;
    shared.poller.looked_ms.store(until_ms, Ordering::Relaxed);
    let end = page.end().filter(|_| page.more);
    *shared.poller.cursor.lock() = end;
    forget_untold(engine, hints, &page.records, end);
    found.backlog = page.more;
    for record in page.records {
        ingest(engine, shared, record, turns, &mut found).await?;
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
async fn ingest(
    engine: &Arc<Engine>,
    shared: &Shared,
    mut record: Record,
    turns: bool,
    found: &mut Found,
) -> Result<()> {
    let Some(place) = record.place.clone() else {
        return Ok(());
    };
    engine.orders.pass(place.order);
    if record.key.id == Head::id() {
        found.news += usize::from(turns && free_inline(engine, record, place).await?);
        return Ok(());
    }
    if engine.board.lock().0.is_known(&record, place.order) {
        return Ok(());
    }
    let is_message = record.key.id.below(&message::root()).is_some();
    if is_message && !turns {
        return Ok(());
    }
    // What is large is not opened to ingest of its session.
    if (is_message || record.body.is_empty())
        && let Some(until_ms) = left_alone(engine, shared, &record, None, found.backlog)
    {
        found.left_until(until_ms);
        return Ok(());
    }
    let outlined = record.body.is_empty();
    if record.body.is_empty() && is_message {
        found.news += usize::from(ingest_message(engine, record, place, None));
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
            let lane = if is_message { lanes::TURN } else { lanes::WORK };
            return set_aside(engine, record, place, lane, &why).await;
        }
        Err(other) => return Err(other),
    };
    let bytes = record.body.len();
    let news = match Activity::of(&envelope.item) {
        Some(activity) => {
            if !outlined && let Some(until_ms) = left_alone(engine, shared, &record, Some(&activity), found.backlog) {
                found.left_until(until_ms);
                return Ok(());
            }
            let foreign = engine.is_foreign(&activity, place.order);
            let queued = QueuedActivity {
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
            board.ingest_activity(place.order, queued, now_ms)
        }
        None => turns && ingest_message(engine, record, place, Some(envelope)),
    };
    found.news += usize::from(news);
    Ok(())
}

/// A message in a head that nobody works on any more gets a record; the next answer tells of that one.
async fn free_inline(engine: &Engine, mut record: Record, place: Place) -> Result<bool> {
    if record.body.is_empty() {
        record = match engine.store.get(&record.key).await? {
            Some(whole) if whole.version == record.version => whole,
            _ => return Ok(false),
        };
    }
    match decode(&record) {
        Ok(head) => set_free(engine, record, head).await,
        Err(why @ Error::Corrupt(_)) => {
            set_aside(engine, record, place, lanes::TURN, &why).await?;
            Ok(false)
        }
        Err(other) => Err(other),
    }
}

/// Sets a record aside that cannot be read, unless another process was faster.
async fn set_aside(engine: &Engine, record: Record, place: Place, lane: &str, why: &Error) -> Result<()> {
    match recover::quarantine(engine, record, place, lane, why).await {
        Ok(()) | Err(Error::Conflict { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Until when something is left to others: to who works on the instance, or to whose it is.
fn left_alone(
    engine: &Engine,
    shared: &Shared,
    record: &Record,
    activity: Option<&Activity>,
    backlog: bool,
) -> Option<u64> {
    let (board, now_ms) = engine.board.lock();
    let instance = instance_of(&record.key.partition);
    let is_message = record.key.id.below(&message::root()).is_some();
    let session = activity.and_then(|activity| activity.session.as_deref());
    let is_ours = if is_message {
        affinity_of(engine, shared, instance) == Affinity::Here
    } else {
        session.is_some_and(|session| board.holds_session(session, now_ms))
    };
    let by_affinity = || {
        shared
            .members
            .left_until(&shared.owner, record, session, backlog, now_ms)
    };
    let by_claim = || board.left_alone_until(instance, now_ms).filter(|_| is_message);
    if is_ours { None } else { by_affinity() }.or_else(by_claim)
}

/// Puts a message on the board; one that is large is not opened for that.
fn ingest_message(engine: &Engine, record: Record, place: Place, envelope: Option<Envelope>) -> bool {
    let instance: Arc<str> = Arc::from(instance_of(&record.key.partition));
    let attempts = envelope.as_ref().map_or(0, |envelope| envelope.attempts);
    let sort = envelope
        .as_ref()
        .map_or(MessageKind::Other, |envelope| MessageKind::of(&envelope.item));
    let from = envelope.and_then(|envelope| envelope.from);
    let queued = QueuedMessage {
        id: record.key.id,
        version: record.version,
        due_ms: place.due_ms,
        attempts,
        noted: attempts,
        old: false,
        certain: false,
        since: None,
        inline: false,
        from: from.map(|from| Arc::new(Origin::new(from, Fate::Unknown))),
        sort,
        // It is read when its instance is claimed.
        body: Body::Stored,
    };
    let pin = engine.known_pin(&instance);
    let (mut board, now_ms) = engine.board.lock();
    board.ingest_message(&instance, place.order, queued, pin, now_ms)
}

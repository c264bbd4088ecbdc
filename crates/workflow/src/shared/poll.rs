//! One poll of the store for work, and what becomes of its result.

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
use crate::tuning::{POLL_BUSY_MS, POLL_ENOUGH, POLL_PAGE};
use perennial_store::{DueQuery, Error, Key, Lane, Order, Place, Record, Result, Topics};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a poll brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// How much was new.
    pub news: usize,
    /// When something may be taken that is left to another process until then.
    again_ms: Option<u64>,
    /// Whether there is more to do than fits into one page.
    backlog: bool,
}

impl Found {
    /// Something is left to another process until this time.
    fn deferred(&mut self, until_ms: u64) {
        self.again_ms = Some(self.again_ms.map_or(until_ms, |again_ms| again_ms.min(until_ms)));
    }

    fn count(&mut self, is_new: bool) {
        self.news += usize::from(is_new);
    }

    /// How long to wait before the next poll, at most `wait`.
    pub fn next_poll(&self, wait: Duration, now_ms: u64) -> Duration {
        let again = self
            .again_ms
            .map(|again_ms| again_ms.saturating_sub(now_ms).max(POLL_BUSY_MS));
        again.map_or(wait, |again_ms| wait.min(Duration::from_millis(again_ms)))
    }
}

/// Queries the store for work and puts it on the board. What it does not return any more is taken off.
pub async fn poll(engine: &Arc<Engine>, shared: &Shared, topics: Topics, turns: bool) -> Result<Found> {
    let mut found = Found::default();
    if engine.board.lock().0.known() > POLL_ENOUGH {
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
        ..DueQuery::new(&Lane::new(lanes::READY), until_ms, POLL_PAGE)
    };
    let page = engine.parts.due_inline(&query).await?;
    shared.poller.polled_ms.store(until_ms, Ordering::Relaxed);
    let end = page.end().filter(|_| page.more);
    *shared.poller.cursor.lock() = end;
    forget_missing(engine, hints, &page.records, end);
    found.backlog = page.more;
    for record in page.records {
        ingest(engine, shared, record, turns, &mut found).await?;
    }
    if found.backlog && found.news == 0 {
        // There is more to do, for this process too.
        found.deferred(0);
    }
    Ok(found)
}

/// Takes off the board what a page should have returned, up to the order `end`, and did not.
fn forget_missing(engine: &Engine, mut hints: Vec<Hint>, returned: &[Record], end: Option<Order>) {
    let returned: HashSet<&Key> = returned.iter().map(|record| &record.key).collect();
    // Of several records of the very last order, some may be on the next page.
    hints.retain(|hint| end.is_none_or(|end| hint.order < end) && !returned.contains(&hint.key));
    if !hints.is_empty() {
        engine.board.lock().0.forget_hints(hints);
    }
}

/// What a record that is due is to this process.
enum Due {
    /// A head with a message that no process works on.
    InlineMessage,
    /// Known already, or not wanted.
    Unwanted,
    /// Left to another process until this time.
    Deferred(u64),
    /// A message that is not opened before its instance is claimed.
    LargeMessage,
    /// A message or an activity, to be opened.
    Work,
}

fn classify(engine: &Engine, shared: &Shared, record: &Record, order: Order, turns: bool, backlog: bool) -> Due {
    if record.key.id == Head::id() {
        return if turns { Due::InlineMessage } else { Due::Unwanted };
    }
    if engine.board.lock().0.is_known(record, order) {
        return Due::Unwanted;
    }
    let is_message = is_message(record);
    if is_message && !turns {
        return Due::Unwanted;
    }
    let is_large = record.body.is_empty();
    // A large activity is not opened to learn its session.
    if (is_message || is_large)
        && let Some(until_ms) = deferred_until(engine, shared, record, None, backlog)
    {
        return Due::Deferred(until_ms);
    }
    if is_message && is_large {
        Due::LargeMessage
    } else {
        Due::Work
    }
}

/// Puts a queued record on the board; one that cannot be read is set aside, where it blocks nothing.
async fn ingest(engine: &Arc<Engine>, shared: &Shared, record: Record, turns: bool, found: &mut Found) -> Result<()> {
    let Some(place) = record.place.clone() else {
        return Ok(());
    };
    engine.orders.pass(place.order);
    match classify(engine, shared, &record, place.order, turns, found.backlog) {
        Due::InlineMessage => found.count(free_inline(engine, record, place).await?),
        Due::Unwanted => {}
        Due::Deferred(until_ms) => found.deferred(until_ms),
        Due::LargeMessage => found.count(ingest_message(engine, record, place, None)),
        Due::Work => open(engine, shared, record, place, turns, found).await?,
    }
    Ok(())
}

/// Opens a record and puts it on the board.
async fn open(
    engine: &Engine,
    shared: &Shared,
    record: Record,
    place: Place,
    turns: bool,
    found: &mut Found,
) -> Result<()> {
    let was_large = record.body.is_empty();
    let Some(record) = with_body(engine, record).await? else {
        return Ok(());
    };
    let envelope = match Envelope::open(&record) {
        Ok(envelope) => envelope,
        Err(why @ Error::Corrupt(_)) => {
            let lane = if is_message(&record) { lanes::TURN } else { lanes::WORK };
            return set_aside(engine, record, place, lane, &why).await;
        }
        Err(other) => return Err(other),
    };
    let Some(activity) = Activity::of(&envelope.item) else {
        found.count(turns && ingest_message(engine, record, place, Some(envelope)));
        return Ok(());
    };
    if !was_large && let Some(until_ms) = deferred_until(engine, shared, &record, Some(&activity), found.backlog) {
        found.deferred(until_ms);
        return Ok(());
    }
    found.count(ingest_activity(engine, record, place, activity, envelope));
    Ok(())
}

/// A record with its body; `None` if another process has claimed it since it was found.
async fn with_body(engine: &Engine, record: Record) -> Result<Option<Record>> {
    if !record.body.is_empty() {
        return Ok(Some(record));
    }
    let whole = engine.store.get(&record.key).await?;
    Ok(whole.filter(|whole| whole.version == record.version))
}

fn is_message(record: &Record) -> bool {
    record.key.id.below(&message::root()).is_some()
}

/// A message in a head that no process works on any more gets a record; the next poll returns that one.
async fn free_inline(engine: &Engine, record: Record, place: Place) -> Result<bool> {
    let Some(record) = with_body(engine, record).await? else {
        return Ok(false);
    };
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

/// Time until which the lease holder or the preferred process has priority.
fn deferred_until(
    engine: &Engine,
    shared: &Shared,
    record: &Record,
    activity: Option<&Activity>,
    backlog: bool,
) -> Option<u64> {
    let (board, now_ms) = engine.board.lock();
    let instance = instance_of(&record.key.partition);
    let is_message = is_message(record);
    let session = activity.and_then(|activity| activity.session.as_deref());
    let is_ours = if is_message {
        affinity_of(engine, shared, instance) == Affinity::Here
    } else {
        session.is_some_and(|session| board.holds_session(session, now_ms))
    };
    let by_affinity = || {
        shared
            .members
            .deferred_until(&shared.owner, record, session, backlog, now_ms)
    };
    let by_claim = || board.left_alone_until(instance, now_ms).filter(|_| is_message);
    if is_ours { None } else { by_affinity() }.or_else(by_claim)
}

/// Puts an activity on the board; returns whether it was news.
fn ingest_activity(engine: &Engine, record: Record, place: Place, activity: Activity, envelope: Envelope) -> bool {
    let foreign = engine.is_foreign(&activity, place.order);
    let bytes = record.body.len();
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

/// Puts a message on the board, whether it was opened or not; returns whether it was news.
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

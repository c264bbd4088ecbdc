//! Opening and leaving a store: opening rebuilds what is only in memory, leaving writes it down.

use crate::board::{MessageKind, QueuedActivity, QueuedMessage};
use crate::chores;
use crate::engine::Engine;
use crate::mutation::mutant;
use crate::outbox;
use crate::records::envelope::Envelope;
use crate::records::work::Activity;
use crate::records::{instance_of, lanes, message};
use crate::redo;
use crate::tuning::RECOVER_PAGE;
use perennial_store::{
    Commit, Draft, DueQuery, Error, Key, Lane, Limits, Op, Order, Partition, Place, Record, RecordId, Result, Topics,
};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use tracing::{info, warn};

/// The lane of queued records that cannot be read, by the queue that they came from, until a version of perennial that can
/// read them opens the store.
pub const QUARANTINE: &str = "quarantine";

/// The record that says that the store was left in order: every delivery count is written down.
fn clean_marker() -> Key {
    Key::new(Partition::new("wf-engine"), RecordId::of("clean"))
}

/// Fills the board from the store.
pub async fn recover(engine: &Arc<Engine>) -> Result<()> {
    redo::check_limits(&engine.store.limits())?;
    chores::run_all(engine).await?;
    engine.outbox.open();
    // If it cannot be read, the worst is assumed.
    let clean = if_readable(engine.store.get(&clean_marker()).await)?.is_some();
    let mut found = 0;
    for lane in [Cow::Borrowed(lanes::TURN), Cow::Borrowed(lanes::WORK)] {
        let set_aside = Topics::These {
            topics: BTreeSet::from([Arc::from(&*lane)]),
            default: false,
        };
        found += admit_all(engine, &lane, Topics::All, clean).await?;
        found += admit_all(engine, QUARANTINE, set_aside, clean).await?;
    }
    if clean {
        engine.commit(Commit::new(vec![Op::Remove(clean_marker())])).await?;
    }
    info!(pending = found, clean, "workflows opened");
    Ok(())
}

/// The record that was found; `None` if it cannot be read.
fn if_readable(found: Result<Option<Record>>) -> Result<Option<Record>> {
    match found {
        Err(Error::Corrupt(_)) => Ok(None),
        found => found,
    }
}

async fn admit_all(engine: &Engine, lane: &str, topics: Topics, clean: bool) -> Result<usize> {
    let mut query = DueQuery {
        topics,
        ..DueQuery::new(&Lane::new(""), u64::MAX, RECOVER_PAGE)
    };
    query.lane = Cow::Owned(lane.to_string());
    let mut found = 0;
    loop {
        let page = engine.store.due(&query).await?;
        found += page.records.len();
        query.after = page.end();
        for record in page.records {
            admit(engine, record, clean).await?;
        }
        if !page.more {
            return Ok(found);
        }
    }
}

/// Puts a queued record on the board; one that cannot be read is set aside.
pub async fn admit(engine: &Engine, record: Record, clean: bool) -> Result<()> {
    let Some(place) = record.place.clone() else {
        return Ok(());
    };
    engine.orders.pass(place.order);
    let set_aside = place.lane.name == QUARANTINE;
    let lane: Arc<str> = match (&place.lane.topic, set_aside) {
        (Some(topic), true) => Arc::clone(topic),
        _ => Arc::from(&*place.lane.name),
    };
    let opened = Envelope::open(&record).and_then(|envelope| sort(&lane, envelope, &record.key));
    match opened {
        Err(_) if set_aside => Ok(()),
        Err(why) => quarantine(engine, record, place, &lane, &why).await,
        Ok(queued) => {
            let record = if set_aside {
                release(engine, record, place, &queued).await?
            } else {
                record
            };
            put_on_board(engine, record, queued, clean);
            Ok(())
        }
    }
}

enum Queued {
    Message(Envelope),
    Activity(Envelope, Activity),
}

fn sort(lane: &str, envelope: Envelope, key: &Key) -> Result<Queued> {
    let activity = Activity::of(&envelope.item);
    match (lane == lanes::WORK, activity) {
        (true, Some(activity)) => Ok(Queued::Activity(envelope, activity)),
        (false, None) => Ok(Queued::Message(envelope)),
        _ => Err(Error::Corrupt(format!("record {key} is in the wrong queue"))),
    }
}

fn put_on_board(engine: &Engine, record: Record, queued: Queued, clean: bool) {
    let Some(place) = record.place else { return };
    // A process that died may have handed out every queued record once, without writing that down.
    let floor = u32::from(mutant!(ForgetCrash, false, !clean));
    let bytes = record.body.len();
    match queued {
        Queued::Message(envelope) => {
            let instance: Arc<str> = Arc::from(instance_of(&record.key.partition));
            let queued = QueuedMessage {
                id: record.key.id,
                version: record.version,
                due_ms: place.due_ms,
                attempts: envelope.attempts.max(floor),
                noted: envelope.attempts,
                old: true,
                certain: false,
                since: None,
                inline: false,
                sort: MessageKind::of(&envelope.item),
                body: engine.body(envelope.item, bytes),
                from: envelope.from.map(|from| outbox::origin(engine, from)),
            };
            let pin = engine.known_pin(&instance);
            let (mut board, now_ms) = engine.board.lock();
            board.post(&instance, place.order, queued, pin, now_ms);
        }
        Queued::Activity(envelope, activity) => {
            let queued = QueuedActivity {
                key: record.key,
                version: record.version,
                activity,
                attempts: envelope.attempts.max(floor),
                noted: envelope.attempts,
                old: true,
                body: engine.body(envelope.item, bytes),
                due_ms: place.due_ms,
                reserved_ms: 0,
                foreign: false,
            };
            let (mut board, now_ms) = engine.board.lock();
            board.offer(place.order, queued, now_ms);
        }
    }
}

/// The place of a record of `lane` that is set aside.
pub fn aside(lane: &str, order: Order) -> Place {
    Place {
        lane: Lane {
            name: Cow::Borrowed(QUARANTINE),
            topic: Some(Arc::from(lane)),
        },
        order,
        due_ms: 0,
    }
}

/// Sets a record aside that cannot be read.
pub async fn quarantine(engine: &Engine, record: Record, place: Place, lane: &str, why: &Error) -> Result<()> {
    warn!(partition = %record.key.partition, id = %record.key.id, %why, "a queued record cannot be read: set aside");
    engine.meters.quarantined.increment(1);
    let lane = aside(lane, place.order).lane;
    let draft = Draft {
        listing: record.listing,
        ..Draft::new(record.key, record.body).placed(Place { lane, ..place })
    };
    engine
        .commit(Commit::new(vec![Op::Replace(draft, record.version)]))
        .await?;
    Ok(())
}

/// Puts a record that was set aside back into its queue.
async fn release(engine: &Engine, mut record: Record, place: Place, queued: &Queued) -> Result<Record> {
    let lane = match queued {
        Queued::Message(_) => engine.lanes.turn(),
        Queued::Activity(_, activity) => engine.lanes.work(activity.tag.as_ref()),
    };
    let place = Place { lane, ..place };
    let draft = Draft::new(record.key.clone(), record.body.clone()).placed(place.clone());
    let committed = engine
        .commit(Commit::new(vec![Op::Replace(draft, record.version.clone())]))
        .await?;
    if let Some(version) = crate::queued::written(&committed, 0) {
        record.version = version;
    }
    record.place = Some(place);
    Ok(record)
}

/// Writes every delivery count down, so that the next opening need not assume the worst.
pub async fn leave(engine: &Engine) -> Result<()> {
    engine.outstanding.all().await;
    let mut counts: Vec<(Key, u32)> = {
        let (board, _) = engine.board.lock();
        let queued_messages = board
            .turns()
            .unnoted()
            .map(|(instance, _, queued)| (message::key(instance, &queued.id), queued.attempts));
        let queued_activities = board
            .work()
            .unnoted()
            .map(|(_, queued)| (queued.key.clone(), queued.attempts));
        queued_messages.chain(queued_activities).collect()
    };
    counts.sort_unstable();
    let mut ops = Vec::with_capacity(counts.len() + 1);
    for (key, attempts) in counts {
        // A record that cannot be read is set aside when the store is opened next.
        let Some(record) = if_readable(engine.store.get(&key).await)? else {
            continue;
        };
        let Some(place) = record.place.clone() else { continue };
        let Ok(envelope) = Envelope::open(&record) else {
            continue;
        };
        let body = Envelope::body_from(&envelope.item, attempts, envelope.from.as_ref())?;
        ops.push(Op::Replace(Draft::new(key, body).placed(place), record.version));
    }
    // The marker comes last, or with all the rest: it says that everything before it is stored.
    ops.push(Op::Put(Draft::new(clean_marker(), "{}")));
    for ops in within_limits(&engine.store.limits(), ops) {
        engine.commit(Commit::new(ops)).await?;
    }
    Ok(())
}

/// Groups operations that need not happen together into commits that the store accepts.
fn within_limits(limits: &Limits, ops: Vec<Op>) -> Vec<Vec<Op>> {
    let mut commits: Vec<Vec<Op>> = Vec::new();
    for op in ops {
        let fits = commits
            .last()
            .and_then(|commit| commit.last())
            .is_some_and(|last| limits.partitions_per_commit > 1 || last.key().partition == op.key().partition);
        match commits
            .last_mut()
            .filter(|commit| fits && commit.len() < limits.ops_per_commit)
        {
            Some(commit) => commit.push(op),
            None => commits.push(vec![op]),
        }
    }
    commits
}

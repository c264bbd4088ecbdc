//! The messages of an instance as the store has them.

use crate::board::{ClaimId, MessageKind, QueuedMessage};
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::outbox::{Fate, Origin};
use crate::records::envelope::Envelope;
use crate::records::head::{Head, InlineMessage};
use crate::records::{instance_of, lanes, message, partition, tomb};
use crate::recover;
use crate::redo::messages_per_turn;
use crate::send::slot_of;
use crate::tuning::MAILBOX_PAGE;
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::WorkItem;
use perennial_store::{Commit, Committed, Error, Lane, Op, Order, Place, Record, Result, ScanQuery, Version};
use std::sync::Arc;

/// A message as it was read.
type Read = (Order, QueuedMessage, WorkItem);

/// What a scan of an instance's messages has found so far.
#[derive(Default)]
struct Scanned {
    /// Every message, for the board.
    all: Vec<(Order, QueuedMessage)>,
    /// Those that are ready, as many as one turn may consume, in order of arrival.
    ready: Vec<(Order, QueuedMessage)>,
    items: Vec<WorkItem>,
    /// Those that are ready and parked, and must wait for the next turn.
    left: Vec<Read>,
    /// Where the scan has stopped, if it has not seen all.
    until: Option<Order>,
}

impl Scanned {
    fn add(&mut self, (order, queued, item): Read, lane: &Lane, most: usize, now_ms: u64) {
        self.until = Some(order);
        let is_ready = queued.due_ms <= now_ms;
        self.all.push((order, queued.clone()));
        if is_ready && self.ready.len() < most {
            self.ready.push((order, queued));
            self.items.push(item);
        } else if is_ready && *lane == lanes::PARKED {
            self.left.push((order, queued, item));
        }
    }
}

/// Reads the messages of an instance that are ready, in order of arrival, as many as one turn may consume. The board
/// learns of all that were read. If some are `parked`, those that must wait for the next turn come back into the queue.
/// There are none if the claim for which they are read has run out meanwhile: the result is old by then.
pub async fn read(
    engine: &Engine,
    instance: &Arc<str>,
    claim: ClaimId,
    parked: bool,
) -> Result<(Vec<(Order, QueuedMessage)>, Vec<WorkItem>)> {
    // What comes while the store is read may not be in the result.
    let before = engine.board.lock().0.orders(instance);
    let scanned = scan(engine, instance, parked).await?;
    unpark(engine, instance, scanned.left).await?;
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    if !board.is_held_by(instance, claim) {
        return Ok(Default::default());
    }
    board.restock(instance, &scanned.all, &before, scanned.until, now_ms);
    Ok((scanned.ready, scanned.items))
}

/// Scans the messages of an instance until a turn has enough; if some are `parked`, to the end.
async fn scan(engine: &Engine, instance: &str, parked: bool) -> Result<Scanned> {
    let most = messages_per_turn(engine.store.limits().ops_per_commit);
    let now_ms = engine.clock.now_ms();
    let mut query = ScanQuery::under(partition(instance), message::root(), MAILBOX_PAGE);
    let mut scanned = Scanned::default();
    loop {
        let page = engine.store.scan(&query).await?;
        for record in page.records {
            let lane = record.place.as_ref().map_or(lanes::PARKED, |place| place.lane.clone());
            if let Some(read) = decode(engine, record).await? {
                scanned.add(read, &lane, most, now_ms);
            }
        }
        match page.next {
            Some(next) if scanned.ready.len() < most || parked => query.after = Some(next),
            Some(_) => return Ok(scanned),
            None => {
                scanned.until = None;
                return Ok(scanned);
            }
        }
    }
}

/// Puts messages back into the queue.
async fn unpark(engine: &Engine, instance: &Arc<str>, left: Vec<Read>) -> Result<()> {
    for batch in left.chunks(engine.store.limits().ops_per_commit.min(MAILBOX_PAGE)) {
        let mut ops = Vec::with_capacity(batch.len());
        for (order, queued, item) in batch {
            let place = Place {
                lane: engine.lanes.turn(),
                order: *order,
                due_ms: queued.due_ms,
            };
            let from = queued.from.as_ref().map(|origin| &origin.from);
            let draft = message::draft(instance, &queued.id, item, place, queued.attempts, from)?;
            ops.push(Op::Replace(draft, queued.version.clone()));
        }
        engine.commit(Commit::new(ops)).await?;
    }
    Ok(())
}

/// Reads a record; one that cannot be read is set aside.
async fn decode(engine: &Engine, record: Record) -> Result<Option<Read>> {
    let Some(place) = record.place.clone().filter(|_| !tomb::is_tomb(&record)) else {
        return Ok(None);
    };
    let envelope = match Envelope::open(&record) {
        Ok(envelope) => envelope,
        Err(why @ Error::Corrupt(_)) => {
            if place.lane.name != recover::QUARANTINE {
                match recover::quarantine(engine, record, place, lanes::TURN, &why).await {
                    // Another process was faster.
                    Ok(()) | Err(Error::Conflict { .. }) => {}
                    Err(other) => return Err(other),
                }
            }
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    let bytes = record.body.len();
    // What this process knows of the intent is newer than what the message says.
    let known = engine
        .board
        .lock()
        .0
        .origin(instance_of(&record.key.partition), place.order, &record.key.id);
    let stored = envelope.from.map(|from| Arc::new(Origin::new(from, Fate::Unknown)));
    let from = known.or(stored);
    let queued = QueuedMessage {
        id: record.key.id,
        version: record.version,
        due_ms: place.due_ms,
        attempts: envelope.attempts,
        noted: envelope.attempts,
        old: false,
        certain: true,
        since: None,
        inline: false,
        from,
        sort: MessageKind::of(&envelope.item),
        body: engine.copied_body(&envelope.item, bytes),
    };
    Ok(Some((place.order, queued, envelope.item)))
}

/// Removes messages that were consumed before, and gives the claim back that was made for them.
pub async fn discard(
    engine: &Engine,
    instance: &Arc<str>,
    queued_messages: &[(Order, QueuedMessage)],
    snapshot: &Snapshot,
) -> Result<()> {
    let Some((mut head, version)) = snapshot.head.clone() else {
        return Ok(());
    };
    (head.lease, head.deliveries) = (None, 0);
    let is_gone = |inline: &Arc<InlineMessage>| queued_messages.iter().any(|(order, _)| order.0 == inline.order);
    head.inline = head.inline.filter(|inline| !is_gone(inline));
    let mut ops = vec![Op::Replace(head.draft(Head::key(instance))?, version)];
    let gone = queued_messages
        .iter()
        .map(|(_, queued)| queued)
        .filter(|queued| !queued.inline);
    ops.extend(gone.map(|queued| Op::Delete(message::key(instance, &queued.id), queued.version.clone())));
    let committed = engine.commit(Commit::new(ops)).await;
    forget(engine, instance, queued_messages, committed)
}

/// Messages to an instance that does not exist, without a start among them: those for its queues are dropped, others are
/// parked, where no poll finds them, until a start comes; the head says so, and stays. `blank` is the version of the head
/// that claims the instance.
pub async fn orphan(
    engine: &Engine,
    instance: &Arc<str>,
    queued_messages: &[(Order, QueuedMessage)],
    items: &[WorkItem],
    blank: Version,
) -> Result<()> {
    let (mut ops, mut parked) = (Vec::with_capacity(queued_messages.len() + 1), false);
    for ((order, queued), item) in queued_messages.iter().zip(items) {
        let key = message::key(instance, &queued.id);
        ops.push(if queued.sort == MessageKind::Queue {
            Op::Delete(key, queued.version.clone())
        } else {
            let place = Place {
                lane: lanes::PARKED,
                order: *order,
                due_ms: queued.due_ms,
            };
            parked = true;
            let from = queued.from.as_ref().map(|origin| &origin.from);
            let draft = message::draft(instance, &queued.id, item, place, queued.attempts, from)?;
            Op::Replace(draft, queued.version.clone())
        });
    }
    let key = Head::key(instance);
    ops.insert(
        0,
        if parked {
            let mut head = Head::new(INITIAL_EXECUTION_ID, engine.clock.now_ms());
            head.parked = true;
            Op::Replace(head.draft(key)?, blank)
        } else {
            Op::Delete(key, blank)
        },
    );
    let committed = engine.commit(Commit::new(ops)).await;
    forget(engine, instance, queued_messages, committed)
}

/// These messages are gone from where they were. After a conflict another process has taken over, and knows what became of
/// them.
fn forget(
    engine: &Engine,
    instance: &Arc<str>,
    queued_messages: &[(Order, QueuedMessage)],
    committed: Result<Committed>,
) -> Result<()> {
    engine.cache.forget(instance, slot_of(instance));
    let orders: Vec<Order> = queued_messages.iter().map(|(order, _)| *order).collect();
    let (mut board, _) = engine.board.lock();
    match committed {
        Ok(_) => board.consume(instance, &orders),
        Err(Error::Conflict { .. }) => board.forget_messages(instance, &orders),
        Err(other) => return Err(other),
    }
    Ok(())
}

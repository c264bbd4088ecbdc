//! The messages of an instance as the store has them.

use crate::board::{ClaimId, Letter, Sort};
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::outbox::{Fate, Origin};
use crate::records::envelope::Envelope;
use crate::records::head::{Enclosed, Head};
use crate::records::{instance_of, message, partition, queues, tomb};
use crate::recover;
use crate::redo::messages_per_turn;
use crate::send::slot_of;
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::WorkItem;
use perennial_store::{Commit, Committed, Error, Op, Order, Place, Record, Result, ScanQuery, Version};
use std::sync::Arc;

const PAGE: usize = 100;

/// Reads the messages of an instance that are ready, in order of arrival, as many as one turn may consume. The board
/// learns of all that were read. If some are `parked`, those that must wait for the next turn come back into the queue.
/// There are none if the claim for which they are read has run out meanwhile: the answer is old by then.
pub async fn read(
    engine: &Engine,
    instance: &Arc<str>,
    claim: ClaimId,
    parked: bool,
) -> Result<(Vec<(Order, Letter)>, Vec<WorkItem>)> {
    // What comes while the store is asked may not be in its answer.
    let before = engine.board.lock().0.orders(instance);
    let most = messages_per_turn(engine.store.limits().ops_per_commit);
    let now_ms = engine.clock.now_ms();
    let mut query = ScanQuery::under(partition(instance), message::root(), PAGE);
    let (mut all, mut ready, mut items, mut left) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut until = None;
    loop {
        let page = engine.store.scan(&query).await?;
        for record in page.records {
            let lane = record.place.as_ref().map_or(queues::PARKED, |place| place.lane.clone());
            let Some((order, letter, item)) = understand(engine, record).await? else {
                continue;
            };
            until = Some(order);
            if letter.due_ms <= now_ms && ready.len() < most {
                ready.push((order, letter.clone()));
                items.push(item);
            } else if letter.due_ms <= now_ms && lane == queues::PARKED {
                left.push((order, letter.clone(), item));
            }
            all.push((order, letter));
        }
        match page.next {
            Some(next) if ready.len() < most || parked => query.after = Some(next),
            Some(_) => break,
            None => {
                until = None;
                break;
            }
        }
    }
    unpark(engine, instance, left).await?;
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    if !board.is_held_by(instance, claim) {
        return Ok(Default::default());
    }
    board.restock(instance, &all, &before, until, now_ms);
    Ok((ready, items))
}

/// Puts messages back into the queue.
async fn unpark(engine: &Engine, instance: &Arc<str>, left: Vec<(Order, Letter, WorkItem)>) -> Result<()> {
    for batch in left.chunks(engine.store.limits().ops_per_commit.min(PAGE)) {
        let mut ops = Vec::with_capacity(batch.len());
        for (order, letter, item) in batch {
            let place = Place {
                lane: engine.queues.turn(),
                order: *order,
                due_ms: letter.due_ms,
            };
            let from = letter.from.as_ref().map(|origin| &origin.from);
            let draft = message::draft(instance, &letter.id, item, place, letter.attempts, from)?;
            ops.push(Op::Replace(draft, letter.version.clone()));
        }
        engine.commit(Commit::new(ops)).await?;
    }
    Ok(())
}

/// Reads a record; one that cannot be read is set aside.
async fn understand(engine: &Engine, record: Record) -> Result<Option<(Order, Letter, WorkItem)>> {
    let Some(place) = record.place.clone().filter(|_| !tomb::is_tomb(&record)) else {
        return Ok(None);
    };
    let envelope = match Envelope::open(&record) {
        Ok(envelope) => envelope,
        Err(why @ Error::Corrupt(_)) => {
            if place.lane.name != recover::QUARANTINE {
                match recover::quarantine(engine, record, place, queues::TURN, &why).await {
                    // Somebody else was faster.
                    Ok(()) | Err(Error::Conflict { .. }) => {}
                    Err(other) => return Err(other),
                }
            }
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    let bytes = record.body.len();
    // What this process knows of the intent is worth more than what the message tells.
    let known = engine
        .board
        .lock()
        .0
        .origin(instance_of(&record.key.partition), place.order, &record.key.id);
    let told = envelope.from.map(|from| Arc::new(Origin::new(from, Fate::Unknown)));
    let from = known.or(told);
    let letter = Letter {
        id: record.key.id,
        version: record.version,
        due_ms: place.due_ms,
        attempts: envelope.attempts,
        noted: envelope.attempts,
        old: false,
        certain: true,
        since: None,
        enclosed: false,
        from,
        sort: Sort::of(&envelope.item),
        body: engine.copied_body(&envelope.item, bytes),
    };
    Ok(Some((place.order, letter, envelope.item)))
}

/// Removes messages that were heard before, and gives the claim back that was made for them.
pub async fn discard(
    engine: &Engine,
    instance: &Arc<str>,
    letters: &[(Order, Letter)],
    snapshot: &Snapshot,
) -> Result<()> {
    let Some((mut head, version)) = snapshot.head.clone() else {
        return Ok(());
    };
    (head.lease, head.deliveries) = (None, 0);
    let is_gone = |enclosed: &Arc<Enclosed>| letters.iter().any(|(order, _)| order.0 == enclosed.order);
    head.enclosed = head.enclosed.filter(|enclosed| !is_gone(enclosed));
    let mut ops = vec![Op::Replace(head.draft(Head::key(instance))?, version)];
    let gone = letters
        .iter()
        .map(|(_, letter)| letter)
        .filter(|letter| !letter.enclosed);
    ops.extend(gone.map(|letter| Op::Delete(message::key(instance, &letter.id), letter.version.clone())));
    let committed = engine.commit(Commit::new(ops)).await;
    forget(engine, instance, letters, committed)
}

/// Messages to an instance that does not exist, and that no start is among: those for its queues are dropped, others
/// wait where nobody looks until a start comes; the head says so, and stays. `blank` is the version of the head that claims
/// the instance.
pub async fn orphan(
    engine: &Engine,
    instance: &Arc<str>,
    letters: &[(Order, Letter)],
    items: &[WorkItem],
    blank: Version,
) -> Result<()> {
    let (mut ops, mut parked) = (Vec::with_capacity(letters.len() + 1), false);
    for ((order, letter), item) in letters.iter().zip(items) {
        let key = message::key(instance, &letter.id);
        ops.push(if letter.sort == Sort::Queue {
            Op::Delete(key, letter.version.clone())
        } else {
            let place = Place {
                lane: queues::PARKED,
                order: *order,
                due_ms: letter.due_ms,
            };
            parked = true;
            let from = letter.from.as_ref().map(|origin| &origin.from);
            let draft = message::draft(instance, &letter.id, item, place, letter.attempts, from)?;
            Op::Replace(draft, letter.version.clone())
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
    forget(engine, instance, letters, committed)
}

/// These messages are gone from where they were. After a conflict somebody else has taken over, and knows what became of
/// them.
fn forget(
    engine: &Engine,
    instance: &Arc<str>,
    letters: &[(Order, Letter)],
    committed: Result<Committed>,
) -> Result<()> {
    engine.cache.forget(instance, slot_of(instance));
    let orders: Vec<Order> = letters.iter().map(|(order, _)| *order).collect();
    let (mut board, _) = engine.board.lock();
    match committed {
        Ok(_) => board.consume(instance, &orders),
        Err(Error::Conflict { .. }) => board.unlearn_letters(instance, &orders),
        Err(other) => return Err(other),
    }
    Ok(())
}

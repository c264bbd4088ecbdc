//! Couriers: deliver what a turn has just written, in the background.

use super::Intent;
use super::deliver::carry;
use crate::engine::Engine;
use crate::records::intent;
use crate::tuning::{FAILURE_PAUSE, INTENT_TAKE_OVER_MS, INTENTS_PAGE};
use perennial_store::{Clock, Commit, Committed, Draft, Error, Op, Partition, Record, Result, ScanQuery, Sharing};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use tokio::sync::watch;
use tracing::{error, warn};

/// Sends a courier with the intents of a turn that has become durable.
pub fn dispatch(engine: &Arc<Engine>, sender: &Partition, intents: Vec<Intent>, committed: &Committed) {
    if intents.is_empty() {
        return;
    }
    intents.iter().for_each(|intent| intent.stored(committed));
    // Queued here and not by the courier, so that a later turn's intents cannot come before these.
    let mut lanes = engine.outbox.lanes.lock();
    lanes.entry(sender.clone()).or_default().extend(intents);
    drop(lanes);
    let (clock, on_the_way) = (Arc::clone(&engine.clock), OnTheWay::new(engine));
    let courier = courier(Arc::downgrade(engine), clock, sender.clone());
    engine.spawner.spawn(async move {
        courier.await;
        drop(on_the_way);
    });
}

/// Counts a courier as long as it runs.
struct OnTheWay(watch::Sender<usize>);

impl OnTheWay {
    fn new(engine: &Engine) -> Self {
        let couriers = engine.outbox.couriers.clone();
        couriers.send_modify(|count| *count += 1);
        Self(couriers)
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Delivers what is queued for a sender, however many attempts it takes.
async fn courier(engine: Weak<Engine>, clock: Arc<dyn Clock>, sender: Partition) {
    loop {
        let Some(engine) = engine.upgrade().filter(|engine| !engine.is_closed()) else {
            return;
        };
        let outcome = {
            let _turn = engine.outbox.keyed_mutex.enter(&sender).await;
            carry_queued(&engine, &sender).await
        };
        match outcome {
            Ok(()) => return,
            // The intents are stored: the process that opens the store next delivers them.
            Err(Error::Closed(_) | Error::Fenced(_)) => return,
            Err(error) => warn!(%sender, %error, "messages could not be delivered; trying again"),
        }
        // A courier that sleeps keeps nothing alive.
        drop(engine);
        clock.sleep(FAILURE_PAUSE).await;
    }
}

/// Delivers what is queued for a sender, once; after an error the rest stays queued. The caller must hold the sender's mutex.
async fn carry_queued(engine: &Arc<Engine>, sender: &Partition) -> Result<()> {
    let mut queue = engine.outbox.lanes.lock().remove(sender).unwrap_or_default();
    let outcome = carry(engine, sender, &mut queue).await;
    if !queue.is_empty() {
        let mut lanes = engine.outbox.lanes.lock();
        let newer = lanes.remove(sender).unwrap_or_default();
        queue.extend(newer);
        lanes.insert(sender.clone(), queue);
    }
    outcome
}

/// Delivers every intent that is stored for a sender; `false` if another task or process is doing so.
pub async fn flush(engine: &Arc<Engine>, sender: &Partition) -> Result<bool> {
    let Some(_turn) = engine.outbox.keyed_mutex.try_enter(sender) else {
        return Ok(false);
    };
    carry_queued(engine, sender).await?;
    let mut query = ScanQuery::under(sender.clone(), intent::root(), INTENTS_PAGE);
    loop {
        let page = engine.store.scan(&query).await?;
        let mut found = VecDeque::with_capacity(page.records.len());
        let mut is_taken = false;
        for record in &page.records {
            match Intent::found(record) {
                Ok(intent) if claim(engine, record).await? => found.push_back(intent),
                // Later intents must not overtake it.
                Ok(_) => {
                    is_taken = true;
                    break;
                }
                Err(why) => error!(%sender, %why, "an intent cannot be read: it is left alone"),
            }
        }
        carry(engine, sender, &mut found).await?;
        match page.next {
            _ if is_taken => return Ok(false),
            Some(next) => query.after = Some(next),
            None => return Ok(true),
        }
    }
}

/// Rewrites an intent before another process than its writer delivers it, so that the writer notices; `false` if yet another
/// process has it. Needless on a store of one's own.
async fn claim(engine: &Engine, record: &Record) -> Result<bool> {
    if engine.store.sharing() == Sharing::Exclusive {
        return Ok(true);
    }
    let mut draft = Draft::new(record.key.clone(), record.body.clone());
    draft.place.clone_from(&record.place);
    if let Some(place) = &mut draft.place {
        place.due_ms = engine.clock.now_ms() + INTENT_TAKE_OVER_MS;
    }
    let replace = Op::Replace(draft, record.version.clone());
    match engine.commit(Commit::new(vec![replace])).await {
        Err(Error::Conflict { .. }) => Ok(false),
        outcome => outcome.map(|_| true),
    }
}

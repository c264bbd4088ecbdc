//! Delivering intents: the message comes, then the intent goes.

use super::{Fate, Origin};
use crate::board::{MessageKind, QueuedMessage, Reservation};
use crate::engine::Engine;
use crate::mutation::mutant;
use crate::queued::written;
use crate::records::envelope::Envelope;
use crate::records::intent::{self, Body};
use crate::records::{message, tomb};
use crate::recover;
use crate::shared::{self, Arrival};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use perennial_store::{Commit, Committed, Draft, Error, Op, Order, Partition, Place, Record, Result, Sharing, Version};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tracing::error;

/// How many targets are served at once.
const AT_ONCE: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Delivered,
    /// It can never be delivered.
    Aside,
}

/// An intent on its way.
pub struct Intent {
    body: Body,
    /// Which operation of its turn's commit creates it.
    op: usize,
    /// Its record as this process wrote it; `None` if somebody else may have it.
    version: Mutex<Option<Version>>,
    origin: Arc<Origin>,
    state: Mutex<State>,
}

impl Intent {
    /// An intent of `sender` that operation `op` of a commit will create, and that operation.
    pub fn new(sender: &Partition, body: Body, op: usize, now_ms: u64) -> Result<(Self, Op)> {
        let create = Op::Create(body.draft(sender, now_ms)?);
        Ok((Self::of(sender, body, op, Fate::Going), create))
    }

    /// The commit that creates it is durable.
    pub fn stored(&self, committed: &Committed) {
        match committed.version(self.op) {
            Some(version) => *self.version.lock() = Some(version.clone()),
            None => self.origin.tell(Fate::Unknown),
        }
    }

    /// An intent that was found.
    pub fn found(record: &Record) -> Result<Self> {
        let body = Body::open(record)?;
        Ok(Self::of(&record.key.partition, body, 0, Fate::Unknown))
    }

    fn of(sender: &Partition, body: Body, op: usize, fate: Fate) -> Self {
        let from = intent::from(sender, Order(body.order));
        Self {
            body,
            op,
            version: Mutex::default(),
            origin: Arc::new(Origin::new(from, fate)),
            state: Mutex::new(State::Waiting),
        }
    }

    fn is(&self, state: State) -> bool {
        *self.state.lock() == state
    }

    fn set(&self, state: State) {
        *self.state.lock() = state;
    }

    /// The order that its message arrives with: always the same.
    fn order(&self) -> Order {
        Order(self.body.order)
    }

    fn message(&self, engine: &Engine, order: Order) -> Result<Draft> {
        let Body {
            item, target, due_ms, ..
        } = &self.body;
        let place = Place {
            lane: engine.lanes.turn(),
            order,
            due_ms: *due_ms,
        };
        let from = &self.origin.from;
        message::draft(target, &message::id_from(order, from), item, place, 0, Some(from))
    }

    /// What arrives at its target.
    fn arrival(&self, target: &Arc<str>) -> Arrival {
        Arrival {
            instance: Arc::clone(target),
            due_ms: self.body.due_ms,
            sort: MessageKind::of(&self.body.item),
            // It must leave a tombstone, perhaps.
            inline: None,
            op: 0,
        }
    }

    fn queued(&self, engine: &Engine, order: Order, version: Version, attempts: u32, bytes: usize) -> QueuedMessage {
        QueuedMessage {
            id: message::id_from(order, &self.origin.from),
            version,
            due_ms: self.body.due_ms,
            attempts,
            noted: attempts,
            old: false,
            certain: true,
            since: None,
            inline: false,
            sort: MessageKind::of(&self.body.item),
            body: engine.copied_body(&self.body.item, bytes),
            from: Some(Arc::clone(&self.origin)),
        }
    }
}

/// Delivers intents of one sender and removes them. What is delivered and removed is taken out of `intents`; after an
/// error the rest is still there. Only one task at a time may do this for a sender.
pub async fn carry(engine: &Arc<Engine>, sender: &Partition, intents: &mut VecDeque<Intent>) -> Result<()> {
    let limit = engine.store.limits().ops_per_commit;
    while !intents.is_empty() {
        let batch = intents.len().min(limit);
        mutant!(
            DeleteIntentFirst,
            remove(engine, sender, intents.iter().take(batch)).await?
        );
        let mut groups: BTreeMap<&str, Vec<&Intent>> = BTreeMap::new();
        for intent in intents.iter().take(batch).filter(|intent| intent.is(State::Waiting)) {
            groups.entry(&intent.body.target).or_default().push(intent);
        }
        let mut calls = Vec::with_capacity(groups.len());
        for (target, group) in groups {
            calls.push(serve(engine, sender, target, group).boxed());
        }
        let calls = futures::stream::iter(calls).buffer_unordered(AT_ONCE);
        let served: Vec<Result<()>> = calls.collect().await;
        let delivered = intents.iter().take(batch).filter(|intent| intent.is(State::Delivered));
        remove(engine, sender, delivered).await?;
        intents.retain(|intent| intent.is(State::Waiting));
        served.into_iter().collect::<Result<()>>()?;
    }
    Ok(())
}

/// Removes intents that were delivered.
///
/// Whoever else delivers an intent writes it again first. So who removes it as it wrote it knows that nobody else has
/// delivered it, or ever will.
async fn remove(engine: &Engine, sender: &Partition, intents: impl Iterator<Item = &Intent>) -> Result<()> {
    let gone: Vec<&Intent> = intents.collect();
    if gone.is_empty() {
        return Ok(());
    }
    let inferred = loop {
        let removal = |gone: &&Intent| {
            let key = intent::key(sender, Order(gone.body.order));
            match gone.version.lock().clone() {
                Some(version) => Op::Delete(key, version),
                None => Op::Remove(key),
            }
        };
        match engine.commit(Commit::new(gone.iter().map(removal).collect())).await {
            Err(Error::Conflict { op, .. }) => match gone.get(op) {
                Some(lost) => {
                    *lost.version.lock() = None;
                    lost.origin.tell(Fate::Unknown);
                }
                None => return Ok(()),
            },
            outcome => break outcome?.inferred,
        }
    };
    engine.meters.deliveries.increment(gone.len() as u64);
    for intent in gone.iter().filter(|intent| intent.origin.fate() == Fate::Going) {
        // If somebody else may have removed it, that one may have delivered it, too.
        intent.origin.tell(if inferred { Fate::Unknown } else { Fate::Gone });
    }
    Ok(())
}

/// Delivers intents to one target, in order.
async fn serve(engine: &Arc<Engine>, sender: &Partition, target: &str, mut group: Vec<&Intent>) -> Result<()> {
    let target: Arc<str> = Arc::from(target);
    let _arriving = engine.board.announce(vec![Arc::clone(&target)]);
    while !group.is_empty() {
        let mut ops = Vec::with_capacity(group.len());
        let mut new_messages = Vec::with_capacity(group.len());
        for intent in &group {
            let order = mutant!(DeliverTwice, engine.next_order(), intent.order());
            let draft = intent.message(engine, order)?;
            new_messages.push((order, draft.body.len()));
            ops.push(Op::Create(draft));
        }
        let since = shared::known_version(engine, &target);
        let first = group.first().map(|intent| intent.arrival(&target));
        let first = first.filter(|_| engine.outbox.is_open());
        match engine.mode.create_messages(engine, ops, first).await {
            Ok((committed, reservation)) => {
                for (op, (intent, (order, bytes))) in group.iter().zip(new_messages).enumerate() {
                    // What is gone already, or changed, needs no delivery.
                    if let Some(version) = written(&committed, op).filter(|_| engine.outbox.is_open()) {
                        let queued = intent.queued(engine, order, version, 0, bytes);
                        let reservation = reservation.as_ref().filter(|_| op == 0);
                        post(
                            engine,
                            &target,
                            order,
                            queued,
                            since.clone(),
                            reservation.map(|(reservation, _)| reservation.clone()),
                        );
                    }
                    intent.set(State::Delivered);
                }
                return Ok(());
            }
            Err(Error::Conflict { op, .. }) if op < group.len() => {
                let met = group.remove(op);
                meet(engine, &target, met).await?;
                met.set(State::Delivered);
            }
            Err(error) if !is_hopeless(&error) => return Err(error),
            Err(error) if group.len() == 1 => {
                for intent in group.drain(..) {
                    set_aside(engine, sender, intent, &error).await?;
                    intent.set(State::Aside);
                }
            }
            // One of them is at fault: the others must not suffer.
            Err(_) => {
                for intent in group.drain(..) {
                    Box::pin(serve(engine, sender, &target, vec![intent])).await?;
                }
            }
        }
    }
    Ok(())
}

fn is_hopeless(error: &Error) -> bool {
    matches!(error, Error::TooLarge { .. } | Error::Invalid(_) | Error::Corrupt(_))
}

fn post(
    engine: &Engine,
    target: &Arc<str>,
    order: Order,
    queued: QueuedMessage,
    since: Option<Version>,
    reservation: Option<Reservation>,
) {
    if !engine.board.lock().0.turns().has(target, order) {
        engine.mode.deliver(engine, target, order, queued, since, reservation);
    }
}

/// The message is there already, or was. If the reply to its first delivery was lost, the board may not know of it.
async fn meet(engine: &Engine, target: &Arc<str>, intent: &Intent) -> Result<()> {
    let order = Order(intent.body.order);
    let is_ours = engine.store.sharing() == Sharing::Exclusive && engine.outbox.is_open();
    if !is_ours || engine.board.lock().0.turns().has(target, order) {
        return Ok(());
    }
    let key = message::key(target, &message::id_from(order, &intent.origin.from));
    let Some(record) = engine.store.get(&key).await?.filter(|record| !tomb::is_tomb(record)) else {
        return Ok(());
    };
    if let Ok(envelope) = Envelope::open(&record) {
        let queued = intent.queued(engine, order, record.version, envelope.attempts, record.body.len());
        post(engine, target, order, queued, None, None);
    }
    Ok(())
}

/// Takes an intent out of everybody's way that no store will ever take as a message.
async fn set_aside(engine: &Engine, sender: &Partition, intent: &Intent, why: &Error) -> Result<()> {
    error!(%sender, target = intent.body.target, %why, "a message cannot be delivered: it is set aside in its sender's outbox");
    let mut draft = intent.body.draft(sender, 0)?;
    draft.place = Some(recover::aside("outbox", Order(intent.body.order)));
    engine.commit(Commit::new(vec![Op::Put(draft)])).await?;
    engine.meters.quarantined.increment(1);
    Ok(())
}

//! An intent on its way from the commit that creates it to its removal.

use super::{Fate, Origin};
use crate::board::{MessageKind, QueuedMessage};
use crate::engine::Engine;
use crate::records::intent::{self, Body};
use crate::records::message;
use crate::shared::Arrival;
use parking_lot::Mutex;
use perennial_store::{Committed, Draft, Op, Order, Partition, Place, Record, Result, Version};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not delivered yet.
    Waiting,
    /// Its message is written.
    Delivered,
    /// It can never be delivered.
    Aside,
}

/// An intent on its way.
pub struct Intent {
    /// What its record says.
    pub body: Body,
    /// Which operation of its turn's commit creates it.
    op: usize,
    /// The version that this process wrote; `None` if another process may have rewritten it.
    pub version: Mutex<Option<Version>>,
    /// What its message says of it.
    pub origin: Arc<Origin>,
    state: Mutex<State>,
}

impl Intent {
    /// An intent of `sender` that operation `op` of a commit will create, and that operation.
    pub fn new(sender: &Partition, body: Body, op: usize, now_ms: u64) -> Result<(Self, Op)> {
        let create = Op::Create(body.draft(sender, now_ms)?);
        Ok((Self::of(sender, body, op, Fate::Going), create))
    }

    /// Notes that the commit that creates it is durable.
    pub fn stored(&self, committed: &Committed) {
        match committed.version(self.op) {
            Some(version) => *self.version.lock() = Some(version.clone()),
            None => self.origin.tell(Fate::Unknown),
        }
    }

    /// Opens an intent that was found in the store.
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

    /// Whether it is in this state.
    pub fn is(&self, state: State) -> bool {
        *self.state.lock() == state
    }

    /// Changes its state.
    pub fn set(&self, state: State) {
        *self.state.lock() = state;
    }

    /// The order that its message arrives with: the same at every delivery.
    pub fn order(&self) -> Order {
        Order(self.body.order)
    }

    /// The record of its message.
    pub fn message(&self, engine: &Engine, order: Order) -> Result<Draft> {
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

    /// Its arrival at its target.
    pub fn arrival(&self, target: &Arc<str>) -> Arrival {
        Arrival {
            instance: Arc::clone(target),
            due_ms: self.body.due_ms,
            sort: MessageKind::of(&self.body.item),
            // It may have to leave a tombstone.
            inline: None,
            op: 0,
        }
    }

    /// Its message as it stands on the board.
    pub fn queued(
        &self,
        engine: &Engine,
        order: Order,
        version: Version,
        attempts: u32,
        bytes: usize,
    ) -> QueuedMessage {
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

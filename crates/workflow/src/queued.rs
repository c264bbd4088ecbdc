//! Messages and activities on their way into a queue: what a commit creates, and what the board shows afterwards.

use crate::board::{Body, MessageKind, QueuedActivity, QueuedMessage};
use crate::engine::Engine;
use crate::records::head::InlineMessage;
use crate::records::work::Activity;
use crate::records::{message, work};
use crate::tuning::INLINE_BYTES;
use duroxide::providers::WorkItem;
use perennial_store::{Committed, Durability, Key, Op, Order, Place, RecordId, Result, Version};
use std::sync::Arc;

/// A message that a commit creates, before its version is known.
pub struct NewMessage {
    pub instance: Arc<str>,
    pub id: RecordId,
    pub order: Order,
    pub due_ms: u64,
    pub sort: MessageKind,
    pub body: Body,
    /// The size of its record.
    bytes: usize,
    /// Which operation of the commit creates it.
    pub op: usize,
}

impl NewMessage {
    /// Prepares a message and the operation that creates it.
    pub fn new(engine: &Engine, item: WorkItem, due_ms: u64, op: usize) -> Result<Option<(Self, Op)>> {
        let Some(instance) = message::target(&item).map(Arc::<str>::from) else {
            return Ok(None);
        };
        let order = engine.next_order();
        let id = message::id(order, engine.process_id());
        let place = Place {
            lane: engine.lanes.turn(),
            order,
            due_ms,
        };
        let draft = message::draft(&instance, &id, &item, place, 0, None)?;
        let sort = MessageKind::of(&item);
        let bytes = draft.body.len();
        let body = engine.body(item, bytes);
        Ok(Some((
            Self {
                instance,
                id,
                order,
                due_ms,
                sort,
                body,
                bytes,
                op,
            },
            Op::Create(draft),
        )))
    }

    /// The message as the head of its instance may hold it in place of a record: if it is small, and ready.
    pub fn inline(&self) -> Option<Arc<InlineMessage>> {
        let Body::Held(item, _) = &self.body else { return None };
        (self.bytes <= INLINE_BYTES && self.due_ms == 0).then(|| {
            Arc::new(InlineMessage {
                id: self.id.as_str().to_string(),
                order: self.order.0,
                item: Arc::clone(item),
            })
        })
    }

    /// The message as it stands on the board once it is stored.
    pub fn queued(&self, version: Version) -> QueuedMessage {
        QueuedMessage {
            id: self.id.clone(),
            version,
            due_ms: self.due_ms,
            attempts: 0,
            noted: 0,
            old: false,
            certain: true,
            since: None,
            inline: false,
            sort: self.sort,
            body: self.body.clone(),
            from: None,
        }
    }
}

/// An activity that a commit creates, before its version is known.
pub struct NewActivity {
    pub order: Order,
    pub key: Key,
    pub activity: Activity,
    pub body: Body,
    /// Which operation of the commit creates it.
    pub op: usize,
    /// Until when the commit claims it for a worker of this process; 0 if it does not.
    pub reserved_ms: u64,
    /// Whether another process is preferred for it.
    pub foreign: bool,
}

impl NewActivity {
    /// Prepares an activity and the operation that creates it, claimed for a worker of this process until `reserved_ms`
    /// if that is not 0; `None` for items that are not activities.
    pub fn new(engine: &Engine, item: WorkItem, op: usize, reserved_ms: u64) -> Result<Option<(Self, Op)>> {
        let Some(activity) = Activity::of(&item) else {
            return Ok(None);
        };
        let order = engine.next_order();
        let key = work::key(&activity, order, engine.process_id());
        let place = Place {
            lane: engine.lanes.work(activity.tag.as_ref()),
            order,
            due_ms: reserved_ms,
        };
        let owner = engine.process_id().filter(|_| reserved_ms > 0);
        let draft = work::draft(key.clone(), &item, place, u32::from(owner.is_some()), owner)?;
        let body = match owner {
            // It is about to be handed out.
            Some(_) => Body::Held(Arc::new(item), None),
            None => engine.body(item, draft.body.len()),
        };
        let foreign = reserved_ms == 0 && engine.is_foreign(&activity, order);
        Ok(Some((
            Self {
                order,
                key,
                activity,
                body,
                op,
                reserved_ms,
                foreign,
            },
            Op::Create(draft),
        )))
    }

    /// The activity as it stands on the board once it is stored.
    pub fn queued(&self, version: Version) -> QueuedActivity {
        QueuedActivity {
            key: self.key.clone(),
            version,
            activity: self.activity.clone(),
            attempts: 0,
            noted: 0,
            old: false,
            body: self.body.clone(),
            due_ms: 0,
            reserved_ms: self.reserved_ms,
            foreign: self.foreign,
        }
    }
}

/// The version that an operation wrote; `None` if it was overwritten or removed before the lost reply to the commit was
/// resolved, see [`Committed::versions`]. Then what it wrote is not this process's any more.
pub fn written(committed: &Committed, op: usize) -> Option<Version> {
    committed.version(op).cloned()
}

/// How a delivery count is written: durably at once if the item may have crashed a process before.
pub fn note_durability(old: bool) -> Durability {
    if old { Durability::Durable } else { Durability::Relaxed }
}

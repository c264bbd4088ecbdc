//! Messages to an instance: starts, completions, timers, events.

use super::envelope::{Envelope, IntentRef};
use super::{partition, tomb};
use duroxide::providers::WorkItem;
use perennial_store::{Draft, Key, Order, Place, RecordId, Result, Store};

/// The start of the ids of all messages.
pub fn root() -> RecordId {
    RecordId::of("msg")
}

/// The id of the message that arrived at `order`. Where several processes send, each adds its own tag: their orders may be
/// equal.
pub fn id(order: Order, tag: Option<&str>) -> RecordId {
    let id = root().number(order.0);
    tag.map_or_else(|| id.clone(), |tag| id.text(tag))
}

/// The order of arrival in the id of a message.
pub fn order_of(id: &RecordId) -> Option<Order> {
    let order = id.below(&root())?.split('/').next()?;
    u64::from_str_radix(order, 16).ok().map(Order)
}

/// Where a message of an instance is.
pub fn key(instance: &str, id: &RecordId) -> Key {
    Key::new(partition(instance), id.clone())
}

/// The record to write.
pub fn draft(
    instance: &str,
    id: &RecordId,
    item: &WorkItem,
    place: Place,
    attempts: u32,
    from: Option<&IntentRef>,
) -> Result<Draft> {
    Ok(Draft::new(key(instance, id), Envelope::body_from(item, attempts, from)?).placed(place))
}

/// Reads a message; `None` if it is gone, or only its tombstone is left.
pub async fn read(store: &dyn Store, instance: &str, id: &RecordId) -> Result<Option<Envelope>> {
    let record = store.get(&key(instance, id)).await?;
    let record = record.filter(|record| !tomb::is_tomb(record));
    record.map(|record| Envelope::open(&record)).transpose()
}

/// The id of a message from an intent. It is derived from the intent alone, so that a second delivery meets the first. The
/// tag tells senders apart that have used the same order.
pub fn id_from(order: Order, from: &IntentRef) -> RecordId {
    let tag = xxhash_rust::xxh3::xxh3_64(from.partition.as_bytes());
    root().number(order.0).number(tag)
}

/// The instance that a message is for; `None` for items that are not messages. Exhaustive on purpose: a new kind of item must
/// be given a target here.
pub fn target(item: &WorkItem) -> Option<&str> {
    match item {
        WorkItem::StartOrchestration { instance, .. }
        | WorkItem::ActivityCompleted { instance, .. }
        | WorkItem::ActivityFailed { instance, .. }
        | WorkItem::TimerFired { instance, .. }
        | WorkItem::ExternalRaised { instance, .. }
        | WorkItem::CancelInstance { instance, .. }
        | WorkItem::ContinueAsNew { instance, .. }
        | WorkItem::QueueMessage { instance, .. } => Some(instance),
        WorkItem::SubOrchCompleted { parent_instance, .. } | WorkItem::SubOrchFailed { parent_instance, .. } => {
            Some(parent_instance)
        }
        WorkItem::ActivityExecute { .. } => None,
    }
}

/// When a message that a turn sends becomes ready: timers at their time, everything else at once.
pub fn due_ms(item: &WorkItem) -> u64 {
    match item {
        WorkItem::TimerFired { fire_at_ms, .. } => *fire_at_ms,
        _ => 0,
    }
}

/// Whether a message starts an instance.
pub fn starts(item: &WorkItem) -> bool {
    matches!(
        item,
        WorkItem::StartOrchestration { .. } | WorkItem::ContinueAsNew { .. }
    )
}

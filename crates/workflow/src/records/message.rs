//! Messages to an instance: starts, completions, timers, events.

use super::envelope::{Envelope, From};
use super::partition;
use duroxide::providers::WorkItem;
use perennial_store::{Draft, Key, Lane, Order, Place, RecordId, Result};

/// The queue of messages.
pub const LANE: Lane = Lane::new("turn");

/// The start of the ids of all messages.
pub fn root() -> RecordId {
    RecordId::of("msg")
}

/// Where the message that arrived at `order` is.
pub fn key(instance: &str, order: Order) -> Key {
    Key::new(partition(instance), root().number(order.0))
}

/// The record to write.
pub fn draft(instance: &str, item: &WorkItem, order: Order, due_ms: u64, attempts: u32) -> Result<Draft> {
    draft_from(instance, item, order, due_ms, attempts, None)
}

/// Where a message is that arrived at `order`, from an intent or not.
///
/// The id of one from an intent is made of nothing but the intent, so that whoever delivers the intent again meets the
/// message that is there already. The tag tells senders apart that have used the same order.
pub fn key_from(instance: &str, order: Order, from: Option<&From>) -> Key {
    let mut key = key(instance, order);
    if let Some(from) = from {
        let tag = xxhash_rust::xxh3::xxh3_64(from.partition.as_bytes());
        key.id = key.id.number(tag);
    }
    key
}

/// The order of arrival of the message at `key`; `None` if it is no message.
pub fn order_of(key: &Key) -> Option<Order> {
    let order = key.id.below(&root())?.split('/').next()?;
    u64::from_str_radix(order, 16).ok().map(Order)
}

/// The record to write of a message from an intent.
pub fn draft_from(
    instance: &str,
    item: &WorkItem,
    order: Order,
    due_ms: u64,
    attempts: u32,
    from: Option<&From>,
) -> Result<Draft> {
    let place = Place {
        lane: LANE,
        order,
        due_ms,
    };
    let body = Envelope::body_from(item, attempts, from)?;
    Ok(Draft::new(key_from(instance, order, from), body).placed(place))
}

/// The instance that a message is for; `None` for items that are not messages.
pub fn target(item: &WorkItem) -> Option<&str> {
    #[allow(unreachable_patterns)]
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
        // A variant that only exists with a feature of the runtime that we do not enable.
        _ => None,
    }
}

/// When a message that a turn sends becomes ready: timers at their time, everything else at once.
pub fn due_ms(item: &WorkItem) -> u64 {
    match item {
        WorkItem::TimerFired { fire_at_ms, .. } => *fire_at_ms,
        _ => 0,
    }
}

/// Whether a message brings an instance into being.
pub fn starts(item: &WorkItem) -> bool {
    matches!(
        item,
        WorkItem::StartOrchestration { .. } | WorkItem::ContinueAsNew { .. }
    )
}

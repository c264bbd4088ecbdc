//! Messages to an instance: starts, completions, timers, events.

use super::{envelope::Envelope, partition};
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
    let place = Place {
        lane: LANE,
        order,
        due_ms,
    };
    Ok(Draft::new(key(instance, order), Envelope::body(item, attempts)?).placed(place))
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

//! Work: activities that wait for a worker.

use super::{envelope::Envelope, partition};
use duroxide::providers::WorkItem;
use perennial_store::{Draft, Key, Order, Place, RecordId, Result};
use std::sync::Arc;

/// What the engine needs to know of an activity without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The instance that scheduled it.
    pub instance: Arc<str>,
    /// The execution that scheduled it.
    pub execution: u64,
    /// The event that scheduled it.
    pub id: u64,
    /// The session that it must run in.
    pub session: Option<Arc<str>>,
    /// The tag that its worker must serve.
    pub tag: Option<Arc<str>>,
}

impl Activity {
    /// Reads it off a work item; `None` for items that are not activities.
    pub fn of(item: &WorkItem) -> Option<Self> {
        match item {
            WorkItem::ActivityExecute {
                instance,
                execution_id,
                id,
                session_id,
                tag,
                ..
            } => Some(Self {
                instance: instance.as_str().into(),
                execution: *execution_id,
                id: *id,
                session: session_id.as_deref().map(Arc::from),
                tag: tag.as_deref().map(Arc::from),
            }),
            _ => None,
        }
    }
}

/// The start of the ids of all activities.
pub fn root() -> RecordId {
    RecordId::of("work")
}

fn number(id: &RecordId, at: usize) -> Option<u64> {
    let number = id.below(&root())?.split('/').nth(at)?;
    u64::from_str_radix(number, 16).ok()
}

/// The activity within its execution, from the id of its record.
pub fn activity_of(id: &RecordId) -> Option<u64> {
    number(id, 1)
}

/// The order of arrival, from the id of an activity's record.
pub fn order_of(id: &RecordId) -> Option<Order> {
    number(id, 2).map(Order)
}

/// The start of the ids of all activities of an execution.
pub fn of_execution(execution: u64) -> RecordId {
    root().number(execution)
}

/// The start of the ids of all records of an activity.
pub fn of_activity(execution: u64, activity: u64) -> RecordId {
    of_execution(execution).number(activity)
}

/// Where the activity that arrived at `order` is. Where several processes queue, each adds its own tag.
pub fn key(activity: &Activity, order: Order, tag: Option<&str>) -> Key {
    let id = of_activity(activity.execution, activity.id).number(order.0);
    let id = tag.map_or_else(|| id.clone(), |tag| id.text(tag));
    Key::new(partition(&activity.instance), id)
}

/// The record to write; `owner` is the process that has claimed it, where several share a store.
pub fn draft(key: Key, item: &WorkItem, place: Place, attempts: u32, owner: Option<&str>) -> Result<Draft> {
    Ok(Draft::new(key, Envelope::body(item, attempts, owner)?).placed(place))
}

//! Work: activities that wait for a worker.

use super::{envelope::Envelope, partition};
use duroxide::providers::WorkItem;
use perennial_store::{Draft, Key, Lane, Order, Place, RecordId, Result};
use std::sync::Arc;

/// The queue of activities; its topics are the runtime's tags.
pub const LANE: &str = "work";

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

/// Where the activity that arrived at `order` is.
pub fn key(activity: &Activity, order: Order) -> Key {
    let id = root().number(activity.execution).number(activity.id).number(order.0);
    Key::new(partition(&activity.instance), id)
}

/// The record to write.
pub fn draft(activity: &Activity, item: &WorkItem, order: Order, due_ms: u64, attempts: u32) -> Result<Draft> {
    let place = Place {
        lane: Lane::topic(LANE, activity.tag.clone()),
        order,
        due_ms,
    };
    Ok(Draft::new(key(activity, order), Envelope::body(item, attempts)?).placed(place))
}

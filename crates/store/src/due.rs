//! Queries for ready work.

use crate::{Lane, Order, Record, SlotSet};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Which topics of a queue are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topics {
    /// All of them.
    All,
    /// Only the default topic.
    Default,
    /// These, and the default topic if `default` is set.
    These {
        /// The named topics.
        topics: BTreeSet<Arc<str>>,
        /// Whether the default topic is wanted too.
        default: bool,
    },
}

impl Topics {
    /// Whether a lane's topic is wanted.
    pub fn matches(&self, topic: Option<&str>) -> bool {
        match (self, topic) {
            (Self::All, _) | (Self::Default, None) => true,
            (Self::Default, Some(_)) => false,
            (Self::These { default, .. }, None) => *default,
            (Self::These { topics, .. }, Some(topic)) => topics.contains(topic),
        }
    }
}

/// A query for ready work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueQuery {
    /// The queue.
    pub lane: Cow<'static, str>,
    /// Its topics.
    pub topics: Topics,
    /// The slots to search.
    pub slots: SlotSet,
    /// Records due at or before this time are ready. `u64::MAX` matches all, ready or not.
    pub until_ms: u64,
    /// Only records that arrived after this one, for paging.
    pub after: Option<Order>,
    /// The largest number of records to return.
    pub limit: usize,
}

impl DueQuery {
    /// The first `limit` ready records of all topics of a queue.
    pub fn new(lane: &Lane, until_ms: u64, limit: usize) -> Self {
        Self {
            lane: lane.name.clone(),
            topics: Topics::All,
            slots: SlotSet::all(),
            until_ms,
            after: None,
            limit,
        }
    }
}

/// Ready work, in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DuePage {
    /// The records, earliest arrival first.
    pub records: Vec<Record>,
    /// Whether records that match were left out because of the limit.
    pub more: bool,
    /// The earliest due time of a matching record that is not ready yet, where the store knows it.
    pub next_due_ms: Option<u64>,
}

impl DuePage {
    /// The order of the last record: the `after` of the next page.
    pub fn end(&self) -> Option<Order> {
        let last = self.records.last()?;
        Some(last.place.as_ref()?.order)
    }
}

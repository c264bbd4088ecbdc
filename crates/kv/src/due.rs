//! The queue index: in memory, rebuilt from the queue table when a store opens.
//!
//! Each topic keeps its records by arrival and by due time, and its ready records separately by arrival. "Ready" is
//! measured against a watermark that follows the times of the queries, so that a query never walks over records that
//! are not due.

use bytes::Bytes;
use perennial_store::{DueQuery, Place, Slot};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A queued record.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) key: Bytes,
    pub(crate) slot: Slot,
    pub(crate) place: Place,
    pub(crate) version: u64,
    /// Its keys in the index table, if it is listed too.
    pub(crate) index: Vec<Bytes>,
}

impl Item {
    /// Its position by arrival. The version breaks ties of the same order.
    pub(crate) fn position(&self) -> Position {
        (self.place.order.0, self.version)
    }

    fn due(&self) -> Position {
        (self.place.due_ms, self.version)
    }
}

/// An order or a due time, and a version.
pub(crate) type Position = (u64, u64);

/// What a query found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) items: Vec<Arc<Item>>,
    pub(crate) more: bool,
    pub(crate) next_due_ms: Option<u64>,
}

#[derive(Default)]
struct Topic {
    by_order: BTreeMap<Position, Arc<Item>>,
    by_due: BTreeMap<Position, Arc<Item>>,
    ready: BTreeMap<Position, Arc<Item>>,
    watermark: u64,
}

impl Topic {
    fn insert(&mut self, item: &Arc<Item>) {
        self.by_order.insert(item.position(), item.clone());
        self.by_due.insert(item.due(), item.clone());
        if item.place.due_ms <= self.watermark {
            self.ready.insert(item.position(), item.clone());
        }
    }

    fn remove(&mut self, item: &Item) {
        self.by_order.remove(&item.position());
        self.by_due.remove(&item.due());
        self.ready.remove(&item.position());
    }

    /// Moves the watermark; touches only the records that become ready, or cease to be.
    fn move_to(&mut self, until_ms: u64) {
        let (from, to) = (self.watermark.min(until_ms), self.watermark.max(until_ms));
        if from == to {
            return;
        }
        for item in self.by_due.range((from + 1, 0)..=(to, u64::MAX)).map(|(_, item)| item) {
            if until_ms == to {
                self.ready.insert(item.position(), item.clone());
            } else {
                self.ready.remove(&item.position());
            }
        }
        self.watermark = until_ms;
    }
}

/// All queues.
#[derive(Default)]
pub(crate) struct DueIndex {
    items: HashMap<Bytes, Arc<Item>>,
    lanes: HashMap<String, BTreeMap<Option<Arc<str>>, Topic>>,
}

impl DueIndex {
    pub(crate) fn get(&self, key: &Bytes) -> Option<&Arc<Item>> {
        self.items.get(key)
    }

    pub(crate) fn insert(&mut self, item: Arc<Item>) {
        self.remove(&item.key);
        let lane = &item.place.lane;
        if !self.lanes.contains_key(lane.name.as_ref()) {
            self.lanes.insert(lane.name.to_string(), BTreeMap::new());
        }
        if let Some(topics) = self.lanes.get_mut(lane.name.as_ref()) {
            topics.entry(lane.topic.clone()).or_default().insert(&item);
        }
        self.items.insert(item.key.clone(), item);
    }

    pub(crate) fn remove(&mut self, key: &Bytes) {
        let Some(item) = self.items.remove(key) else { return };
        let Some(topics) = self.lanes.get_mut(item.place.lane.name.as_ref()) else {
            return;
        };
        if let Some(topic) = topics.get_mut(&item.place.lane.topic) {
            topic.remove(&item);
            if topic.by_order.is_empty() {
                topics.remove(&item.place.lane.topic);
            }
        }
    }

    /// The first `limit` matching items after `after`, in order of arrival.
    pub(crate) fn query(&mut self, query: &DueQuery, after: Option<Position>, limit: usize) -> Found {
        let mut found = Found::default();
        let Some(topics) = self.lanes.get_mut(query.lane.as_ref()) else {
            return found;
        };
        let wanted = topics
            .iter_mut()
            .filter(|(name, _)| query.topics.matches(name.as_deref()));
        for (_, topic) in wanted {
            let matches = |item: &&Arc<Item>| query.slots.contains(item.slot);
            let source = if query.until_ms == u64::MAX {
                &topic.by_order
            } else {
                topic.move_to(query.until_ms);
                let next = topic.by_due.range((query.until_ms + 1, 0)..);
                let next_due_ms = next.map(|(_, item)| item).find(matches).map(|item| item.place.due_ms);
                found.next_due_ms = [found.next_due_ms, next_due_ms].into_iter().flatten().min();
                &topic.ready
            };
            let start = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            let items = source.range((start, std::ops::Bound::Unbounded)).map(|(_, item)| item);
            found
                .items
                .extend(items.filter(matches).take(limit.saturating_add(1)).cloned());
        }
        found.items.sort_unstable_by_key(|item| item.position());
        found.more = found.items.len() > limit;
        found.items.truncate(limit);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perennial_store::{Lane, Order, SlotSet, Topics};

    fn item(n: u64, topic: Option<&str>, order: u64, due_ms: u64) -> Arc<Item> {
        Arc::new(Item {
            key: Bytes::from(n.to_string()),
            slot: Slot((n % 256) as u8),
            place: Place {
                lane: Lane::topic("work", topic.map(Into::into)),
                order: Order(order),
                due_ms,
            },
            version: n,
            index: Vec::new(),
        })
    }

    fn orders(index: &mut DueIndex, until_ms: u64) -> (Vec<u64>, Option<u64>) {
        let found = index.query(&DueQuery::new(&Lane::new("work"), until_ms, 100), None, 100);
        let orders = found.items.iter().map(|item| item.place.order.0).collect();
        (orders, found.next_due_ms)
    }

    #[test]
    fn the_watermark_may_go_forward_and_back() {
        let mut index = DueIndex::default();
        index.insert(item(1, None, 1, 30));
        index.insert(item(2, Some("a"), 2, 10));
        index.insert(item(3, None, 3, 0));
        assert_eq!(orders(&mut index, 5), (vec![3], Some(10)));
        assert_eq!(orders(&mut index, 30), (vec![1, 2, 3], None));
        assert_eq!(orders(&mut index, 10), (vec![2, 3], Some(30)));
        assert_eq!(orders(&mut index, 0), (vec![3], Some(10)));
        assert_eq!(orders(&mut index, u64::MAX), (vec![1, 2, 3], None));
        index.insert(item(2, None, 2, 40));
        assert_eq!(orders(&mut index, 30), (vec![1, 3], Some(40)));
        index.remove(&Bytes::from("1"));
        assert_eq!(orders(&mut index, 30), (vec![3], Some(40)));
    }

    #[test]
    fn an_empty_topic_takes_no_room() {
        let mut index = DueIndex::default();
        for n in 0..100 {
            index.insert(item(n, Some(&n.to_string()), n, 0));
            index.remove(&Bytes::from(n.to_string()));
        }
        assert!(index.items.is_empty() && index.lanes["work"].is_empty());
    }

    #[test]
    fn slots_and_topics_choose() {
        let mut index = DueIndex::default();
        for n in 0..8 {
            index.insert(item(n, [None, Some("a")][(n % 2) as usize], n, 0));
        }
        let mut query = DueQuery::new(&Lane::new("work"), 0, 100);
        query.slots = SlotSet::none().with(Slot(2)).with(Slot(3));
        query.topics = Topics::Default;
        let found = index.query(&query, None, 1);
        assert_eq!(found.items.iter().map(|item| item.version).collect::<Vec<_>>(), [2]);
        assert!(!found.more);
    }
}

//! The history of one execution, page by page.

use crate::records::page::Page;
use duroxide::{Event, EventKind};
use std::sync::Arc;

/// The pages of an execution, or why they cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    pages: Vec<Arc<Page>>,
    damage: Option<Arc<str>>,
}

impl History {
    /// A history of these pages, in order of turns.
    pub fn new(pages: Vec<Arc<Page>>) -> Self {
        Self { pages, damage: None }
    }

    /// A history that cannot be read.
    pub fn damaged(why: impl Into<Arc<str>>) -> Self {
        Self {
            pages: Vec::new(),
            damage: Some(why.into()),
        }
    }

    /// Why it cannot be read, if so.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The same history with one more page. A damaged one stays damaged.
    #[must_use]
    pub fn with(&self, page: Arc<Page>) -> Self {
        let mut next = self.clone();
        if next.damage.is_none() {
            next.pages.push(page);
        }
        next
    }

    /// All events by reference, in order of turns.
    pub fn iter(&self) -> impl Iterator<Item = &Event> {
        self.pages.iter().flat_map(|page| page.events.iter())
    }

    /// All events, in order of their ids.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::with_capacity(self.pages.iter().map(|page| page.events.len()).sum());
        events.extend(self.iter().cloned());
        if !events.is_sorted_by_key(|event| event.event_id) {
            events.sort_by_key(|event| event.event_id);
        }
        events
    }

    /// Whether an event has this id.
    pub fn contains(&self, event_id: u64) -> bool {
        self.iter().any(|event| event.event_id == event_id)
    }

    /// The name and version in the start event.
    pub fn started_as(&self) -> Option<(String, String)> {
        self.iter().find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted { name, version, .. } => Some((name.clone(), version.clone())),
            _ => None,
        })
    }

    /// How many queue messages the start event carried over from the execution before.
    pub fn carried_forward(&self) -> u64 {
        let carried = self.iter().find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted {
                carry_forward_events, ..
            } => carry_forward_events.as_ref(),
            _ => None,
        });
        carried.map_or(0, |events| events.len() as u64)
    }
}

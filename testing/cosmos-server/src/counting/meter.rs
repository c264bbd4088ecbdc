//! Where requests are counted.

use super::{Counts, Entry};
use crate::Container;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};

/// Where requests are counted.
#[derive(Debug)]
pub(crate) struct Meter {
    state: Mutex<State>,
    keep: usize,
}

#[derive(Debug, Default)]
struct State {
    all: Counts,
    by_container: HashMap<Container, Counts>,
    log: VecDeque<Entry>,
}

impl Meter {
    pub fn new(keep: usize) -> Self {
        Self {
            state: Mutex::default(),
            keep,
        }
    }

    /// Counts a request, and numbers it.
    pub fn record(&self, mut entry: Entry) {
        let mut state = self.state.lock();
        entry.number = state.all.total;
        state.all.add(entry.kind, entry.status, entry.ru);
        if let Some(container) = &entry.container {
            let counts = state.by_container.entry(container.clone()).or_default();
            counts.add(entry.kind, entry.status, entry.ru);
        }
        if self.keep == 0 {
            return;
        }
        if state.log.len() == self.keep {
            state.log.pop_front();
        }
        state.log.push_back(entry);
    }

    pub fn counts(&self) -> Counts {
        self.state.lock().all.clone()
    }

    pub fn counts_in(&self, container: &Container) -> Counts {
        let state = self.state.lock();
        state.by_container.get(container).cloned().unwrap_or_default()
    }

    pub fn log(&self) -> Vec<Entry> {
        self.state.lock().log.iter().cloned().collect()
    }
}

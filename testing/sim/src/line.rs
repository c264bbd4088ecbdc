//! The order in which a store of one process takes commits.

use parking_lot::Mutex;
use perennial_store::{Commit, Key};
use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{Mutex as Turnstile, Notify, OwnedMutexGuard};

/// Commits that wait for their place in the order, however slow the first of them is.
#[derive(Clone)]
pub enum Line {
    /// The order is that of the calls.
    Calls(Arc<Turnstile<()>>),
    /// Commits that name a common record keep the order of their calls; others overtake each other. So it may be on a store
    /// that has to read records from far away before it accepts a commit.
    Records(Arc<Records>),
}

impl Line {
    /// The line of a store, some of whose records may be far away.
    pub fn new(cold_reads: bool) -> Self {
        match cold_reads {
            true => Self::Records(Arc::default()),
            false => Self::Calls(Arc::default()),
        }
    }

    /// Waits until it is a commit's turn, which lasts until the result is dropped.
    pub async fn enter(&self, commit: &Commit) -> Turn {
        match self {
            Self::Calls(turnstile) => Turn::Call {
                _guard: Arc::clone(turnstile).lock_owned().await,
            },
            Self::Records(records) => {
                let places = records.take(commit);
                records.until_first(&places).await;
                Turn::Records { _places: places }
            }
        }
    }
}

/// The turn of a commit.
pub enum Turn {
    /// No other commit has one.
    Call {
        /// Held until then.
        _guard: OwnedMutexGuard<()>,
    },
    /// No commit that names one of its records has one.
    Records {
        /// Held until then.
        _places: Places,
    },
}

/// A line for each record.
#[derive(Default)]
pub struct Records {
    lines: Mutex<Lines>,
    left: Notify,
}

#[derive(Default)]
struct Lines {
    of: HashMap<Key, VecDeque<u64>>,
    last: u64,
}

/// The places of a commit, one for each of its records.
pub struct Places {
    records: Arc<Records>,
    number: u64,
    keys: Vec<Key>,
}

impl Records {
    fn take(self: &Arc<Self>, commit: &Commit) -> Places {
        let mut lines = self.lines.lock();
        lines.last += 1;
        let number = lines.last;
        let keys: Vec<Key> = commit.ops.iter().map(|op| op.key().clone()).collect();
        for key in &keys {
            lines.of.entry(key.clone()).or_default().push_back(number);
        }
        let records = Arc::clone(self);
        Places { records, number, keys }
    }

    async fn until_first(&self, places: &Places) {
        loop {
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            let is_first = {
                let lines = self.lines.lock();
                let first = |key| lines.of.get(key).and_then(VecDeque::front);
                places.keys.iter().all(|key| first(key) == Some(&places.number))
            };
            if is_first {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let mut lines = self.records.lines.lock();
        for key in &self.keys {
            let Some(line) = lines.of.get_mut(key) else { continue };
            line.retain(|number| *number != self.number);
            if line.is_empty() {
                lines.of.remove(key);
            }
        }
        drop(lines);
        self.records.left.notify_waiters();
    }
}

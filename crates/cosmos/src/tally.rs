//! Totals: every handle adds up its own and writes them to a document of its own, now and then.
//!
//! A total cannot be part of the commit that changes it, because it is in another partition. So a handle keeps its sums in
//! memory, writes them every few seconds if they have changed, and adds them to those of the handles before it when it
//! is closed. Nobody else writes a handle's document, but anybody may take over one that was not written for long, by
//! adding it to the common one and deleting it in one batch. A handle that finds its document gone starts again at what
//! it had not written yet: nothing counts twice.

use crate::core::Core;
use azure_core::http::Etag;
use parking_lot::Mutex;
use perennial_store::{Clock, Counter, SystemClock};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Sums by counter.
pub(crate) type Sums = BTreeMap<String, i64>;

/// What this handle has counted.
pub(crate) struct Tally {
    /// The id of its document.
    pub(crate) id: String,
    /// When it began to count, in milliseconds since the Unix epoch.
    pub(crate) began_ms: u64,
    state: Mutex<State>,
    /// Held while the document is written, so that one writes at a time.
    pub(crate) writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// All that was counted and is not in another document.
    sums: Sums,
    /// What the document holds of it.
    written: Sums,
    /// The document's tag, if there is one.
    etag: Option<Etag>,
    /// By how much each has grown, wherever it is now.
    grown: Sums,
}

/// What is to be written.
pub(crate) struct Unwritten {
    pub(crate) sums: Sums,
    pub(crate) etag: Option<Etag>,
}

impl Tally {
    pub(crate) fn new(handle: &str) -> Self {
        Self {
            id: format!("handle-{handle}"),
            began_ms: SystemClock.now_ms(),
            state: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// Counts what a commit counted.
    pub(crate) fn add(&self, counted: Vec<(Counter, i64)>) {
        let mut state = self.state.lock();
        for (counter, delta) in counted {
            let counter = counter.0.into_owned();
            if delta > 0 {
                *state.grown.entry(counter.clone()).or_default() += delta;
            }
            *state.sums.entry(counter).or_default() += delta;
        }
    }

    /// By how much each counter has grown since this handle was opened.
    pub(crate) fn grown(&self) -> Sums {
        self.state.lock().grown.clone()
    }

    /// What this handle adds to the totals.
    pub(crate) fn sums(&self) -> Sums {
        self.state.lock().sums.clone()
    }

    /// What the document should hold and does not; `None` if it does.
    pub(crate) fn unwritten(&self) -> Option<Unwritten> {
        let state = self.state.lock();
        (state.sums != state.written).then(|| Unwritten {
            sums: state.sums.clone(),
            etag: state.etag.clone(),
        })
    }

    /// The document's tag, if there is one.
    pub(crate) fn etag(&self) -> Option<Etag> {
        self.state.lock().etag.clone()
    }

    /// The document was written.
    pub(crate) fn wrote(&self, sums: Sums, etag: Option<Etag>) {
        let mut state = self.state.lock();
        state.written = sums;
        state.etag = etag;
    }

    /// The document's sums are in another one now, and it is gone.
    pub(crate) fn moved(&self) {
        let mut state = self.state.lock();
        let written = std::mem::take(&mut state.written);
        state.etag = None;
        subtract(&mut state.sums, &written);
    }

    /// These sums are in another document now, and this handle's own is gone.
    pub(crate) fn left(&self, sums: &Sums) {
        let mut state = self.state.lock();
        state.written.clear();
        state.etag = None;
        subtract(&mut state.sums, sums);
    }
}

fn subtract(sums: &mut Sums, part: &Sums) {
    for (counter, sum) in part {
        *sums.entry(counter.clone()).or_default() -= sum;
    }
    sums.retain(|_, sum| *sum != 0);
}

/// Writes the sums every so often, for as long as the store is there.
pub(crate) fn keep(core: &Arc<Core>, interval: Duration) {
    let core: Weak<Core> = Arc::downgrade(core);
    tokio::spawn(async move {
        loop {
            SystemClock.sleep(interval).await;
            let Some(core) = core.upgrade().filter(|core| core.check_open().is_ok()) else {
                return;
            };
            if let Err(error) = core.write_tally().await {
                tracing::debug!(%error, "the totals could not be written; they will be later");
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: Counter = Counter::new("started");

    #[test]
    fn what_another_took_over_is_not_counted_twice() {
        let tally = Tally::new("h");
        tally.add(vec![(STARTED, 5)]);
        let first = tally.unwritten().unwrap();
        tally.wrote(first.sums, Some(Etag::from("\"1\"")));
        assert!(tally.unwritten().is_none());
        tally.add(vec![(STARTED, 2)]);
        tally.moved();
        assert_eq!(tally.sums(), Sums::from([("started".to_owned(), 2)]));
        tally.add(vec![(STARTED, -1)]);
        assert_eq!(tally.grown(), Sums::from([("started".to_owned(), 7)]));
        assert!(tally.etag().is_none() && tally.unwritten().is_some());
    }

    #[test]
    fn what_was_left_behind_is_gone_and_what_came_later_is_not() {
        let tally = Tally::new("h");
        tally.add(vec![(STARTED, 5)]);
        let left = tally.sums();
        tally.add(vec![(STARTED, 1)]);
        tally.left(&left);
        assert_eq!(tally.sums(), Sums::from([("started".to_owned(), 1)]));
    }
}

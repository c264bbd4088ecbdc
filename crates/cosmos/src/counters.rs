//! Totals: every handle adds up its own and writes them to its own document, now and then.
//!
//! A total cannot be part of the commit that changes it, because it is in another partition. So a handle keeps its sums
//! in memory, writes them every few seconds if they have changed, and adds them to those of earlier handles when it is
//! closed. Only the handle writes its document, but any other may take over one that was not written for long, by
//! adding it to the common one and deleting it in one batch. A handle that finds its document gone starts again at what
//! it had not written yet: nothing counts twice.
//!
//! # What a kill loses is noticed
//!
//! A document is either *complete*, nothing is missing in it, or open. A handle opens its document before the first
//! commit that counts, and marks it complete when nothing has changed for a while. So an open document that was not
//! written for longer than that belongs to a handle that died, and may lack its last counts: the totals are in doubt,
//! see [`crate::recount`].

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
pub(crate) struct Counters {
    /// The id of its document.
    pub(crate) id: String,
    /// When it began to count, in milliseconds since the Unix epoch.
    pub(crate) began_ms: u64,
    state: Mutex<State>,
    /// Held while the document is written, so that one writes at a time.
    pub(crate) writing: tokio::sync::Mutex<()>,
}

struct State {
    /// Everything that was counted and is not in another document.
    sums: Sums,
    /// The part of it that the document holds.
    written: Sums,
    /// The document's tag, if there is one.
    etag: Option<Etag>,
    /// By how much each counter has grown, wherever its sum is now.
    grown: Sums,
    /// Whether no commit may count before the document is opened.
    complete: bool,
    /// Whether the stored document is complete. Without one, nothing is missing.
    written_complete: bool,
    /// Whether the totals may be wrong because of this handle, though it is alive.
    doubt: bool,
    /// How many commits that count are under way.
    running: u32,
    /// How many have begun so far.
    begun: u64,
    /// When the last one ended, in milliseconds since the Unix epoch.
    changed_ms: u64,
}

/// What is to be written.
pub(crate) struct Unwritten {
    pub(crate) sums: Sums,
    pub(crate) etag: Option<Etag>,
    pub(crate) complete: bool,
    pub(crate) doubt: bool,
}

/// A commit that counts, while it is under way.
pub(crate) struct Counting<'a>(&'a Counters);

impl Counting<'_> {
    /// It happened, and counted this.
    pub(crate) fn add(&self, counted: Vec<(Counter, i64)>) {
        let mut state = self.0.state.lock();
        for (counter, delta) in counted {
            let counter = counter.0.into_owned();
            if delta > 0 {
                *state.grown.entry(counter.clone()).or_default() += delta;
            }
            *state.sums.entry(counter).or_default() += delta;
        }
    }

    /// It is unknown whether it happened.
    pub(crate) fn doubt(&self) {
        self.0.state.lock().doubt = true;
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.running -= 1;
        state.changed_ms = SystemClock.now_ms();
    }
}

impl Counters {
    pub(crate) fn new(handle: &str) -> Self {
        Self {
            id: format!("handle-{handle}"),
            began_ms: SystemClock.now_ms(),
            state: Mutex::new(State {
                sums: Sums::new(),
                written: Sums::new(),
                etag: None,
                grown: Sums::new(),
                complete: true,
                written_complete: true,
                doubt: false,
                running: 0,
                begun: 0,
                changed_ms: 0,
            }),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// Begins a commit that counts; `None` if the document must be opened first.
    pub(crate) fn begin(&self) -> Option<Counting<'_>> {
        let mut state = self.state.lock();
        if state.complete {
            return None;
        }
        state.running += 1;
        state.begun += 1;
        Some(Counting(self))
    }

    /// By how much each counter has grown since this handle was opened.
    pub(crate) fn grown(&self) -> Sums {
        self.state.lock().grown.clone()
    }

    /// What this handle adds to the totals.
    pub(crate) fn sums(&self) -> Sums {
        self.state.lock().sums.clone()
    }

    /// Whether the totals may be wrong because of this handle.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.state.lock().doubt
    }

    /// How many commits that count have begun, if none is under way.
    pub(crate) fn at_rest(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.running == 0).then_some(state.begun)
    }

    /// What the document should hold and does not; `None` if it is up to date. After `quiet_ms` without a change it is
    /// complete: from then on no commit that counts begins before it is opened again.
    pub(crate) fn unwritten(&self, quiet_ms: u64) -> Option<Unwritten> {
        let mut state = self.state.lock();
        let is_changed = state.sums != state.written;
        let is_quiet = SystemClock.now_ms().saturating_sub(state.changed_ms) >= quiet_ms;
        let completes = !state.complete && state.running == 0 && !is_changed && is_quiet;
        state.complete |= completes;
        (is_changed || state.complete != state.written_complete).then(|| state.unwritten())
    }

    /// What the document must hold before commits may count again; `None` if they may.
    pub(crate) fn opening(&self) -> Option<Unwritten> {
        let state = self.state.lock();
        state.complete.then(|| Unwritten {
            complete: false,
            ..state.unwritten()
        })
    }

    /// Lets commits count, whatever the document says.
    pub(crate) fn open(&self) {
        self.state.lock().complete = false;
    }

    /// Lets no commit count before the document is opened again, provided that none has begun since `begun`. Returns
    /// what this handle adds then; `None` if one has begun.
    pub(crate) fn pause(&self, begun: u64) -> Option<Paused> {
        let mut state = self.state.lock();
        let is_as_it_was = state.running == 0 && state.begun == begun;
        is_as_it_was.then(|| Paused {
            was_complete: std::mem::replace(&mut state.complete, true),
            sums: state.sums.clone(),
            etag: state.etag.clone(),
        })
    }

    /// The document's tag, if there is one.
    pub(crate) fn etag(&self) -> Option<Etag> {
        self.state.lock().etag.clone()
    }

    /// The document was written.
    pub(crate) fn wrote(&self, sums: Sums, etag: Option<Etag>, complete: bool) {
        let mut state = self.state.lock();
        state.written = sums;
        state.etag = etag;
        state.written_complete = complete;
    }

    /// The document's sums are in another one now, and it is gone. The handle that took this one for dead may have
    /// counted what it had not written.
    pub(crate) fn taken_over(&self) {
        let mut state = self.state.lock();
        state.doubt |= state.running > 0 || state.sums != state.written;
        let written = std::mem::take(&mut state.written);
        state.etag = None;
        state.written_complete = true;
        subtract(&mut state.sums, &written);
    }

    /// These sums are in another document now, and this handle's own is gone.
    pub(crate) fn folded(&self, sums: &Sums) {
        let mut state = self.state.lock();
        state.written.clear();
        state.etag = None;
        state.written_complete = true;
        state.doubt = false;
        subtract(&mut state.sums, sums);
    }
}

/// A handle in which no commit counts for a moment.
pub(crate) struct Paused {
    /// Whether its document was complete before.
    pub(crate) was_complete: bool,
    pub(crate) sums: Sums,
    pub(crate) etag: Option<Etag>,
}

impl State {
    fn unwritten(&self) -> Unwritten {
        Unwritten {
            sums: self.sums.clone(),
            etag: self.etag.clone(),
            complete: self.complete,
            doubt: self.doubt,
        }
    }
}

/// Subtracts one from the other.
pub(crate) fn subtract(sums: &mut Sums, part: &Sums) {
    for (counter, sum) in part {
        *sums.entry(counter.clone()).or_default() -= sum;
    }
    sums.retain(|_, sum| *sum != 0);
}

/// Writes the sums at intervals, for as long as the store is open.
pub(crate) fn write_periodically(core: &Arc<Core>, interval: Duration) {
    let core: Weak<Core> = Arc::downgrade(core);
    tokio::spawn(async move {
        loop {
            SystemClock.sleep(interval).await;
            let Some(core) = core.upgrade().filter(|core| core.check_open().is_ok()) else {
                return;
            };
            if let Err(error) = core.write_counters().await {
                tracing::debug!(%error, "the totals could not be written; they will be later");
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: Counter = Counter::new("started");
    const NEVER: u64 = u64::MAX;

    fn opened() -> Counters {
        let counters = Counters::new("h");
        assert!(counters.begin().is_none(), "nothing counts before the document is open");
        counters.open();
        counters
    }

    fn add(counters: &Counters, delta: i64) {
        counters.begin().unwrap().add(vec![(STARTED, delta)]);
    }

    fn sums(sum: i64) -> Sums {
        Sums::from([("started".to_owned(), sum)])
    }

    #[test]
    fn sums_that_another_handle_took_over_are_not_counted_twice() {
        let counters = opened();
        add(&counters, 5);
        let first = counters.unwritten(NEVER).unwrap();
        counters.wrote(first.sums, Some(Etag::from("\"1\"")), false);
        assert!(counters.unwritten(NEVER).is_none());
        add(&counters, 2);
        counters.taken_over();
        assert_eq!(counters.sums(), sums(2));
        assert!(
            counters.is_doubtful(),
            "the handle that took it over may have counted those two as well"
        );
        add(&counters, -1);
        assert_eq!(counters.grown(), sums(7));
        assert!(counters.etag().is_none() && counters.unwritten(NEVER).is_some());
    }

    #[test]
    fn folded_sums_are_gone_and_later_ones_are_not() {
        let counters = opened();
        add(&counters, 5);
        let left = counters.sums();
        add(&counters, 1);
        counters.folded(&left);
        assert_eq!(counters.sums(), sums(1));
    }

    #[test]
    fn a_document_is_complete_after_a_quiet_time_and_opened_before_the_next_count() {
        let counters = opened();
        add(&counters, 5);
        let changed = counters.unwritten(0).unwrap();
        assert!(!changed.complete, "more may come");
        counters.wrote(changed.sums, Some(Etag::from("\"1\"")), false);
        let running = counters.begin().unwrap();
        assert!(counters.unwritten(0).is_none(), "something is under way");
        drop(running);
        assert!(counters.unwritten(NEVER).is_none());
        let complete = counters.unwritten(0).unwrap();
        assert!(complete.complete && counters.begin().is_none());
        assert!(counters.unwritten(0).is_some(), "it could not be written, and will be");
        counters.wrote(complete.sums, Some(Etag::from("\"2\"")), true);
        assert!(counters.unwritten(0).is_none() && counters.begin().is_none());
        assert!(!counters.opening().unwrap().complete);
        counters.open();
        assert!(counters.begin().is_some() && counters.opening().is_none());
    }

    #[test]
    fn a_complete_document_is_taken_over_without_a_doubt() {
        let counters = opened();
        add(&counters, 5);
        let written = counters.unwritten(NEVER).unwrap();
        counters.wrote(written.sums, Some(Etag::from("\"1\"")), false);
        let complete = counters.unwritten(0).unwrap();
        counters.wrote(complete.sums, Some(Etag::from("\"2\"")), true);
        counters.taken_over();
        assert!(!counters.is_doubtful() && counters.sums().is_empty());
    }

    #[test]
    fn a_working_handle_cannot_be_paused() {
        let counters = opened();
        let begun = counters.at_rest().unwrap();
        let running = counters.begin().unwrap();
        assert!(counters.at_rest().is_none() && counters.pause(begun).is_none());
        drop(running);
        assert!(counters.pause(begun).is_none(), "something has happened since");
        assert!(counters.pause(begun + 1).is_some() && counters.begin().is_none());
    }
}

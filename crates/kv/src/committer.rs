//! Group commit: all waiting commits are written as one batch, synced once, published and completed.

use crate::calls::Calls;
use crate::due::Item;
use crate::meta::{self, Group};
use crate::pace::{Expected, Pace};
use crate::readers::Readers;
use crate::state::{Accepted, Closed, State};
use crate::stats::{Counts, add_one};
use crate::store::engine_error;
use crate::{Batch, EngineError, OrderedKv, Settings, Span, Table, Write, keys, value};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use perennial_store::{Error, Health, HealthReporter, Lane, Result, SignalSender, Slot};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::Notify;

/// The state that a handle and its committer share.
///
/// Locks are taken in the order `engine`, `state`. What holds `state` does not call the engine, unless that is inline.
pub(crate) struct Core<E> {
    /// The engine, until the store is closed. Where its reads wait, so may this lock, and a caller's thread does not take it.
    pub(crate) engine: RwLock<Option<E>>,
    /// Whether commits are written by their callers.
    pub(crate) is_inline: bool,
    /// The threads that call the engine, if its reads wait.
    pub(crate) readers: Option<Arc<Readers>>,
    pub(crate) state: Mutex<State>,
    /// Wakes the committer, if it is a thread.
    wake: Condvar,
    /// Wakes the owner of a store that has no committer thread.
    wanted: Notify,
    written: Mutex<Written>,
    /// What follows the commits of a store without a committer.
    pub(crate) calls: Calls,
    pub(crate) counts: Counts,
    pub(crate) signals: SignalSender,
    pub(crate) health: HealthReporter,
    pub(crate) settings: Settings,
    pub(crate) epoch: u64,
}

/// How much the engine holds.
struct Written {
    group: Group,
    /// Whether something was written but not synced.
    unsynced: bool,
}

/// How many queued records are read at a time when a store opens.
const OPEN_PAGE: usize = 4096;

impl<E: OrderedKv> Core<E> {
    /// Moves into a new epoch and reads the totals and the queue table.
    pub(crate) fn open(engine: E, is_inline: bool, settings: Settings) -> std::result::Result<Self, EngineError> {
        let epoch = meta::next_epoch(&engine)?;
        let mut group = Group::read(engine.view().as_ref())?;
        // The new epoch was synced, and everything before it.
        group.synced = epoch << 40;
        let mut state = State::new(epoch, group.totals.clone(), &settings);
        let counts = Counts::default();
        read_queue(&engine, &mut state, &counts)?;
        let runtime = engine.blocking().cloned();
        Ok(Self {
            engine: RwLock::new(Some(engine)),
            is_inline,
            readers: runtime.map(|runtime| Readers::new(runtime, settings.blocking_reads)),
            state: Mutex::new(state),
            wake: Condvar::new(),
            wanted: Notify::new(),
            written: Mutex::new(Written { group, unsynced: false }),
            calls: Calls::default(),
            counts,
            signals: SignalSender::new(settings.signal_capacity),
            health: HealthReporter::default(),
            settings,
            epoch,
        })
    }

    /// Writes a group and syncs it if it holds a durable commit.
    pub(crate) fn write(&self, engine: &E, group: &mut [Accepted]) -> std::result::Result<(), EngineError> {
        let mut written = self.written.lock();
        let mut batch = merge(group);
        let has_counters = group.iter().any(|commit| !commit.counters.is_empty());
        for commit in group.iter() {
            meta::add(&mut written.group.totals, &commit.counters);
            written.group.last = commit.seq;
        }
        // Only readers beside a committer thread need to know which commits the engine holds.
        if has_counters || (!batch.is_empty() && !engine.inline()) {
            batch.push(written.group.write());
        }
        let is_durable = group.iter().any(|commit| commit.durable);
        self.write_batch(engine, &mut written, batch, is_durable)?;
        metrics::counter!("perennial_store_commits_total").increment(group.len() as u64);
        metrics::histogram!("perennial_store_group_size").record(group.len() as f64);
        Ok(())
    }

    /// Makes everything durable that was written.
    pub(crate) fn sync(&self, engine: &E) -> std::result::Result<(), EngineError> {
        self.write_batch(engine, &mut self.written.lock(), Batch::new(), true)
    }

    fn write_batch(
        &self,
        engine: &E,
        written: &mut Written,
        batch: Batch,
        sync: bool,
    ) -> std::result::Result<(), EngineError> {
        if batch.is_empty() && !(sync && written.unsynced) {
            return Ok(());
        }
        let timer = sync.then(Timer::start);
        let outcome = catch_unwind(AssertUnwindSafe(|| engine.write(batch, sync)));
        outcome.unwrap_or_else(|_| {
            Err(EngineError::Io(
                ErrorKind::Other,
                "the storage engine panicked".to_owned(),
            ))
        })?;
        written.unsynced = !sync;
        if sync {
            written.group.synced = written.group.last.max(written.group.synced);
        }
        add_one(&self.counts.groups);
        metrics::counter!("perennial_store_groups_total").increment(1);
        if let Some(timer) = timer {
            add_one(&self.counts.syncs);
            metrics::counter!("perennial_store_syncs_total").increment(1);
            metrics::histogram!("perennial_store_sync_seconds").record(timer.seconds());
        }
        Ok(())
    }

    /// After a failed write: refuses all further commits.
    pub(crate) fn stop_serving(&self, state: &mut State, error: &EngineError) {
        tracing::error!(%error, "a write failed; the store takes no more commits until it is opened again");
        metrics::counter!("perennial_store_broken_total").increment(1);
        let closed = Closed::after(error);
        self.health.stop(closed.health());
        state.closed = Some(closed);
    }

    /// Refuses all further commits and completes those that wait: the outcome of those being written is unknown, the
    /// others did not happen.
    fn fail(&self, group: Vec<Accepted>, error: &EngineError) {
        let closed = Closed::after(error);
        let waiting = {
            let mut state = self.state.lock();
            self.stop_serving(&mut state, error);
            state.take_group()
        };
        for commit in group {
            commit.reply.send(Err(unknown_outcome(error)));
        }
        for commit in waiting {
            commit.reply.send(Err(closed.error()));
        }
    }

    /// The committer thread: ends when the store is closed, and releases the engine.
    pub(crate) fn run(&self) {
        let mut pace = Pace::default();
        while let Some(group) = self.next_group(&pace) {
            let awaited = group.iter().filter(|commit| commit.reply.is_awaited()).count();
            let is_durable = group.iter().any(|commit| commit.durable);
            let timer = Timer::start();
            self.commit_group(group);
            if is_durable {
                pace.synced(timer.0, Timer::start().0, awaited);
            }
        }
        self.finish();
    }

    /// Releases the engine, with everything durable.
    pub(crate) fn finish(&self) {
        let engine = self.engine.write().take();
        let outcome = match &engine {
            Some(engine) if !matches!(self.state.lock().closed, Some(Closed::Broken(_) | Closed::Fenced(_))) => {
                self.sync(engine).map_err(engine_error)
            }
            _ => Ok(()),
        };
        drop(engine);
        self.health.stop(Health::Closed);
        let mut state = self.state.lock();
        state.ended = Some(outcome.clone());
        for closer in state.closers.drain(..) {
            closer.send(outcome.clone()).ok();
        }
    }

    /// Waits for work; `None` when the store is closed and no commit waits.
    fn next_group(&self, pace: &Pace) -> Option<Vec<Accepted>> {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && !state.stopping {
            self.wake.wait(&mut state);
        }
        if !state.waiting_urgent && !state.stopping && !state.waiting.is_empty() {
            self.wake.wait_for(&mut state, self.settings.relaxed_delay);
        }
        if let Some(expected) = pace.expected() {
            self.gather(&mut state, expected);
        }
        let group = state.take_group();
        (!group.is_empty()).then_some(group)
    }

    /// Waits until the expected group is there, or its time has passed.
    fn gather(&self, state: &mut MutexGuard<'_, State>, expected: Expected) {
        state.expected = expected.commits;
        while !state.stopping && !state.is_group_complete(&self.settings) {
            if self.wake.wait_until(state, expected.until).timed_out() {
                break;
            }
        }
        state.expected = usize::MAX;
    }

    fn commit_group(&self, mut group: Vec<Accepted>) {
        let outcome = match self.engine.read().as_ref() {
            Some(engine) => self.write(engine, &mut group),
            None => Err(EngineError::Io(ErrorKind::Other, "the store is closed".to_owned())),
        };
        if let Err(error) = outcome {
            self.fail(group, &error);
            return;
        }
        let mut lanes = Vec::new();
        {
            let mut state = self.state.lock();
            for commit in &group {
                state.publish(commit, &mut lanes);
            }
        }
        self.signal(&lanes);
        for commit in group {
            commit.reply.send(Ok(()));
        }
    }

    /// There is something to write, or the store is to be closed.
    pub(crate) fn wake_committer(&self) {
        self.wake.notify_one();
        self.wanted.notify_one();
    }

    /// Waits until something waits to be written.
    pub(crate) async fn waiting(&self) {
        while self.state.lock().waiting.is_empty() {
            self.wanted.notified().await;
        }
    }

    /// Writes what waits as one group; returns whether there was anything. In place of a committer thread.
    pub(crate) fn step(&self) -> bool {
        let group = self.state.lock().take_group();
        let is_any = !group.is_empty();
        if is_any {
            self.commit_group(group);
        }
        is_any
    }

    pub(crate) fn signal(&self, lanes: &[Lane]) {
        for lane in lanes {
            self.signals.placed(lane);
        }
    }
}

pub(crate) fn unknown_outcome(error: &EngineError) -> Error {
    match error {
        EngineError::Fenced(why) => Error::Fenced(why.clone()),
        EngineError::Io(_, why) | EngineError::Corrupt(why) => Error::UnknownOutcome(format!(
            "writing failed ({why}); mend the cause (a full disk, a failing device), open the store again and read what is there"
        )),
    }
}

/// One batch of all writes of a group, in which the last write of a key replaces the earlier ones.
fn merge(group: &mut [Accepted]) -> Batch {
    if let [only] = group {
        return std::mem::take(&mut only.writes);
    }
    let count = group.iter().map(|commit| commit.writes.len()).sum();
    let mut seen: HashSet<(Table, Bytes)> = HashSet::with_capacity(count);
    let mut batch: Vec<Write> = Vec::with_capacity(count + 1);
    for commit in group.iter_mut().rev() {
        let writes = std::mem::take(&mut commit.writes).into_iter().rev();
        batch.extend(writes.filter(|write| seen.insert((write.table(), write.key().clone()))));
    }
    batch.reverse();
    batch
}

/// Reads the queue table into the queue index. A record that cannot be read is logged and left out; the next opening
/// tries it again.
fn read_queue(engine: &impl OrderedKv, state: &mut State, counts: &Counts) -> std::result::Result<(), EngineError> {
    let view = engine.view();
    let mut span = Span::all();
    loop {
        let page = view.scan(Table::Queue, &span, OPEN_PAGE)?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        span.from = keys::after(last.to_vec());
        let is_last = page.len() < OPEN_PAGE;
        for (key, value) in page {
            match value.and_then(|value| read_item(&key, value)) {
                Ok(item) => state.due.insert(Arc::new(item)),
                Err(why) => {
                    counts.note_damaged(&key, &why);
                    state.damaged.insert(Bytes::copy_from_slice(&key));
                }
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

fn read_item(key: &Bytes, value: Bytes) -> std::result::Result<Item, String> {
    let name = keys::parse(key).ok_or("its key is not the key of a record")?;
    let stored = value::decode(value)?;
    // A copy: the engine's own bytes may be part of a larger block.
    let key = Bytes::copy_from_slice(key);
    Ok(Item {
        slot: Slot::of(&name.partition),
        place: stored.place.ok_or("it stands in no queue")?,
        version: stored.version,
        index: stored
            .listing
            .map_or_else(Vec::new, |listing| keys::index(&key, &listing, true)),
        key,
    })
}

/// Measures the machine for metrics only; nothing depends on the result.
struct Timer(std::time::Instant);

impl Timer {
    #[allow(clippy::disallowed_methods)]
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// The result of a commit, from its ticket.
pub(crate) async fn outcome_of(receiver: tokio::sync::oneshot::Receiver<Result<()>>) -> Result<()> {
    receiver.await.unwrap_or_else(|_| {
        Err(Error::UnknownOutcome(
            "the committer ended before it replied; open the store again and read what is there".to_owned(),
        ))
    })
}

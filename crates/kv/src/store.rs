//! The store over an engine.

use crate::committer::{Core, outcome, unknown_outcome};
use crate::prepare::prepare;
use crate::state::{Accepted, Call, Closed, Reply};
use crate::stats::add_one;
use crate::{EngineError, OrderedKv, Settings, Stats};
use async_trait::async_trait;
use parking_lot::Mutex;
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Error, Health, HealthWatch, Key, Limits, ListFilter,
    ListPage, OnDurable, Record, Refused, Result, ScanPage, ScanQuery, Sharing, Signals, Store,
};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A [`Store`] over an ordered key-value engine, owned by this process.
///
/// Dropping it finishes what was accepted and releases the engine before the drop returns, unless it is
/// [stepped](Self::stepped).
pub struct KvStore<E: OrderedKv> {
    core: Arc<Core<E>>,
    committer: Committer,
    limits: Limits,
    key_limit: usize,
}

/// What writes the commits that wait.
enum Committer {
    /// Nothing waits: each commit is written by its caller.
    Inline,
    /// A thread.
    Thread(Mutex<Option<JoinHandle<()>>>),
    /// The owner of the store, by calling [`KvStore::step`].
    Owner,
}

pub(crate) fn engine_error(error: EngineError) -> Error {
    match error {
        EngineError::Io(_, why) => Error::Unavailable(why),
        EngineError::Corrupt(why) => Error::Corrupt(why),
        EngineError::Fenced(why) => Error::Fenced(why),
    }
}

pub(crate) fn closed() -> Error {
    Closed::ByOwner.error()
}

/// How the caller of a commit learns of its result.
enum Submitted {
    /// It is done.
    Done(Committed),
    /// It is done when the receiver says so.
    Waiting(Committed, oneshot::Receiver<Result<()>>),
    /// By a call, which the caller is to make if it is here.
    Ordered(Option<Call>),
}

impl<E: OrderedKv> KvStore<E> {
    /// Opens a store on an engine: reads its queue table and starts a new epoch.
    pub fn with_engine(engine: E, settings: Settings) -> std::result::Result<Self, EngineError> {
        let committer = match engine.inline() {
            true => Committer::Inline,
            false => Committer::Thread(Mutex::default()),
        };
        let store = Self::with_committer(engine, settings, committer)?;
        if let Committer::Thread(thread) = &store.committer {
            *thread.lock() = Some(spawn_committer(&store.core)?);
        }
        Ok(store)
    }

    /// A store without a thread, whose commits are written when [`step`](Self::step) is called: for simulation, where nothing
    /// may happen by itself. Dropping it loses what was not written, as the death of a process does.
    pub fn stepped(engine: E, settings: Settings) -> std::result::Result<Self, EngineError> {
        Self::with_committer(engine, settings, Committer::Owner)
    }

    fn with_committer(engine: E, settings: Settings, committer: Committer) -> std::result::Result<Self, EngineError> {
        let mut limits = settings.limits;
        limits.bytes_per_key = limits.bytes_per_key.min(engine.key_limit());
        let key_limit = limits.bytes_per_key;
        let core = Arc::new(Core::open(engine, settings)?);
        Ok(Self {
            core,
            committer,
            limits,
            key_limit,
        })
    }

    /// Waits until there is something for [`step`](Self::step) to write.
    pub async fn waiting(&self) {
        self.core.waiting().await;
    }

    /// Writes everything that waits as one group, syncs it and completes it; returns whether there was anything. Only for a
    /// [stepped](Self::stepped) store.
    pub fn step(&self) -> bool {
        matches!(self.committer, Committer::Owner) && self.core.step()
    }

    /// What this handle has done so far.
    pub fn stats(&self) -> Stats {
        self.core.counts.snapshot()
    }

    /// Gives a commit its place in the order. Everything that decides its outcome happens here, in one step. `on_durable` is
    /// taken if the commit is accepted.
    fn submit(&self, commit: Commit, on_durable: &mut Option<OnDurable>) -> Result<Submitted> {
        let prepared = prepare(commit, &self.limits, self.key_limit)?;
        let engine = self.core.engine.read();
        let engine = engine.as_ref().ok_or_else(closed)?;
        let mut state = self.core.state.lock();
        let (accepted, committed) = match state.accept(engine, prepared) {
            // A read is the first to notice that another handle has taken over.
            Err(Error::Fenced(why)) if state.closed.is_none() => {
                self.core.stop_serving(&mut state, &EngineError::Fenced(why.clone()));
                return Err(Error::Fenced(why));
            }
            outcome => outcome?,
        };
        match accepted.durable {
            true => add_one(&self.core.counts.commits_durable),
            false => add_one(&self.core.counts.commits_relaxed),
        }
        if !matches!(self.committer, Committer::Inline) {
            return Ok(self.enqueue(&mut state, accepted, committed, on_durable.take()));
        }
        let mut group = [accepted];
        if let Err(error) = self.core.write(engine, &mut group) {
            self.core.stop_serving(&mut state, &error);
            return Err(unknown_outcome(&error));
        }
        let mut lanes = Vec::new();
        for commit in &group {
            state.publish(commit, &mut lanes);
        }
        let submitted = match on_durable.take() {
            None => Submitted::Done(committed),
            Some(on_durable) => Submitted::Ordered(self.core.calls.order((on_durable, committed))),
        };
        drop(state);
        self.core.signal(&lanes);
        Ok(submitted)
    }

    /// Leaves a commit to the committer. A relaxed one is visible at once and does not wait, unless too much is
    /// waiting.
    fn enqueue(
        &self,
        state: &mut crate::state::State,
        mut accepted: Accepted,
        committed: Committed,
        on_durable: Option<OnDurable>,
    ) -> Submitted {
        let mut lanes = Vec::new();
        if !accepted.durable {
            lanes = state.publish_early(&mut accepted);
        }
        let is_full = state.waiting_bytes > self.core.settings.max_waiting_bytes;
        let submitted = match on_durable {
            Some(on_durable) => {
                accepted.reply = Reply::Call(on_durable, committed);
                Submitted::Ordered(None)
            }
            None if accepted.durable || is_full => {
                let (ticket, receiver) = oneshot::channel();
                accepted.reply = Reply::Ticket(ticket);
                Submitted::Waiting(committed, receiver)
            }
            None => Submitted::Done(committed),
        };
        let is_awaited = !matches!(submitted, Submitted::Done(_));
        let was_idle = state.waiting.is_empty() || (is_awaited && !state.waiting_urgent);
        state.enqueue(accepted);
        if was_idle || state.is_group_complete(&self.core.settings) {
            self.core.wake_committer();
        }
        self.core.signal(&lanes);
        submitted
    }

    /// Waits until every relaxed commit that has returned is in the engine.
    async fn flush_relaxed(&self) -> Result<()> {
        let receiver = {
            let mut state = self.core.state.lock();
            if state.relaxed.is_empty() || state.closed.is_some() {
                return Ok(());
            }
            let (ticket, receiver) = oneshot::channel();
            let seq = state.last_version;
            state.enqueue(Accepted::barrier(seq, ticket));
            self.core.wake_committer();
            receiver
        };
        outcome(receiver).await
    }

    /// Tells the committer to finish; returns a receiver if it has not yet.
    fn stop(&self) -> std::result::Result<Result<()>, oneshot::Receiver<Result<()>>> {
        let mut state = self.core.state.lock();
        state.closed.get_or_insert(Closed::ByOwner);
        state.stopping = true;
        if let Some(outcome) = &state.ended {
            return Ok(outcome.clone());
        }
        let (ticket, receiver) = oneshot::channel();
        state.closers.push(ticket);
        self.core.wake_committer();
        Err(receiver)
    }

    fn close_inline(&self) -> Result<()> {
        self.core.state.lock().closed.get_or_insert(Closed::ByOwner);
        self.core.health.stop(Health::Closed);
        let Some(engine) = self.core.engine.write().take() else {
            return Ok(());
        };
        self.core.sync(&engine).map_err(engine_error)
    }
}

fn spawn_committer<E: OrderedKv>(core: &Arc<Core<E>>) -> std::result::Result<JoinHandle<()>, EngineError> {
    let core = core.clone();
    std::thread::Builder::new()
        .name("perennial-commit".to_owned())
        .spawn(move || core.run())
        .map_err(|error| {
            EngineError::Io(
                error.kind(),
                format!("the committer thread could not be started: {error}"),
            )
        })
}

impl<E: OrderedKv> Drop for KvStore<E> {
    fn drop(&mut self) {
        let Committer::Thread(thread) = &self.committer else {
            return;
        };
        let Some(committer) = thread.lock().take() else {
            return;
        };
        drop(self.stop());
        // A call after a commit may have been the last to use the store. Then this is the committer, which ends by itself.
        if committer.thread().id() == std::thread::current().id() {
            return;
        }
        if committer.join().is_err() {
            tracing::error!("the committer thread panicked");
        }
    }
}

#[async_trait]
impl<E: OrderedKv> Store for KvStore<E> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn sharing(&self) -> Sharing {
        Sharing::Exclusive
    }

    fn epoch(&self) -> u64 {
        self.core.epoch
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        match self.submit(commit, &mut None)? {
            Submitted::Waiting(committed, receiver) => outcome(receiver).await.map(|()| committed),
            Submitted::Done(committed) => Ok(committed),
            // Only where there is a call.
            Submitted::Ordered(_) => Ok(Committed::default()),
        }
    }

    async fn order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        let mut on_durable = Some(on_durable);
        match (self.submit(commit, &mut on_durable), on_durable) {
            (Err(error), Some(on_durable)) => Err(Refused { error, on_durable }),
            (Ok(Submitted::Ordered(Some(call))), _) => {
                self.core.make_calls(call);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        add_one(&self.core.counts.gets);
        self.core.get(key)
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        add_one(&self.core.counts.scans);
        self.core.scan(query)
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        add_one(&self.core.counts.dues);
        self.core.due(query)
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        add_one(&self.core.counts.lists);
        self.flush_relaxed().await?;
        self.core.list(filter, after, limit)
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        if self.core.engine.read().is_none() {
            return Err(closed());
        }
        let state = self.core.state.lock();
        Ok(state
            .totals
            .iter()
            .map(|(counter, total)| (counter.clone(), *total))
            .collect())
    }

    fn signals(&self) -> Signals {
        self.core.signals.subscribe()
    }

    fn health(&self) -> HealthWatch {
        self.core.health.watch()
    }

    async fn close(&self) -> Result<()> {
        if matches!(self.committer, Committer::Inline) {
            return self.close_inline();
        }
        let receiver = match self.stop() {
            Ok(outcome) => return outcome,
            Err(receiver) => receiver,
        };
        if matches!(self.committer, Committer::Owner) {
            while self.core.step() {}
            self.core.finish();
        }
        outcome(receiver).await
    }
}

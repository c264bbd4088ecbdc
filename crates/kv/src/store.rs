//! The store over an engine.

use crate::committer::{Core, outcome_of};
use crate::list;
use crate::prepare::prepare;
use crate::state::{Accepted, Closed};
use crate::stats::add_one;
use crate::submit::{NotAccepted, Submission, Submitted, decided};
use crate::value::Stored;
use crate::{EngineError, OrderedKv, Settings, Stats};
use async_trait::async_trait;
use parking_lot::Mutex;
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Error, Health, HealthWatch, Key, Limits, ListFilter,
    ListPage, OnDurable, Record, RecordPage, Refused, Result, ScanPage, ScanQuery, Sharing, Signals, Store,
};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A [`Store`] over an ordered key-value engine, owned by this process.
///
/// Dropping it finishes what was accepted and releases the engine before the drop returns, unless it is
/// [stepped](Self::stepped). Where the engine's reads [wait](OrderedKv::blocking), so may its writes: there the drop returns at
/// once, and what was accepted is finished and the engine released afterwards. [`close`](Store::close) waits for it.
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

impl<E: OrderedKv> KvStore<E> {
    /// Opens a store on an engine: reads its queue table and starts a new epoch. Blocks for as long as the engine does.
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
        let is_inline = matches!(committer, Committer::Inline);
        let core = Arc::new(Core::open(engine, is_inline, settings)?);
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
        outcome_of(receiver).await
    }

    /// A page of a listing, of what `make` takes from each stored record.
    async fn list_as<T: Send + 'static>(
        &self,
        filter: &ListFilter,
        after: Option<&Cursor>,
        limit: usize,
        make: fn(Key, Stored) -> Option<T>,
    ) -> Result<(Vec<T>, Option<Cursor>)> {
        add_one(&self.core.counts.lists);
        self.flush_relaxed().await?;
        match &self.core.readers {
            None => self.core.list(filter, after, limit, make),
            Some(readers) => {
                let (core, filter, after) = (Arc::clone(&self.core), filter.clone(), after.cloned());
                let list = move || core.list(&filter, after.as_ref(), limit, make);
                readers.read(list).await
            }
        }
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
        self.core.state.lock().ended = Some(Ok(()));
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
        // A thread of the caller's runtime must not wait for an object store. The committer ends by itself.
        if self.core.readers.is_some() {
            return;
        }
        // A call after a commit may have been the last to use the store. Then this is the committer.
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
        let prepared = prepare(commit, &self.limits, self.key_limit)?;
        let outcome = match self.core.submit(prepared, None) {
            Submission::Decided(outcome) => outcome,
            Submission::InLine(receiver) => decided(receiver).await,
        };
        match outcome.map_err(|refused| refused.error)? {
            Submitted::Waiting(committed, receiver) => outcome_of(receiver).await.map(|()| committed),
            Submitted::Done(committed) => Ok(committed),
            // Only where there is a call.
            Submitted::Ordered(_) => Ok(Committed::default()),
        }
    }

    async fn order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        let prepared = match prepare(commit, &self.limits, self.key_limit) {
            Ok(prepared) => prepared,
            Err(error) => return Err(Refused { error, on_durable }),
        };
        let outcome = match self.core.submit(prepared, Some(on_durable)) {
            Submission::Decided(outcome) => outcome,
            Submission::InLine(receiver) => decided(receiver).await,
        };
        match outcome {
            Err(NotAccepted { error, on_durable }) => {
                let on_durable = on_durable.unwrap_or_else(|| Box::new(drop));
                return Err(Refused { error, on_durable });
            }
            Ok(Submitted::Ordered(Some(call))) => self.core.calls.make(call),
            Ok(_) => {}
        }
        Ok(())
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        add_one(&self.core.counts.gets);
        match &self.core.readers {
            None => self.core.get(key),
            Some(readers) => {
                let (core, key) = (Arc::clone(&self.core), key.clone());
                readers.read(move || core.get(&key)).await
            }
        }
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        add_one(&self.core.counts.scans);
        match &self.core.readers {
            None => self.core.scan(query),
            Some(readers) => {
                let (core, query) = (Arc::clone(&self.core), query.clone());
                readers.read(move || core.scan(&query)).await
            }
        }
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        add_one(&self.core.counts.dues);
        match &self.core.readers {
            None => self.core.due(query),
            Some(readers) => {
                let (core, query) = (Arc::clone(&self.core), query.clone());
                readers.read(move || core.due(&query)).await
            }
        }
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        let (entries, next) = self.list_as(filter, after, limit, list::listed).await?;
        Ok(ListPage { entries, next })
    }

    async fn list_records(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<RecordPage> {
        let record = |key, stored: Stored| Some(stored.into_record(key));
        let (records, next) = self.list_as(filter, after, limit, record).await?;
        Ok(RecordPage { records, next })
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        let state = self.core.state.lock();
        if state.ended.is_some() {
            return Err(closed());
        }
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
        outcome_of(receiver).await
    }
}

//! The store over an engine.

use crate::committer::{Core, outcome, unknown_outcome};
use crate::prepare::prepare;
use crate::state::{Accepted, Closed};
use crate::stats::add_one;
use crate::{EngineError, OrderedKv, Settings, Stats};
use async_trait::async_trait;
use parking_lot::Mutex;
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Error, Health, HealthWatch, Key, Limits, ListFilter,
    ListPage, Record, Result, ScanPage, ScanQuery, Sharing, Signals, Store,
};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A [`Store`] over an ordered key-value engine, owned by this process.
///
/// Dropping it finishes what was accepted and releases the engine before the drop returns.
pub struct KvStore<E: OrderedKv> {
    core: Arc<Core<E>>,
    committer: Mutex<Option<JoinHandle<()>>>,
    limits: Limits,
    key_limit: usize,
    is_inline: bool,
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

type Submitted = (Committed, Option<oneshot::Receiver<Result<()>>>);

impl<E: OrderedKv> KvStore<E> {
    /// Opens a store on an engine: reads its queue table and starts a new epoch.
    pub fn with_engine(engine: E, settings: Settings) -> std::result::Result<Self, EngineError> {
        let mut limits = settings.limits;
        limits.bytes_per_key = limits.bytes_per_key.min(engine.key_limit());
        let key_limit = limits.bytes_per_key;
        let is_inline = engine.inline();
        let core = Arc::new(Core::open(engine, settings)?);
        let committer = match is_inline {
            true => None,
            false => Some(spawn_committer(&core)?),
        };
        Ok(Self {
            core,
            committer: Mutex::new(committer),
            limits,
            key_limit,
            is_inline,
        })
    }

    /// What this handle has done so far.
    pub fn stats(&self) -> Stats {
        self.core.counts.snapshot()
    }

    /// Gives a commit its place in the order. Everything that decides its outcome happens here, in one step.
    fn submit(&self, commit: Commit) -> Result<Submitted> {
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
        if !self.is_inline {
            return Ok((committed, self.enqueue(&mut state, accepted)));
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
        drop(state);
        self.core.signal(&lanes);
        Ok((committed, None))
    }

    /// Leaves a commit to the committer. A relaxed one is visible at once and does not wait, unless too much is
    /// waiting.
    fn enqueue(
        &self,
        state: &mut crate::state::State,
        mut accepted: Accepted,
    ) -> Option<oneshot::Receiver<Result<()>>> {
        let mut lanes = Vec::new();
        let is_full = state.waiting_bytes > self.core.settings.max_waiting_bytes;
        let receiver = (accepted.durable || is_full).then(|| {
            let (ticket, receiver) = oneshot::channel();
            accepted.ticket = Some(ticket);
            receiver
        });
        if !accepted.durable {
            lanes = state.publish_early(&mut accepted);
        }
        let was_idle = state.waiting.is_empty() || (receiver.is_some() && !state.waiting_urgent);
        state.enqueue(accepted);
        if was_idle {
            self.core.wake.notify_one();
        }
        self.core.signal(&lanes);
        receiver
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
            self.core.wake.notify_one();
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
        self.core.wake.notify_one();
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
        let Some(committer) = self.committer.get_mut().take() else {
            return;
        };
        drop(self.stop());
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
        let (committed, receiver) = self.submit(commit)?;
        if let Some(receiver) = receiver {
            outcome(receiver).await?;
        }
        Ok(committed)
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
        if self.is_inline {
            return self.close_inline();
        }
        match self.stop() {
            Ok(outcome) => outcome,
            Err(receiver) => outcome(receiver).await,
        }
    }
}

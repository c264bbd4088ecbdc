//! The store.

use crate::core::Core;
use crate::prepare::{LIMITS, Prepared, prepare};
use crate::{Run, Usage, counters};
use async_trait::async_trait;
use parking_lot::Mutex;
use perennial_store::{
    Commit, Committed, Counted, Counter, Cursor, Doubt, DuePage, DueQuery, Error, Key, Limits, ListFilter, ListPage,
    OnDurable, Record, RecordPage, Refused, Result, ScanPage, ScanQuery, Sharing, Signals, Store, Totals,
    call_on_durable, on_one_runtime,
};
use std::future::Future;
use std::sync::Arc;

/// A [`Store`] in a container of Azure Cosmos DB, shared with every other process that opens the same one.
///
/// # What is particular to it
///
/// * A commit is one transactional batch in one partition. [`Op::Absent`](perennial_store::Op::Absent) takes two of
///   its 100 operations; the removal of a record that is not there costs one request more.
/// * Concurrent commits of one handle take effect in any order. A commit that has returned comes before every request
///   that is made afterwards.
/// * A handle reads its own writes. It may read those of others late where the account's consistency is Session or
///   weaker; the conditions of a commit always see the latest state, and reads after a commit are at least as new as
///   it.
/// * [`counters`](Store::counters) is exact for commits of this handle and of closed ones; for others it lags a few
///   seconds. What a process counted in the last seconds before it was killed is missing:
///   [`totals`](Store::totals) reports that within a minute and a half, and [`resolve_doubt`](Store::resolve_doubt)
///   takes a count.
/// * [`signals`](Store::signals) announce this handle's commits only.
#[derive(Clone)]
pub struct CosmosStore {
    core: Arc<Core>,
}

impl CosmosStore {
    pub(crate) fn new(core: Core, counters_interval: std::time::Duration) -> Self {
        let core = Arc::new(core);
        counters::write_periodically(&core, counters_interval);
        Self { core }
    }

    /// What this handle has cost so far.
    pub fn usage(&self) -> Usage {
        self.core.meter.snapshot()
    }

    /// What the latest handles on the store have done and cost, of this process and of others, the latest first. Open
    /// handles are reported as they last wrote their totals.
    pub async fn runs(&self) -> Result<Vec<Run>> {
        self.core.check_open()?;
        self.core.runs().await
    }
}

impl CosmosStore {
    /// Commits, and calls `then` if that succeeded. Both in a task of their own: the caller's future may be dropped at any
    /// moment.
    async fn commit_and_then(
        &self,
        commit: Commit,
        then: impl FnOnce(&Committed) + Send + 'static,
    ) -> Result<Committed> {
        let prepared = prepare(commit, self.core.next_commit(), &self.core.previous_commits)?;
        let core = Arc::clone(&self.core);
        let running = core.start().await?;
        let task = tokio::spawn(async move {
            let outcome = run(core, prepared).await;
            if let Ok(committed) = &outcome {
                then(committed);
            }
            drop(running);
            outcome
        });
        let lost = |error| Error::UnknownOutcome(format!("the commit was interrupted: {error}"));
        task.await.map_err(lost)?
    }
}

impl std::fmt::Debug for CosmosStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CosmosStore").finish_non_exhaustive()
    }
}

/// Makes a commit, counts it and signals its lanes.
async fn run(core: Arc<Core>, mut prepared: Prepared) -> Result<Committed> {
    let counted = std::mem::take(&mut prepared.counters);
    let lanes = std::mem::take(&mut prepared.lanes);
    let committed = match counted.is_empty() {
        true => core.apply(prepared).await?,
        false => {
            let counting = core.begin_counting().await;
            let outcome = core.apply(prepared).await;
            match &outcome {
                Ok(_) => counting.add(counted),
                // The caller may yet determine that it happened; its counts are not known here.
                Err(Error::UnknownOutcome(_)) => counting.doubt(),
                Err(_) => {}
            }
            outcome?
        }
    };
    for lane in &lanes {
        core.signals.placed(lane);
    }
    Ok(committed)
}

/// Runs a request. One whose runtime has ended never completes: it fails as transient, and the caller repeats it on its
/// own runtime.
async fn on_this_runtime<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    let gone = || {
        Err(Error::Unavailable(
            "the runtime on which it was sent has ended".to_owned(),
        ))
    };
    on_one_runtime(call).await.unwrap_or_else(gone)
}

#[async_trait]
impl Store for CosmosStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }

    fn epoch(&self) -> u64 {
        0
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.commit_and_then(commit, |_| {}).await
    }

    async fn order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        let call = Arc::new(Mutex::new(Some(on_durable)));
        let make_call = {
            let call = Arc::clone(&call);
            move |committed: &Committed| {
                let on_durable = call.lock().take();
                if let Some(on_durable) = on_durable {
                    call_on_durable(on_durable, Ok(committed.clone()));
                }
            }
        };
        let outcome = self.commit_and_then(commit, make_call).await;
        let unmade = call.lock().take();
        match (outcome, unmade) {
            (Err(error), Some(on_durable)) => Err(Refused { error, on_durable }),
            _ => Ok(()),
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.core.check_open()?;
        on_this_runtime(self.core.get(key)).await
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.core.check_open()?;
        on_this_runtime(self.core.scan(query)).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.core.check_open()?;
        on_this_runtime(self.core.due(query)).await
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.core.check_open()?;
        on_this_runtime(self.core.list(filter, after, limit)).await
    }

    async fn list_records(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<RecordPage> {
        self.core.check_open()?;
        on_this_runtime(self.core.list_records(filter, after, limit)).await
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.core.check_open()?;
        on_this_runtime(self.core.totals()).await.map(|totals| totals.sums)
    }

    async fn totals(&self) -> Result<Totals> {
        self.core.check_open()?;
        on_this_runtime(self.core.totals()).await
    }

    async fn resolve_doubt(&self, doubt: &Doubt, counted: &Counted) -> Result<bool> {
        let _running = self.core.start().await?;
        self.core.resolve_doubt(doubt, counted).await
    }

    fn signals(&self) -> Signals {
        self.core.signals.subscribe()
    }

    async fn close(&self) -> Result<()> {
        match self.core.drain().await {
            true => self.core.leave_counters().await,
            false => Ok(()),
        }
    }
}

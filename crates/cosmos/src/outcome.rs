//! Determines the outcome of a commit whose reply was lost.

use crate::core::Core;
use crate::prepare::{Action, Prepared, Step};
use crate::query::{Request, Sql};
use azure_core::http::Etag;
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::options::ReadConsistencyStrategy;
use perennial_store::{Error, Result};
use serde::Deserialize;
use std::collections::HashMap;

/// What is left of a document that a commit concerned.
#[derive(Deserialize)]
struct Trace {
    id: String,
    commit: Option<String>,
    #[serde(default)]
    before: Vec<String>,
    #[serde(rename = "_etag")]
    etag: String,
}

/// The outcome of a commit, as far as it left traces.
pub(crate) enum Outcome {
    /// It happened.
    Happened {
        /// The tags that its steps wrote, as far as they are still there.
        tags: Vec<Option<Etag>>,
        /// Whether the only evidence is that what it deletes is gone, which may be another process's doing.
        inferred: bool,
    },
    /// It left no trace.
    NoTrace {
        /// The steps whose document to create is not there.
        gone: Vec<usize>,
    },
}

impl Core {
    /// Whether a commit has happened.
    ///
    /// Every document carries the id of the commit that wrote it, and those of some before, so one document with this
    /// commit's id proves that the whole commit happened. That a commit which only deletes has happened is inferred if
    /// nothing that it deletes is there.
    ///
    /// This sees lost replies within one call of the store. [`RetryStore`](perennial_store::RetryStore) resolves those
    /// that outlast the call, for every store, by the stamps in bodies.
    pub(crate) async fn outcome(&self, commit: &Prepared) -> Result<Outcome> {
        let traces = self.traces(commit).await?;
        if let Some(tags) = written_tags(commit, &traces) {
            let inferred = !commit.steps.iter().any(Step::writes);
            return Ok(Outcome::Happened { tags, inferred });
        }
        let is_gone = |step: &Step| matches!(step.action, Action::Create(_)) && !traces.contains_key(&step.id);
        let steps = commit.steps.iter().enumerate();
        let gone = steps.filter(|(_, step)| is_gone(step)).map(|(at, _)| at).collect();
        Ok(Outcome::NoTrace { gone })
    }

    /// The documents under the ids of a commit.
    async fn traces(&self, commit: &Prepared) -> Result<HashMap<String, Trace>> {
        let mut sql = Sql::new("SELECT c.id, c.commit, c.before, c._etag FROM c");
        let ids = commit.steps.iter().map(|step| step.id.as_str());
        sql.filter_in("c.id", ids)?;
        let request = Request {
            operation: "resolve",
            scope: FeedScope::partition(commit.partition.clone()),
            page: commit.steps.len() + 1,
            // A commit that another replica has not received yet must not look as if it had not happened.
            consistency: Some(ReadConsistencyStrategy::LatestCommitted),
        };
        let mut traces = HashMap::new();
        let mut rows = self.query(sql, request).await?;
        while let Some(page) = rows.next_page().await? {
            for row in page {
                let trace: Trace = serde_json::from_str(row.get())
                    .map_err(|error| Error::Corrupt(format!("a document cannot be read: {error}")))?;
                traces.insert(trace.id.clone(), trace);
            }
        }
        Ok(traces)
    }
}

impl Core {
    /// Drops the removals of records that are not there, so that the batch does not fail on them one by one.
    pub(crate) async fn drop_missing(&self, commit: &mut Prepared) {
        let removes = |step: &Step| matches!(step.action, Action::Remove);
        if commit.steps.iter().filter(|step| removes(step)).count() < 2 {
            return;
        }
        // Only a hint: if it fails, or something changes meanwhile, the batch says so.
        if let Ok(traces) = self.traces(commit).await {
            commit
                .steps
                .retain(|step| !removes(step) || traces.contains_key(&step.id));
        }
    }
}

fn written_tags(commit: &Prepared, traces: &HashMap<String, Trace>) -> Option<Vec<Option<Etag>>> {
    let is_latest = |trace: &&Trace| trace.commit.as_deref() == Some(&commit.commit);
    let latest = |id: &str| traces.get(id).filter(is_latest);
    let is_own = |trace: &Trace| is_latest(&trace) || trace.before.contains(&commit.commit);
    let mut writes = commit.steps.iter().filter(|step| step.writes()).peekable();
    let has_happened = match writes.peek() {
        Some(_) => writes.any(|step| traces.get(&step.id).is_some_and(is_own)),
        // It leaves nothing behind: neither what it deletes nor what must not be there. A commit that changes nothing
        // at all cannot be recognised.
        None => commit.steps.iter().any(Step::deletes) && traces.is_empty(),
    };
    let tags = commit
        .steps
        .iter()
        .map(|step| latest(&step.id).map(|trace| Etag::from(trace.etag.clone())));
    has_happened.then(|| tags.collect())
}

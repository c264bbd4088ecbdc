//! Finding out what became of a commit whose reply was lost.

use crate::core::Core;
use crate::prepare::{Action, Prepared, Step};
use crate::query::{Sql, Want};
use azure_core::http::Etag;
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::options::ReadConsistencyStrategy;
use perennial_store::{Error, Result};
use serde::Deserialize;
use std::collections::HashMap;

/// What is left of a document that a commit was about.
#[derive(Deserialize)]
struct Trace {
    id: String,
    commit: Option<String>,
    #[serde(default)]
    before: Vec<String>,
    #[serde(rename = "_etag")]
    etag: String,
}

/// What was found of a commit.
pub(crate) enum Found {
    /// It has happened; the tags that its steps wrote, as far as they are still there.
    Happened(Vec<Option<Etag>>),
    /// It has left no trace.
    Nothing {
        /// The steps that create what is not there.
        gone: Vec<usize>,
    },
}

impl Core {
    /// Whether a commit has happened.
    ///
    /// Every document carries the id of the commit that wrote it, and those of some before, so one that carries this
    /// commit's id proves that all of the commit happened. A commit that only deletes has happened when nothing of that is there.
    pub(crate) async fn find(&self, commit: &Prepared) -> Result<Found> {
        let traces = self.traces(commit).await?;
        if let Some(tags) = judge(commit, &traces) {
            return Ok(Found::Happened(tags));
        }
        let is_gone = |step: &Step| matches!(step.action, Action::Create(_)) && !traces.contains_key(&step.id);
        let steps = commit.steps.iter().enumerate();
        let gone = steps.filter(|(_, step)| is_gone(step)).map(|(at, _)| at).collect();
        Ok(Found::Nothing { gone })
    }

    /// What there is under the ids that a commit is about.
    async fn traces(&self, commit: &Prepared) -> Result<HashMap<String, Trace>> {
        let mut sql = Sql::new("SELECT c.id, c.commit, c.before, c._etag FROM c");
        let ids = commit.steps.iter().map(|step| step.id.as_str());
        sql.is_one_of("c.id", ids)?;
        let want = Want {
            operation: "resolve",
            scope: FeedScope::partition(commit.partition.clone()),
            page: commit.steps.len() + 1,
            // What another replica has not heard of yet must not look as if it had not happened.
            consistency: Some(ReadConsistencyStrategy::LatestCommitted),
        };
        let mut traces = HashMap::new();
        let mut rows = self.ask(sql, want).await?;
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
    /// Drops the removals of records that are not there, so that they are not found out one by one.
    pub(crate) async fn drop_missing(&self, commit: &mut Prepared) {
        let removes = |step: &Step| matches!(step.action, Action::Remove);
        if commit.steps.iter().filter(|step| removes(step)).count() < 2 {
            return;
        }
        // Only a hint: where it fails, or something changes meanwhile, the batch says so.
        if let Ok(traces) = self.traces(commit).await {
            commit
                .steps
                .retain(|step| !removes(step) || traces.contains_key(&step.id));
        }
    }
}

fn judge(commit: &Prepared, traces: &HashMap<String, Trace>) -> Option<Vec<Option<Etag>>> {
    let is_latest = |trace: &&Trace| trace.commit.as_deref() == Some(&commit.commit);
    let latest = |id: &str| traces.get(id).filter(is_latest);
    let is_own = |trace: &Trace| is_latest(&trace) || trace.before.contains(&commit.commit);
    let mut writes = commit.steps.iter().filter(|step| step.writes()).peekable();
    let deletes = |step: &Step| matches!(step.action, Action::Delete(_) | Action::Remove);
    let has_happened = match writes.peek() {
        Some(_) => writes.any(|step| traces.get(&step.id).is_some_and(is_own)),
        // It leaves nothing behind: neither what it deletes nor what must not be there. What changes nothing at all
        // cannot be found.
        None => commit.steps.iter().any(deletes) && traces.is_empty(),
    };
    let tags = commit
        .steps
        .iter()
        .map(|step| latest(&step.id).map(|trace| Etag::from(trace.etag.clone())));
    has_happened.then(|| tags.collect())
}

//! Finding out what became of a commit whose reply was lost.

use crate::core::Core;
use crate::prepare::{Action, Prepared};
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
    #[serde(rename = "_etag")]
    etag: String,
}

impl Core {
    /// The tags that a commit's steps wrote, if it has happened; `None` if it has left no trace.
    ///
    /// Every document carries the id of the commit that wrote it, so one that carries this commit's id proves that all
    /// of the commit happened. A commit that only deletes has happened when nothing of that is there.
    pub(crate) async fn find(&self, commit: &Prepared) -> Result<Option<Vec<Option<Etag>>>> {
        let mut sql = Sql::new("SELECT c.id, c.commit, c._etag FROM c");
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
        Ok(judge(commit, &traces))
    }
}

fn judge(commit: &Prepared, traces: &HashMap<String, Trace>) -> Option<Vec<Option<Etag>>> {
    let is_own = |trace: &&Trace| trace.commit.as_deref() == Some(&commit.commit);
    let own = |id: &str| traces.get(id).filter(is_own);
    let writes = || commit.steps.iter().filter(|step| step.writes());
    let has_happened = match writes().next() {
        Some(_) => writes().any(|step| own(&step.id).is_some()),
        None => commit.steps.iter().all(|step| match step.action {
            Action::Delete(_) | Action::Remove => !traces.contains_key(&step.id),
            _ => true,
        }),
    };
    let tags = commit
        .steps
        .iter()
        .map(|step| own(&step.id).map(|trace| Etag::from(trace.etag.clone())));
    has_happened.then(|| tags.collect())
}

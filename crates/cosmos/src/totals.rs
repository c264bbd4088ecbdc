//! Reading and writing the documents of totals.

use crate::core::Core;
use crate::due::skipped;
use crate::prepare::{Action, Prepared, Step};
use crate::query::{Sql, Want};
use crate::runs::{KEPT, Run, together};
use crate::tally::Sums;
use azure_core::http::Etag;
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::options::ReadConsistencyStrategy;
use perennial_store::{Clock, Counter, Error, Result, SystemClock};
use serde::{Deserialize, Serialize};

/// The partition of totals. No name of a partition is encoded so.
const PARTITION: &str = "%tally";
/// The document of those who have left.
const COMMON: &str = "common";
/// More documents than this are put together.
const MANY: usize = 32;
/// A handle that has not written for so long may be gone.
const OLD_MS: u64 = 60 * 60 * 1000;
/// How often somebody who is in the way is waited for.
const TRIES: usize = 8;

#[derive(Serialize, Deserialize)]
struct Totals {
    id: String,
    partition: String,
    commit: String,
    /// When it was written, in milliseconds since the Unix epoch.
    written: u64,
    totals: Sums,
    /// What the handle that writes it has cost; in the common one, what those who have left had cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    runs: Vec<Run>,
    #[serde(rename = "_etag", skip_serializing)]
    etag: Option<String>,
}

impl Core {
    /// Everybody's totals.
    pub(crate) async fn totals(&self) -> Result<Vec<(Counter, i64)>> {
        let documents = self.read_totals(None).await?;
        let is_gone = self.tally.etag().is_some() && !documents.iter().any(|document| document.id == self.tally.id);
        if is_gone {
            self.tally.moved();
        }
        let mut sums = self.tally.sums();
        for document in documents.iter().filter(|document| document.id != self.tally.id) {
            add(&mut sums, &document.totals);
        }
        if documents.len() > MANY {
            self.gather(documents).await;
        }
        Ok(sums
            .into_iter()
            .map(|(counter, sum)| (Counter(counter.into()), sum))
            .collect())
    }

    /// What the latest handles have cost, the latest first.
    pub(crate) async fn runs(&self) -> Result<Vec<Run>> {
        let documents = self.read_totals(None).await?;
        let written = documents.into_iter().flat_map(|document| document.runs);
        Ok(together(written.chain(self.run())))
    }

    /// What this handle has cost so far.
    fn run(&self) -> Option<Run> {
        Run::new(
            &self.handle,
            self.tally.began_ms,
            SystemClock.now_ms(),
            &self.meter.snapshot(),
            self.tally.grown(),
        )
    }

    async fn read_totals(&self, consistency: Option<ReadConsistencyStrategy>) -> Result<Vec<Totals>> {
        let want = Want {
            operation: "tally",
            scope: FeedScope::partition(PARTITION),
            page: usize::MAX,
            consistency,
        };
        let mut rows = self.ask(Sql::new("SELECT * FROM c"), want).await?;
        let mut documents = Vec::new();
        while let Some(page) = rows.next_page().await? {
            for row in page {
                match serde_json::from_str::<Totals>(row.get()) {
                    Ok(document) => documents.push(document),
                    Err(error) => skipped(&Error::Corrupt(error.to_string())),
                }
            }
        }
        Ok(documents)
    }

    /// Writes this handle's sums, if they have changed.
    pub(crate) async fn write_tally(&self) -> Result<()> {
        let _writing = self.tally.writing.lock().await;
        self.write_own().await
    }

    /// The same, for who may write.
    async fn write_own(&self) -> Result<()> {
        while let Some(unwritten) = self.tally.unwritten() {
            let mut batch = self.batch();
            let runs = self.run().into_iter().collect();
            batch.write(&self.tally.id, &unwritten.sums, runs, unwritten.etag.clone())?;
            match self.apply(batch.0).await {
                Ok(committed) => {
                    let tag = committed.version(0).and_then(|version| version.as_text());
                    self.tally
                        .wrote(unwritten.sums, tag.map(|tag| Etag::from(tag.to_owned())));
                    return Ok(());
                }
                Err(Error::Conflict { .. }) if unwritten.etag.is_some() => self.tally.moved(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds this handle's sums to those of the handles that have left, and deletes its document.
    pub(crate) async fn leave_tally(&self) -> Result<()> {
        let _writing = self.tally.writing.lock().await;
        let Some(run) = self.run() else {
            return Ok(());
        };
        match self.leave_sums(&run).await {
            // What it has cost is worth knowing, and no reason to fail.
            Err(error) if self.tally.sums().is_empty() => {
                tracing::debug!(%error, "what this process has cost could not be written down");
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn leave_sums(&self, run: &Run) -> Result<()> {
        let mut consistency = None;
        for _ in 0..TRIES {
            let sums = self.tally.sums();
            let documents = self.read_totals(consistency).await?;
            let mut batch = self.batch();
            batch.add_to_common(&documents, &sums, [run.clone()])?;
            if let Some(etag) = self.tally.etag() {
                batch.delete(&self.tally.id, etag);
            }
            match self.apply(batch.0).await {
                Ok(_) => {
                    self.tally.left(&sums);
                    return Ok(());
                }
                Err(Error::Conflict { op: 1, .. }) => self.tally.moved(),
                // Others have written since. A replica that lags would tell the same once more.
                Err(Error::Conflict { .. }) => consistency = Some(ReadConsistencyStrategy::LatestCommitted),
                Err(error) => return Err(error),
            }
        }
        // Many leave at once. What this one counted stays in its own document until somebody takes it over.
        self.write_own().await
    }

    /// Puts the documents of handles together that seem to be gone. If it fails, the next one will.
    async fn gather(&self, documents: Vec<Totals>) {
        let old = SystemClock.now_ms().saturating_sub(OLD_MS);
        let is_left =
            |document: &&Totals| document.id != COMMON && document.id != self.tally.id && document.written < old;
        let left: Vec<&Totals> = documents.iter().filter(is_left).take(MANY).collect();
        if left.is_empty() {
            return;
        }
        let mut sums = Sums::new();
        let mut batch = self.batch();
        for document in &left {
            add(&mut sums, &document.totals);
        }
        let runs = left.iter().flat_map(|document| document.runs.clone());
        let added = batch.add_to_common(&documents, &sums, runs);
        for document in left {
            if let Some(etag) = &document.etag {
                batch.delete(&document.id, Etag::from(etag.clone()));
            }
        }
        let gathered = match added {
            Ok(()) => self.apply(batch.0).await.map(|_| ()),
            Err(error) => Err(error),
        };
        if let Err(error) = gathered {
            tracing::debug!(%error, "old totals could not be put together; they will be later");
        }
    }

    fn batch(&self) -> Batch {
        Batch(Prepared {
            commit: self.next_commit(),
            partition: PARTITION.to_owned(),
            steps: Vec::new(),
            ops: 0,
            tally: Vec::new(),
            lanes: Vec::new(),
        })
    }
}

/// Changes of documents of totals that happen together.
struct Batch(Prepared);

impl Batch {
    fn write(&mut self, id: &str, totals: &Sums, runs: Vec<Run>, etag: Option<Etag>) -> Result<()> {
        let document = Totals {
            id: id.to_owned(),
            partition: PARTITION.to_owned(),
            commit: self.0.commit.clone(),
            written: SystemClock.now_ms(),
            totals: totals.clone(),
            runs,
            etag: None,
        };
        let json = serde_json::value::to_raw_value(&document)
            .map_err(|error| Error::Invalid(format!("the totals cannot be written as JSON: {error}")))?;
        self.push(
            id,
            match etag {
                Some(etag) => Action::Replace(json, etag),
                None => Action::Create(json),
            },
        );
        Ok(())
    }

    fn add_to_common(&mut self, documents: &[Totals], sums: &Sums, runs: impl IntoIterator<Item = Run>) -> Result<()> {
        let common = documents.iter().find(|document| document.id == COMMON);
        let mut totals = common.map(|common| common.totals.clone()).unwrap_or_default();
        add(&mut totals, sums);
        let etag = common.and_then(|common| common.etag.clone()).map(Etag::from);
        let known = common.map(|common| common.runs.clone()).unwrap_or_default();
        let mut runs = together(known.into_iter().chain(runs));
        runs.truncate(KEPT);
        self.write(COMMON, &totals, runs, etag)
    }

    fn delete(&mut self, id: &str, etag: Etag) {
        self.push(id, Action::Delete(etag));
    }

    fn push(&mut self, id: &str, action: Action) {
        self.0.steps.push(Step {
            op: self.0.ops,
            id: id.to_owned(),
            before: Vec::new(),
            action,
        });
        self.0.ops += 1;
    }
}

fn add(sums: &mut Sums, more: &Sums) {
    for (counter, sum) in more {
        *sums.entry(counter.clone()).or_default() += sum;
    }
}

//! Reading and writing the documents of totals.

use crate::core::Core;
use crate::counters::{Counters, Counting, Sums, Unwritten};
use crate::due::note_damaged;
use crate::prepare::{Action, Prepared, Step};
use crate::query::{Request, Sql};
use crate::runs::{MAX_RUNS, Run, merged};
use azure_core::http::Etag;
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::options::ReadConsistencyStrategy;
use perennial_store::{Clock, ConflictReason, Counter, Error, Result, SystemClock};
use serde::{Deserialize, Serialize};

/// The partition of totals. The encoded name of no partition equals it.
const PARTITION: &str = "%tally";
/// The document of the handles that have closed.
pub(crate) const COMMON: &str = "common";
/// More documents than this are folded into one.
const MANY: usize = 32;
/// A handle that has not written for this long may be gone, unless its document says otherwise.
pub(crate) const OLD_MS: u64 = 60 * 60 * 1000;
/// How often a write is repeated when another handle interferes.
const TRIES: usize = 8;

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A document of totals: a handle's own, or the common one.
#[derive(Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) id: String,
    partition: String,
    commit: String,
    /// When it was written, in milliseconds since the Unix epoch.
    pub(crate) written: u64,
    pub(crate) totals: Sums,
    /// Whether nothing is missing in it, nor will be before it is written again. In the common one: whether it is known
    /// to be right. Stored as `settled`.
    #[serde(rename = "settled", default, skip_serializing_if = "is_false")]
    pub(crate) complete: bool,
    /// Until when its handle writes it again, if it is open and the handle lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<u64>,
    /// Whether the totals may be wrong because of its handle, although that lives.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) doubt: bool,
    /// In the common one, while it is not complete: how the names of counters begin whose totals are right all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) certain: Vec<String>,
    /// In the common one, while the totals are in doubt: the last count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<Count>,
    /// What the handle that writes it has cost; in the common one, what the closed handles had cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<Run>,
    #[serde(rename = "_etag", skip_serializing)]
    pub(crate) etag: Option<String>,
}

/// Totals from a count.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Count {
    /// How the names of the counters begin that it covers.
    #[serde(default)]
    pub(crate) prefix: String,
    /// When the count began, in milliseconds since the Unix epoch.
    pub(crate) at: u64,
    /// How long it took, in milliseconds.
    pub(crate) took: u64,
    pub(crate) totals: Sums,
}

impl Core {
    /// The totals of all handles.
    pub(crate) async fn totals(&self) -> Result<perennial_store::Totals> {
        let documents = self.read_totals(None).await?;
        let is_gone =
            self.counters.etag().is_some() && !documents.iter().any(|document| document.id == self.counters.id);
        if is_gone {
            self.counters.taken_over();
        }
        let mut sums = self.counters.sums();
        for document in documents.iter().filter(|document| document.id != self.counters.id) {
            add(&mut sums, &document.totals);
        }
        let doubt = self.doubt(&documents);
        if documents.len() > MANY {
            self.fold_abandoned(documents).await;
        }
        Ok(perennial_store::Totals {
            sums: counters(sums),
            doubt,
        })
    }

    /// What the latest handles have cost, the latest first.
    pub(crate) async fn runs(&self) -> Result<Vec<Run>> {
        let documents = self.read_totals(None).await?;
        let written = documents.into_iter().flat_map(|document| document.runs);
        Ok(merged(written.chain(self.run())))
    }

    /// What this handle has cost so far.
    fn run(&self) -> Option<Run> {
        Run::new(
            &self.handle,
            self.counters.began_ms,
            SystemClock.now_ms(),
            &self.meter.snapshot(),
            self.counters.grown(),
        )
    }

    pub(crate) async fn read_totals(&self, consistency: Option<ReadConsistencyStrategy>) -> Result<Vec<Totals>> {
        let request = Request {
            operation: "tally",
            scope: FeedScope::partition(PARTITION),
            page: usize::MAX,
            consistency,
        };
        let mut rows = self.query(Sql::new("SELECT * FROM c"), request).await?;
        let mut documents = Vec::new();
        while let Some(page) = rows.next_page().await? {
            for row in page {
                match serde_json::from_str::<Totals>(row.get()) {
                    Ok(document) => documents.push(document),
                    Err(error) => note_damaged(&Error::Corrupt(error.to_string())),
                }
            }
        }
        Ok(documents)
    }

    /// Waits until a commit may count: until this handle's document says that more is coming. A document that cannot be
    /// written stops no commit.
    pub(crate) async fn begin_counting(&self) -> Counting<'_> {
        loop {
            if let Some(counting) = self.counters.begin() {
                return counting;
            }
            let _writing = self.counters.writing.lock().await;
            if let Err(error) = self.write(|counters| counters.opening()).await {
                tracing::debug!(%error, "the totals could not be written; if this process dies now, they are wrong");
            }
            self.counters.open();
        }
    }

    /// Writes this handle's sums if they have changed, and marks them complete if they have not for long.
    pub(crate) async fn write_counters(&self) -> Result<()> {
        let _writing = self.counters.writing.lock().await;
        self.write_own().await
    }

    /// The same, for callers that hold the lock.
    async fn write_own(&self) -> Result<()> {
        let quiet_ms = self.timing.idle_ms();
        self.write(|counters| counters.unwritten(quiet_ms)).await
    }

    /// Writes this handle's document until it holds what it should.
    async fn write(&self, what: impl Fn(&Counters) -> Option<Unwritten>) -> Result<()> {
        for _ in 0..TRIES {
            let Some(unwritten) = what(&self.counters) else {
                return Ok(());
            };
            let mut batch = self.batch();
            let document = self.own_document(&batch, &unwritten);
            batch.write(document, unwritten.etag)?;
            match self.apply(batch.0).await {
                Ok(committed) => match committed.version(0).and_then(|version| version.as_text()) {
                    Some(tag) => {
                        let tag = Etag::from(tag.to_owned());
                        self.counters.wrote(unwritten.sums, Some(tag), unwritten.complete);
                        return Ok(());
                    }
                    // It was overwritten before its tag could be read.
                    None => self.reread_own(ConflictReason::Changed).await?,
                },
                Err(Error::Conflict { reason, .. }) => self.reread_own(reason).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The document is not as this handle left it: another handle has taken it over, or a reply was lost.
    async fn reread_own(&self, reason: ConflictReason) -> Result<()> {
        if reason != ConflictReason::Missing {
            let documents = self.read_totals(Some(ReadConsistencyStrategy::LatestCommitted)).await?;
            if let Some(own) = documents.into_iter().find(|document| document.id == self.counters.id) {
                self.counters.wrote(own.totals, own.etag.map(Etag::from), own.complete);
                return Ok(());
            }
        }
        self.counters.taken_over();
        Ok(())
    }

    fn own_document(&self, batch: &Batch, unwritten: &Unwritten) -> Totals {
        let mut document = batch.document(&self.counters.id, unwritten.sums.clone());
        document.complete = unwritten.complete;
        document.doubt = unwritten.doubt;
        document.until = (!unwritten.complete).then(|| document.written.saturating_add(self.timing.grace_ms()));
        document.runs = self.run().into_iter().collect();
        document
    }

    /// Adds this handle's sums to those of closed handles, and deletes its document.
    pub(crate) async fn leave_counters(&self) -> Result<()> {
        let _writing = self.counters.writing.lock().await;
        let Some(run) = self.run() else {
            return Ok(());
        };
        match self.leave_sums(&run).await {
            // The cost is worth knowing, and no reason to fail.
            Err(error) if self.counters.sums().is_empty() => {
                tracing::debug!(%error, "the cost of this process could not be written");
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn leave_sums(&self, run: &Run) -> Result<()> {
        let mut consistency = None;
        for _ in 0..TRIES {
            let sums = self.counters.sums();
            let documents = self.read_totals(consistency).await?;
            let mut batch = self.batch();
            batch.add_to_common(&documents, &sums, [run.clone()], !self.counters.is_doubtful())?;
            if let Some(etag) = self.counters.etag() {
                batch.delete(&self.counters.id, etag);
            }
            match self.apply(batch.0).await {
                Ok(_) => {
                    self.counters.folded(&sums);
                    return Ok(());
                }
                Err(Error::Conflict { op: 1, .. }) => self.counters.taken_over(),
                // Other handles have written since. A replica that lags would return the same once more.
                Err(Error::Conflict { .. }) => consistency = Some(ReadConsistencyStrategy::LatestCommitted),
                Err(error) => return Err(error),
            }
        }
        // Many handles close at once. The sums of this one stay in its own document until another handle takes it over.
        self.write_own().await
    }

    /// Folds the documents of handles that seem to be gone into the common one. If it fails, the next attempt will do
    /// it.
    async fn fold_abandoned(&self, documents: Vec<Totals>) {
        let old = SystemClock.now_ms().saturating_sub(OLD_MS);
        let is_left =
            |document: &&Totals| document.id != COMMON && document.id != self.counters.id && document.written < old;
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
        let are_whole = left.iter().all(|document| document.complete && !document.doubt);
        let added = batch.add_to_common(&documents, &sums, runs, are_whole);
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
            tracing::debug!(%error, "old totals could not be folded together; they will be later");
        }
    }

    pub(crate) fn batch(&self) -> Batch {
        Batch(Prepared {
            operation: "tally",
            commit: self.next_commit(),
            partition: PARTITION.to_owned(),
            steps: Vec::new(),
            ops: 0,
            counters: Vec::new(),
            lanes: Vec::new(),
        })
    }
}

/// What the common document holds, beside the runs.
pub(crate) struct Common {
    pub(crate) totals: Sums,
    pub(crate) complete: bool,
    pub(crate) certain: Vec<String>,
    pub(crate) count: Option<Count>,
}

impl Common {
    /// What it holds now, if there is one.
    pub(crate) fn of(common: Option<&Totals>) -> Self {
        Self {
            totals: common.map(|common| common.totals.clone()).unwrap_or_default(),
            complete: common.is_none_or(|common| common.complete),
            certain: common.map(|common| common.certain.clone()).unwrap_or_default(),
            count: common.and_then(|common| common.count.clone()),
        }
    }
}

/// Changes of documents of totals that happen together.
pub(crate) struct Batch(pub(crate) Prepared);

impl Batch {
    fn document(&self, id: &str, totals: Sums) -> Totals {
        Totals {
            id: id.to_owned(),
            partition: PARTITION.to_owned(),
            commit: self.0.commit.clone(),
            written: SystemClock.now_ms(),
            totals,
            complete: false,
            until: None,
            doubt: false,
            certain: Vec::new(),
            count: None,
            runs: Vec::new(),
            etag: None,
        }
    }

    fn write(&mut self, document: Totals, etag: Option<Etag>) -> Result<()> {
        let json = serde_json::value::to_raw_value(&document)
            .map_err(|error| Error::Invalid(format!("the totals cannot be written as JSON: {error}")))?;
        self.push(
            &document.id,
            match etag {
                Some(etag) => Action::Replace(json, etag),
                None => Action::Create(json),
            },
        );
        Ok(())
    }

    /// Adds sums to the common totals; `whole` if they lack nothing.
    fn add_to_common(
        &mut self,
        documents: &[Totals],
        sums: &Sums,
        runs: impl IntoIterator<Item = Run>,
        whole: bool,
    ) -> Result<()> {
        let common = documents.iter().find(|document| document.id == COMMON);
        let mut content = Common::of(common);
        add(&mut content.totals, sums);
        if !whole {
            content.complete = false;
            content.certain.clear();
        }
        self.write_common(common, content, runs)
    }

    /// Replaces the common document that was read.
    pub(crate) fn write_common(
        &mut self,
        common: Option<&Totals>,
        content: Common,
        runs: impl IntoIterator<Item = Run>,
    ) -> Result<()> {
        let etag = common.and_then(|common| common.etag.clone()).map(Etag::from);
        let known = common.map(|common| common.runs.clone()).unwrap_or_default();
        let mut document = self.document(COMMON, content.totals);
        document.runs = merged(known.into_iter().chain(runs));
        document.runs.truncate(MAX_RUNS);
        document.complete = content.complete;
        document.certain = content.certain;
        document.count = content.count;
        self.write(document, etag)
    }

    pub(crate) fn delete(&mut self, id: &str, etag: Etag) {
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

pub(crate) fn add(sums: &mut Sums, more: &Sums) {
    for (counter, sum) in more {
        *sums.entry(counter.clone()).or_default() += sum;
    }
}

/// Sums in the form of the store contract.
pub(crate) fn counters(sums: Sums) -> Vec<(Counter, i64)> {
    let named = |(counter, sum): (String, i64)| (Counter(counter.into()), sum);
    sums.into_iter().map(named).collect()
}

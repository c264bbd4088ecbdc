//! The trait that every store implements.

use crate::{
    Commit, Committed, Counted, Counter, Cursor, Doubt, DuePage, DueQuery, HealthWatch, Key, Limits, ListFilter,
    ListPage, Partition, Record, RecordId, RecordPage, Result, Signals, Totals,
};
use async_trait::async_trait;

/// Who else may write to a store while this handle is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody: the store belongs to this handle until it is closed.
    Exclusive,
    /// Other processes, at any moment.
    Shared,
}

/// A question for the records of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanQuery {
    /// The partition.
    pub partition: Partition,
    /// Only ids that are this one or continue it after a `/`; `None` takes all.
    pub under: Option<RecordId>,
    /// Only ids after this one, to page on.
    pub after: Option<RecordId>,
    /// At most so many records.
    pub limit: usize,
    /// Leave the bodies empty: who only needs the keys should not pay for more.
    pub keys_only: bool,
}

impl ScanQuery {
    /// Everything in a partition.
    pub fn all(partition: Partition, limit: usize) -> Self {
        Self {
            partition,
            under: None,
            after: None,
            limit,
            keys_only: false,
        }
    }

    /// Everything of one kind in a partition.
    pub fn under(partition: Partition, under: RecordId, limit: usize) -> Self {
        Self {
            under: Some(under),
            ..Self::all(partition, limit)
        }
    }

    /// The same question, without bodies.
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self
    }
}

/// A page of a scan, in order of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// The records.
    pub records: Vec<Record>,
    /// Where to go on: the `after` of the next query; `None` at the end.
    pub next: Option<RecordId>,
}

/// Durable storage of records in partitions.
///
/// # What every store guarantees
///
/// * [`commit`](Store::commit) is all or nothing, and once it has answered `Ok` to a durable commit, the commit
///   survives a power cut.
/// * A commit never runs in the caller's future: dropping the future neither undoes it nor tears it.
/// * What a commit wrote is seen by every read, scan, due query and listing of this handle that starts after the answer.
/// * Commits of one handle take effect in the order in which they were first polled, where the store is
///   [exclusive](Sharing::Exclusive). On a shared one, each takes effect after all that were answered before it was made.
/// * Nothing that is read is undone later: reads do not see commits that are not durable yet, unless those are
///   [relaxed](crate::Durability::Relaxed).
/// * Keys hold any text.
/// * A record that cannot be understood is an [`Error::Corrupt`](crate::Error::Corrupt) to who reads it by its key,
///   and is left out by due queries and listings, so that it stands in nobody's way.
/// * After a write whose outcome the store itself cannot tell, it takes no more commits: what they would build on may not
///   be what is stored. [`health`](Store::health) says so; opening the store again mends it.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// How much one commit may hold.
    fn limits(&self) -> Limits;

    /// Who else may write.
    fn sharing(&self) -> Sharing;

    /// A number that grows with every time the store is opened, where the store is [`Sharing::Exclusive`]; else 0.
    fn epoch(&self) -> u64;

    /// Makes all operations happen, or none.
    async fn commit(&self, commit: Commit) -> Result<Committed>;

    /// Reads one record.
    async fn get(&self, key: &Key) -> Result<Option<Record>>;

    /// Reads records of a partition in order of their ids.
    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage>;

    /// Reads queued records in order of arrival.
    async fn due(&self, query: &DueQuery) -> Result<DuePage>;

    /// Finds records by their attributes.
    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage>;

    /// Like [`list`](Store::list), with bodies, and as new as what was last committed by anybody: for who counts.
    async fn list_records(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<RecordPage> {
        let page = self.list(filter, after, limit).await?;
        let mut records = Vec::with_capacity(page.entries.len());
        for entry in &page.entries {
            records.extend(self.get(&entry.key).await?);
        }
        let next = page.next;
        Ok(RecordPage { records, next })
    }

    /// The totals that commits have added up. Exact on exclusive stores; on shared ones it may lag.
    async fn counters(&self) -> Result<Vec<(Counter, i64)>>;

    /// The same, and whether they may be wrong for good. On exclusive stores they never are.
    async fn totals(&self) -> Result<Totals> {
        self.counters().await.map(Totals::certain)
    }

    /// Takes a count for the totals, whatever they were, if that is safe: if nobody else has added to them since
    /// [`totals`](Store::totals) told of the doubt. Whether it was; if not, the count is told with the doubt until the next one.
    async fn resolve_doubt(&self, doubt: &Doubt, counted: &Counted) -> Result<bool> {
        let _ = (doubt, counted);
        Ok(false)
    }

    /// Word of new work.
    fn signals(&self) -> Signals;

    /// Whether this handle takes commits. A store that a failed write can break reports it here; others never do.
    fn health(&self) -> HealthWatch {
        HealthWatch::always_working()
    }

    /// Finishes what was accepted, makes it durable and lets go of the store. Later calls fail.
    async fn close(&self) -> Result<()>;
}

//! The trait that every store implements.

use crate::{
    Commit, Committed, Counted, Counter, Cursor, Doubt, DuePage, DueQuery, HealthWatch, Key, Limits, ListFilter,
    ListPage, OnDurable, Partition, Record, RecordId, RecordPage, Refused, Result, Signals, Totals,
};
use async_trait::async_trait;

/// Which processes may write to a store while this handle is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only this one: the store belongs to this handle until it is closed.
    Exclusive,
    /// Other processes, at any moment.
    Shared,
}

/// A query for the records of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanQuery {
    /// The partition.
    pub partition: Partition,
    /// Only ids equal to this one or continuing it after a `/`; `None` matches all.
    pub under: Option<RecordId>,
    /// Only ids after this one, for paging.
    pub after: Option<RecordId>,
    /// The largest number of records to return.
    pub limit: usize,
    /// Leave the bodies empty, for callers that need only the keys and should not pay for more.
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

    /// The same query, without bodies.
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self
    }

    /// Whether a record with this id is in what the query asks for.
    pub fn includes(&self, id: &RecordId) -> bool {
        let is_under = |under: &RecordId| id == under || id.below(under).is_some();
        self.under.as_ref().is_none_or(is_under) && self.after.as_ref().is_none_or(|after| id > after)
    }
}

/// A page of a scan, in order of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// The records.
    pub records: Vec<Record>,
    /// The `after` of the next query; `None` at the end.
    pub next: Option<RecordId>,
}

/// Durable storage of records in partitions.
///
/// # What every store guarantees
///
/// * [`commit`](Store::commit) is all or nothing. Once a durable commit has returned `Ok`, it survives a power cut.
/// * A commit never runs in the caller's future: dropping the future neither undoes it nor tears it.
/// * What a commit wrote is seen by every read, scan, due query and listing of this handle that starts after it returned.
/// * Commits of one handle take effect in the order in which they were first polled, where the store is
///   [exclusive](Sharing::Exclusive). One exception: a commit that must first read a record which is not in memory delays
///   only later ones that name a record of its own, or one of a commit that it delays. On a shared store, each takes effect
///   after all that returned before it was made.
/// * Nothing that is read is undone later: reads do not see commits that are not durable yet, unless those are
///   [relaxed](crate::Durability::Relaxed).
/// * Keys hold any text.
/// * A record that cannot be decoded is an [`Error::Corrupt`](crate::Error::Corrupt) when it is read by its key. Due
///   queries and listings leave it out, so that it does not block other records.
/// * After a write whose outcome the store itself cannot determine, it takes no more commits, because the state they would
///   build on may not be what is stored. [`health`](Store::health) reports it; opening the store again repairs it.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// How much one commit may hold.
    fn limits(&self) -> Limits;

    /// Whether other processes may write.
    fn sharing(&self) -> Sharing;

    /// A number that grows each time the store is opened, where the store is [`Sharing::Exclusive`]; else 0.
    fn epoch(&self) -> u64;

    /// Applies all operations, or none.
    async fn commit(&self, commit: Commit) -> Result<Committed>;

    /// Orders a commit: returns once its conditions hold and its place among all commits is fixed, without waiting until it
    /// is durable. Then `on_durable` is called with the result.
    ///
    /// * No read sees the commit before it is durable, but every later commit builds on it.
    /// * Calls are made in the order of the commits: when the commit can be read, and before a later commit returns or has
    ///   its own call. Where the store is shared, commits that are under way at the same time have no order.
    /// * Calls do not depend on the caller's runtime, must not block, and find no lock of the store held. One that panics
    ///   is logged and ends nothing.
    /// * Dropping the future after its first poll loses no call: if the commit happens, the call is made.
    /// * A power cut or a write that fails may undo commits that were ordered: one of them, and all after it. After a
    ///   failed write the store takes no more commits.
    /// * A store that cannot order in memory returns when the commit is durable, and makes the call before it returns.
    ///
    /// The provided method makes the call in the caller's future. That is enough for a shared store whose
    /// [`commit`](Self::commit) is complete within its first poll; any other makes the call where the commit runs.
    async fn order(&self, commit: Commit, on_durable: OnDurable) -> std::result::Result<(), Refused> {
        Refused::or_call(self.commit(commit).await, on_durable)
    }

    /// Reads one record.
    async fn get(&self, key: &Key) -> Result<Option<Record>>;

    /// Reads records of a partition in order of their ids.
    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage>;

    /// Reads queued records in order of arrival.
    async fn due(&self, query: &DueQuery) -> Result<DuePage>;

    /// Lists records by their attributes.
    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage>;

    /// Like [`list`](Store::list), with bodies, and including every process's latest commits: for exact counts.
    async fn list_records(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<RecordPage> {
        let page = self.list(filter, after, limit).await?;
        let mut records = Vec::with_capacity(page.entries.len());
        for entry in &page.entries {
            records.extend(self.get(&entry.key).await?);
        }
        let next = page.next;
        Ok(RecordPage { records, next })
    }

    /// The totals of all commits. Exact on exclusive stores; on shared ones they may lag.
    async fn counters(&self) -> Result<Vec<(Counter, i64)>>;

    /// The same, and whether they may be wrong for good. On exclusive stores they never are.
    async fn totals(&self) -> Result<Totals> {
        self.counters().await.map(Totals::certain)
    }

    /// Replaces the totals that a count [covers](Counted::prefix), if that is safe: if no other process has added to any
    /// since [`totals`](Store::totals) reported the doubt. Returns whether it did. If not, the count is reported along with
    /// the doubt until the next one. The totals of other engines stay as they are, and as doubtful.
    async fn resolve_doubt(&self, doubt: &Doubt, counted: &Counted) -> Result<bool> {
        let _ = (doubt, counted);
        Ok(false)
    }

    /// Notifications of new work.
    fn signals(&self) -> Signals;

    /// Whether this handle takes commits. A store that a failed write can break reports it here; other stores never
    /// report a failure.
    fn health(&self) -> HealthWatch {
        HealthWatch::always_working()
    }

    /// Finishes what was accepted, makes it durable and releases the store. Later calls fail.
    async fn close(&self) -> Result<()>;
}

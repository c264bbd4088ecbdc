//! A store that only reads what another process writes.

use crate::bounded::Bounded;
use crate::list::{read_cursor, write_cursor};
use crate::meta::Group;
use crate::stats::Counts;
use crate::store::{closed, engine_error};
use crate::value::{self, Stored};
use crate::{EngineError, Entry, Span, Table, View, keys};
use async_trait::async_trait;
use bytes::Bytes;
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Error, Key, Limits, ListFilter, ListPage, Listed, Record,
    RecordId, RecordPage, Result, ScanPage, ScanQuery, Sharing, SignalSender, Signals, Slot, Store, Version,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// How many records one page of a listing may examine, and how many queued records are read at a time.
const EXAMINED: usize = 4096;
/// How many reads that wait are made at a time.
const READS_AT_ONCE: usize = 16;
/// The tables that hold records.
const RECORDS: [Table; 3] = [Table::Records, Table::Listed, Table::Queue];

/// An ordered key-value engine that another process writes.
#[async_trait]
pub trait ReadOnlyKv: Send + Sync + 'static {
    /// Waits until views are as new as this engine promises.
    async fn refresh(&self) -> std::result::Result<(), EngineError>;

    /// A view of the engine as it was at one moment: it shows all or nothing of each batch, and only what is durable.
    fn view(&self) -> Box<dyn View + '_>;

    /// The runtime whose blocking threads read, because reads may wait. `None`: they are quick, and run where they are needed.
    fn blocking(&self) -> Option<&Handle> {
        None
    }

    /// The longest key that the engine takes, in bytes.
    fn key_limit(&self) -> usize {
        usize::MAX
    }
}

/// A [`Store`] that shows what another process writes, and refuses to write.
///
/// Each call sees the store as it was at one moment, not long ago: how long, the engine says. Nothing of an owner's memory is
/// needed, so a queue is read from its table: this is for a look at it, not for work.
pub struct ReadOnlyStore<E: ReadOnlyKv> {
    engine: Arc<E>,
    limits: Limits,
    counts: Arc<Counts>,
    signals: SignalSender,
    /// Permits for reads that wait, so that they do not take all threads.
    waiting: Semaphore,
    is_closed: AtomicBool,
}

impl<E: ReadOnlyKv> ReadOnlyStore<E> {
    /// Reads an engine. The limits are those of the store that writes it.
    pub fn new(engine: E, limits: Limits) -> Self {
        let limits = Limits {
            bytes_per_key: limits.bytes_per_key.min(engine.key_limit()),
            ..limits
        };
        Self {
            engine: Arc::new(engine),
            limits,
            counts: Arc::default(),
            signals: SignalSender::new(1),
            waiting: Semaphore::new(READS_AT_ONCE),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The engine beneath.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// Reads one view of the engine.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn View, &Counts) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        self.engine.refresh().await.map_err(engine_error)?;
        let (engine, counts) = (Arc::clone(&self.engine), Arc::clone(&self.counts));
        let blocking = engine.blocking().cloned();
        let read = move || read(&Bounded::new(engine.view(), engine.key_limit()), &counts);
        let Some(runtime) = blocking else { return read() };
        // The semaphore is never closed.
        let _permit = self.waiting.acquire().await;
        let ended = |why| Error::Unavailable(format!("a read did not end: {why}"));
        runtime.spawn_blocking(read).await.map_err(ended)?
    }
}

fn no_commits() -> Error {
    Error::Invalid("this handle only reads: another process owns the store".to_owned())
}

#[async_trait]
impl<E: ReadOnlyKv> Store for ReadOnlyStore<E> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }

    fn epoch(&self) -> u64 {
        0
    }

    async fn commit(&self, _commit: Commit) -> Result<Committed> {
        Err(no_commits())
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let key = key.clone();
        self.read(move |view, _| get(view, key)).await
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        let query = query.clone();
        self.read(move |view, _| scan(view, &query)).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        let query = query.clone();
        self.read(move |view, counts| due(view, counts, &query)).await
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        let (filter, after) = (filter.clone(), after.cloned());
        let listed = |key: Key, stored: Stored| {
            let version = Version::number(stored.version);
            stored.listing.map(|listing| Listed { key, version, listing })
        };
        let read = self.read(move |view, counts| list(view, counts, &filter, after.as_ref(), limit, listed));
        let (entries, next) = read.await?;
        Ok(ListPage { entries, next })
    }

    async fn list_records(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<RecordPage> {
        let (filter, after) = (filter.clone(), after.cloned());
        let record = |key: Key, stored: Stored| Some(stored.into_record(key));
        let read = self.read(move |view, counts| list(view, counts, &filter, after.as_ref(), limit, record));
        let (records, next) = read.await?;
        Ok(RecordPage { records, next })
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        let group = self.read(|view, _| Group::read(view).map_err(engine_error)).await?;
        Ok(group.totals.into_iter().collect())
    }

    fn signals(&self) -> Signals {
        self.signals.subscribe()
    }

    async fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        Ok(())
    }
}

fn corrupt(key: &Key, why: &str) -> Error {
    Error::Corrupt(format!("the record {key} cannot be read: {why}"))
}

/// The value of a record. It is in one table only, so one that cannot be read does not matter if another has it.
fn find(view: &dyn View, key: &[u8]) -> Result<Option<std::result::Result<Bytes, String>>> {
    let mut damage = None;
    for table in RECORDS {
        match view.get(table, key) {
            Ok(None) => {}
            Ok(Some(value)) => return Ok(Some(Ok(value))),
            Err(EngineError::Corrupt(why)) => damage = damage.or(Some(Err(why))),
            Err(error) => return Err(engine_error(error)),
        }
    }
    Ok(damage)
}

fn get(view: &dyn View, key: Key) -> Result<Option<Record>> {
    let Some(value) = find(view, &keys::record(&key))? else {
        return Ok(None);
    };
    let stored = value.and_then(value::decode).map_err(|why| corrupt(&key, &why))?;
    Ok(Some(stored.into_record(key)))
}

fn scan(view: &dyn View, query: &ScanQuery) -> Result<ScanPage> {
    let prefix = keys::partition(&query.partition).len();
    let mut page = ScanPage::default();
    for span in keys::scan_spans(&query.partition, query.under.as_ref(), query.after.as_ref()) {
        let missing = query.limit.saturating_add(1) - page.records.len();
        let mut entries: Vec<Entry> = Vec::new();
        for table in RECORDS {
            entries.append(&mut view.scan(table, &span, missing).map_err(engine_error)?);
        }
        entries.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        for (key, value) in entries.into_iter().take(missing) {
            let id = key.get(prefix..).and_then(|id| std::str::from_utf8(id).ok());
            let id = id.ok_or_else(|| Error::Corrupt(format!("a record of {:?} has no id", query.partition)))?;
            let key = Key::new(query.partition.clone(), RecordId::from_raw(id));
            let mut stored = value.and_then(value::decode).map_err(|why| corrupt(&key, &why))?;
            if query.keys_only {
                stored.body = Bytes::new();
            }
            page.records.push(stored.into_record(key));
        }
    }
    if page.records.len() > query.limit {
        page.records.truncate(query.limit);
        let last = page.records.last().map(|record| record.key.id.clone());
        page.next = last.or_else(|| query.after.clone());
    }
    Ok(page)
}

/// Reads a table from one key on; `None` at its end.
fn next_entries(view: &dyn View, table: Table, span: &mut Option<Span>) -> Result<Option<Vec<Entry>>> {
    let Some(current) = span.take() else { return Ok(None) };
    let entries = view.scan(table, &current, EXAMINED).map_err(engine_error)?;
    if let Some((last, _)) = entries.last().filter(|_| entries.len() == EXAMINED) {
        *span = Some(Span {
            from: keys::after(last.to_vec()),
            to: current.to,
        });
    }
    Ok(Some(entries))
}

fn due(view: &dyn View, counts: &Counts, query: &DueQuery) -> Result<DuePage> {
    let mut page = DuePage::default();
    let mut span = Some(Span::all());
    while let Some(entries) = next_entries(view, Table::Queue, &mut span)? {
        for (key, value) in entries {
            let stored = match value.and_then(value::decode) {
                Ok(stored) => stored,
                Err(why) => {
                    counts.note_damaged(&key, &why);
                    continue;
                }
            };
            let (Some(place), Some(key)) = (&stored.place, keys::parse(&key)) else {
                continue;
            };
            let is_wanted = place.lane.name == query.lane
                && query.topics.matches(place.lane.topic.as_deref())
                && query.after.is_none_or(|after| place.order > after)
                && query.slots.contains(Slot::of(&key.partition));
            if is_wanted && place.due_ms > query.until_ms {
                let next_ms = page.next_due_ms.unwrap_or(u64::MAX);
                page.next_due_ms = Some(next_ms.min(place.due_ms));
            } else if is_wanted {
                page.records.push(stored.into_record(key));
            }
        }
        let order = |record: &Record| record.place.as_ref().map(|place| place.order);
        page.records.sort_by_key(order);
        page.more |= page.records.len() > query.limit;
        page.records.truncate(query.limit);
    }
    Ok(page)
}

/// A record that may match a filter, with its value if the search has read it.
type Candidate = (Bytes, Option<std::result::Result<Bytes, String>>);

/// The records that may match, in order of their keys.
fn candidates(view: &dyn View, filter: &ListFilter, after: Option<&[u8]>, limit: usize) -> Result<Vec<Candidate>> {
    let indexed = |prefix: Vec<u8>| {
        let length = prefix.len();
        let mut span = keys::starting_with(prefix);
        if let Some(key) = after {
            span.from.extend_from_slice(key);
            span.from = keys::after(span.from);
        }
        let found = view.scan(Table::Index, &span, limit).map_err(engine_error)?;
        let found = found.into_iter().map(|(key, _)| (key.slice(length..), None));
        Ok(found.collect::<Vec<Candidate>>())
    };
    match (&filter.parent, &filter.status) {
        (Some(parent), _) => indexed(keys::by_parent(&filter.kind, parent)),
        (None, Some(status)) => indexed(keys::by_status(&filter.kind, status)),
        (None, None) => {
            let from = after.map_or_else(Vec::new, |key| keys::after(key.to_vec()));
            let span = Span { from, to: None };
            let listed = view.scan(Table::Listed, &span, limit).map_err(engine_error)?;
            let mut all = indexed(keys::queued(&filter.kind))?;
            all.extend(listed.into_iter().map(|(key, value)| (key, Some(value))));
            all.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
            all.truncate(limit);
            Ok(all)
        }
    }
}

fn list<T>(
    view: &dyn View,
    counts: &Counts,
    filter: &ListFilter,
    after: Option<&Cursor>,
    limit: usize,
    make: impl Fn(Key, Stored) -> Option<T>,
) -> Result<(Vec<T>, Option<Cursor>)> {
    let after = after.map(read_cursor).transpose()?;
    let budget = EXAMINED.max(limit);
    let found = candidates(view, filter, after.as_deref(), budget.saturating_add(1))?;
    let mut more = found.len() > budget;
    let (mut page, mut last) = (Vec::new(), after);
    for (key, value) in found.into_iter().take(budget) {
        if page.len() >= limit {
            more = true;
            break;
        }
        let value = match value {
            Some(value) => Some(value),
            None => find(view, &key)?,
        };
        match value.map(|value| value.and_then(value::decode)) {
            Some(Ok(stored)) if stored.listing.as_ref().is_some_and(|listing| filter.matches(listing)) => {
                page.extend(keys::parse(&key).and_then(|key| make(key, stored)));
            }
            Some(Err(why)) => counts.note_damaged(&key, &why),
            _ => {}
        }
        last = Some(key.to_vec());
    }
    let next = last.filter(|_| more).map(|key| write_cursor(&key));
    Ok((page, next))
}

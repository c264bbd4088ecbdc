//! Reading records: by key, by partition, by queue.

use crate::bounded::{too_few, view};
use crate::committer::Core;
use crate::due::{Found, Item};
use crate::meta::Group;
use crate::state::Relaxed;
use crate::store::{closed, engine_error};
use crate::value::{self, Stored};
use crate::{EngineError, Entry, OrderedKv, Span, Table, View, keys};
use bytes::Bytes;
use perennial_store::{DuePage, DueQuery, Error, Key, Record, RecordId, Result, ScanPage, ScanQuery};

pub(crate) fn corrupt(key: &Key, why: &str) -> Error {
    Error::Corrupt(format!("the record {key} cannot be read: {why}"))
}

/// The tables that hold records, the most likely one first.
fn tables(likely: Table) -> [Table; 3] {
    match likely {
        Table::Queue => [Table::Queue, Table::Records, Table::Listed],
        Table::Listed => [Table::Listed, Table::Records, Table::Queue],
        _ => [Table::Records, Table::Listed, Table::Queue],
    }
}

/// The value of a record. Reads that wait are made at the same time, unless the first is likely to be enough.
fn find(
    view: &dyn View,
    key: &Bytes,
    likely: Option<Table>,
    waits: bool,
) -> std::result::Result<Option<Bytes>, EngineError> {
    let tables = tables(likely.unwrap_or(Table::Records));
    if !waits {
        return first_found(tables.into_iter().map(|table| view.get(table, key)));
    }
    let keys = tables.map(|table| (table, key.clone()));
    let (first, rest) = keys.split_at(usize::from(likely.is_some()));
    let rounds = [first, rest].into_iter().filter(|round| !round.is_empty());
    first_found(rounds.flat_map(|round| view.get_many(round)))
}

/// The value of a record from the tables that may hold it, read one by one. It is in one table only, so a table that cannot
/// be read does not matter if another one has the record.
fn first_found(
    values: impl Iterator<Item = std::result::Result<Option<Bytes>, EngineError>>,
) -> std::result::Result<Option<Bytes>, EngineError> {
    let mut damage = None;
    for value in values {
        match value {
            Ok(None) => {}
            Err(error @ EngineError::Corrupt(_)) => damage = damage.or(Some(error)),
            found => return found,
        }
    }
    damage.map_or(Ok(None), Err)
}

impl<E: OrderedKv> Core<E> {
    pub(crate) fn get(&self, key: &Key) -> Result<Option<Record>> {
        let bytes = keys::record(key);
        let engine = self.engine.read();
        let engine = engine.as_ref().ok_or_else(closed)?;
        let (likely, relaxed) = {
            let state = self.state.lock();
            (state.likely_table(&bytes), state.relaxed.get(&bytes).cloned())
        };
        let value = match relaxed {
            Some(relaxed) => relaxed.value,
            None => match find(&view(engine), &bytes, likely, self.readers.is_some()) {
                Err(EngineError::Corrupt(why)) => return Err(corrupt(key, &why)),
                value => value.map_err(engine_error)?,
            },
        };
        let Some(value) = value else { return Ok(None) };
        let stored = value::decode(value).map_err(|why| corrupt(key, &why))?;
        Ok(Some(stored.into_record(key.clone())))
    }

    pub(crate) fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        let spans = keys::scan_spans(&query.partition, query.under.as_ref(), query.after.as_ref());
        let engine = self.engine.read();
        let engine = engine.as_ref().ok_or_else(closed)?;
        let relaxed: Vec<_> = {
            let state = self.state.lock();
            spans.iter().map(|span| state.relaxed_in(span)).collect()
        };
        let prefix = keys::partition(&query.partition).len();
        let wanted = query.limit.saturating_add(1);
        let mut page = ScanPage::default();
        for entries in entries(&view(engine), &spans, relaxed, wanted)? {
            let missing = wanted - page.records.len();
            for (key, value) in entries.into_iter().take(missing) {
                let id = key.get(prefix..).and_then(|id| std::str::from_utf8(id).ok());
                let id = id.ok_or_else(|| Error::Corrupt(format!("a record of {:?} has no id", query.partition)))?;
                let key = Key::new(query.partition.clone(), RecordId::from_raw(id));
                let stored = value.and_then(value::decode);
                let mut stored = stored.map_err(|why| corrupt(&key, &why))?;
                if query.keys_only {
                    stored.body = Bytes::new();
                }
                page.records.push(stored.into_record(key));
            }
        }
        if page.records.len() > query.limit {
            page.records.truncate(query.limit);
            page.next = page
                .records
                .last()
                .map(|record| record.key.id.clone())
                .or(query.after.clone());
        }
        Ok(page)
    }

    pub(crate) fn due(&self, query: &DueQuery) -> Result<DuePage> {
        let engine = self.engine.read();
        let engine = engine.as_ref().ok_or_else(closed)?;
        let mut after = query.after.map(|order| (order.0, u64::MAX));
        let mut page = DuePage::default();
        loop {
            let missing = query.limit - page.records.len();
            let (found, relaxed) = self.queued(query, after, missing);
            let unread = found
                .items
                .iter()
                .zip(&relaxed)
                .filter(|(_, relaxed)| relaxed.is_none());
            let unread: Vec<_> = unread.map(|(item, _)| (Table::Queue, item.key.clone())).collect();
            let mut values = match unread.is_empty() {
                true => Vec::new(),
                false => view(engine).get_many(&unread),
            }
            .into_iter();
            for (item, relaxed) in found.items.iter().zip(relaxed) {
                after = Some(item.position());
                let value = match relaxed {
                    Some(relaxed) => relaxed.value,
                    None => match values.next().unwrap_or_else(|| Err(too_few())) {
                        Err(EngineError::Corrupt(why)) => {
                            self.set_aside(item, &why);
                            None
                        }
                        value => value.map_err(engine_error)?,
                    },
                };
                page.records
                    .extend(value.and_then(|value| self.queued_record(query, &item.key, value)));
            }
            page.more = found.more;
            page.next_due_ms = found.next_due_ms;
            // Records that changed or broke since the index was queried make room for those behind them.
            if !found.more || page.records.len() >= query.limit {
                return Ok(page);
            }
        }
    }

    /// Takes an unreadable record out of its queue, until the store is opened again.
    fn set_aside(&self, item: &Item, why: &str) {
        self.counts.note_damaged(&item.key, why);
        let mut state = self.state.lock();
        if state.due.get(&item.key).is_some_and(|now| now.version == item.version) {
            state.due.remove(&item.key);
            state.damaged.insert(item.key.clone());
        }
    }

    fn queued(
        &self,
        query: &DueQuery,
        after: Option<crate::due::Position>,
        limit: usize,
    ) -> (Found, Vec<Option<Relaxed>>) {
        let mut state = self.state.lock();
        let found = state.due.query(query, after, limit);
        let relaxed = found.items.iter().map(|item| state.relaxed.get(&item.key).cloned());
        let relaxed = relaxed.collect();
        (found, relaxed)
    }

    /// The record behind an item of the queue index, if it still matches the query.
    fn queued_record(&self, query: &DueQuery, key: &Bytes, value: Bytes) -> Option<Record> {
        let stored = match value::decode(value) {
            Ok(stored) => stored,
            Err(why) => {
                self.counts.note_damaged(key, &why);
                return None;
            }
        };
        if !matches(query, &stored) {
            return None;
        }
        Some(stored.into_record(keys::parse(key)?))
    }
}

fn matches(query: &DueQuery, stored: &Stored) -> bool {
    stored.place.as_ref().is_some_and(|place| {
        place.lane.name == query.lane
            && query.topics.matches(place.lane.topic.as_deref())
            && place.due_ms <= query.until_ms
    })
}

/// The first `limit` records of each span, from all tables and from relaxed changes that the view does not hold yet.
fn entries(
    view: &dyn View,
    spans: &[Span],
    relaxed: Vec<Vec<(Bytes, Relaxed)>>,
    limit: usize,
) -> Result<Vec<Vec<Entry>>> {
    let relaxed = newer_than(view, relaxed)?;
    let wanted = limit.saturating_add(relaxed.iter().map(Vec::len).max().unwrap_or(0));
    let scans: Vec<_> = spans
        .iter()
        .flat_map(|span| tables(Table::Records).map(|table| (table, span)))
        .collect();
    let mut found = view.scan_many(&scans, wanted).map_err(engine_error)?.into_iter();
    let mut all = Vec::with_capacity(spans.len());
    for relaxed in relaxed {
        let mut entries: Vec<Entry> = found.by_ref().take(tables(Table::Records).len()).flatten().collect();
        if !relaxed.is_empty() {
            entries.retain(|(key, _)| relaxed.binary_search_by(|(changed, _)| changed.cmp(key)).is_err());
            let values = relaxed
                .into_iter()
                .filter_map(|(key, relaxed)| Some((key, Ok(relaxed.value?))));
            entries.extend(values);
        }
        entries.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        entries.truncate(limit);
        all.push(entries);
    }
    Ok(all)
}

/// The relaxed changes that a view does not hold yet.
fn newer_than(view: &dyn View, mut relaxed: Vec<Vec<(Bytes, Relaxed)>>) -> Result<Vec<Vec<(Bytes, Relaxed)>>> {
    if relaxed.iter().any(|relaxed| !relaxed.is_empty()) {
        let last = Group::read(view).map_err(engine_error)?.last;
        for relaxed in &mut relaxed {
            relaxed.retain(|(_, relaxed)| relaxed.seq > last);
        }
    }
    Ok(relaxed)
}

//! Listings: by status or parent through the index table, else over the listed table.

use crate::bounded::view;
use crate::committer::Core;
use crate::store::{closed, engine_error};
use crate::value::Stored;
use crate::{EngineError, OrderedKv, Span, Table, View, keys, value};
use bytes::Bytes;
use perennial_store::{Cursor, Error, Key, ListFilter, Listed, Result, Version};
use std::fmt::Write as _;

/// How many records one page may examine: a filter that matches little must not delay other callers.
const EXAMINED_PER_PAGE: usize = 4096;

/// How many records are read at a time, at least: a filter that matches little needs few rounds of reads.
const READ_AT_A_TIME: usize = 128;

/// A stored value, or why it cannot be read.
type Value = std::result::Result<Bytes, String>;

/// A record that may match.
struct Candidate {
    key: Bytes,
    /// Its value, if the search has read it.
    value: Option<Value>,
    /// The table that holds it.
    likely: Table,
}

/// What a listing says of a record.
pub(crate) fn listed(key: Key, stored: Stored) -> Option<Listed> {
    Some(Listed {
        key,
        version: Version::number(stored.version),
        listing: stored.listing?,
    })
}

impl<E: OrderedKv> Core<E> {
    /// A page of the records that match a filter, as `make` makes them, and where the next page begins.
    pub(crate) fn list<T>(
        &self,
        filter: &ListFilter,
        after: Option<&Cursor>,
        limit: usize,
        make: impl Fn(Key, Stored) -> Option<T>,
    ) -> Result<(Vec<T>, Option<Cursor>)> {
        let after = after.map(read_cursor).transpose()?;
        let engine = self.engine.read();
        let engine = engine.as_ref().ok_or_else(closed)?;
        let view = view(engine);
        let budget = EXAMINED_PER_PAGE.max(limit);
        let mut candidates = candidates(&view, filter, after.as_deref(), budget.saturating_add(1))?;
        let mut more = candidates.len() > budget;
        candidates.truncate(budget);
        let mut page = Vec::new();
        let mut last = None;
        let mut rest = candidates.as_mut_slice();
        while !rest.is_empty() && page.len() < limit {
            let count = (limit - page.len()).max(READ_AT_A_TIME).min(rest.len());
            let (round, behind) = rest.split_at_mut(count);
            read_values(&view, round)?;
            for candidate in round {
                if page.len() >= limit {
                    more = true;
                    break;
                }
                page.extend(
                    self.matching(filter, candidate)
                        .and_then(|(key, stored)| make(key, stored)),
                );
                last = Some(candidate.key.clone());
            }
            rest = behind;
        }
        more |= !rest.is_empty();
        let next = last.as_deref().or(after.as_deref()).filter(|_| more);
        Ok((page, next.map(write_cursor)))
    }

    /// The record of a candidate, if it matches.
    fn matching(&self, filter: &ListFilter, candidate: &mut Candidate) -> Option<(Key, Stored)> {
        let stored = match candidate.value.take()?.and_then(value::decode) {
            Ok(stored) => stored,
            Err(why) => {
                self.counts.note_damaged(&candidate.key, &why);
                return None;
            }
        };
        let is_match = stored.listing.as_ref().is_some_and(|listing| filter.matches(listing));
        is_match.then_some(())?;
        Some((keys::parse(&candidate.key)?, stored))
    }
}

/// Reads the values of candidates that the search has not read: those in the table where they are likely to be, and those
/// that are not there in the other one.
fn read_values(view: &dyn View, candidates: &mut [Candidate]) -> Result<()> {
    let other = |table| match table {
        Table::Listed => Table::Queue,
        _ => Table::Listed,
    };
    for is_second in [false, true] {
        let mut unread: Vec<_> = candidates.iter_mut().filter(|one| one.value.is_none()).collect();
        if unread.is_empty() {
            return Ok(());
        }
        let table = |candidate: &Candidate| match is_second {
            false => candidate.likely,
            true => other(candidate.likely),
        };
        let keys: Vec<_> = unread.iter().map(|one| (table(one), one.key.clone())).collect();
        for (candidate, value) in unread.iter_mut().zip(view.get_many(&keys)) {
            candidate.value = match value {
                Ok(value) => value.map(Ok),
                Err(EngineError::Corrupt(why)) => Some(Err(why)),
                Err(error) => return Err(engine_error(error)),
            };
        }
    }
    Ok(())
}

/// The records that may match, in order of their keys.
fn candidates(view: &dyn View, filter: &ListFilter, after: Option<&[u8]>, limit: usize) -> Result<Vec<Candidate>> {
    // A parent has few children, a status may have millions of records.
    if let Some(parent) = &filter.parent {
        let prefix = keys::by_parent(&filter.kind, parent);
        return indexed(view, prefix, after, limit);
    }
    if let Some(status) = &filter.status {
        let prefix = keys::by_status(&filter.kind, status);
        return indexed(view, prefix, after, limit);
    }
    let prefix = keys::queued(&filter.kind);
    let listed = Span {
        from: after.map_or_else(Vec::new, |key| keys::after(key.to_vec())),
        to: None,
    };
    let queued = index_span(&prefix, after);
    let scans = [(Table::Listed, &listed), (Table::Index, &queued)];
    let mut found = view.scan_many(&scans, limit).map_err(engine_error)?.into_iter();
    let listed = found
        .next()
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| Candidate {
            key,
            value: Some(value),
            likely: Table::Listed,
        });
    let queued = found.next().unwrap_or_default().into_iter();
    let queued = queued.map(|(key, _)| unread(&key, &prefix, Table::Queue));
    let mut all: Vec<Candidate> = listed.chain(queued).collect();
    all.sort_unstable_by(|left, right| left.key.cmp(&right.key));
    all.truncate(limit);
    Ok(all)
}

fn indexed(view: &dyn View, prefix: Vec<u8>, after: Option<&[u8]>, limit: usize) -> Result<Vec<Candidate>> {
    let span = index_span(&prefix, after);
    let found = view.scan(Table::Index, &span, limit).map_err(engine_error)?;
    Ok(found
        .into_iter()
        .map(|(key, _)| unread(&key, &prefix, Table::Listed))
        .collect())
}

/// The keys of an index with a prefix, behind a record.
fn index_span(prefix: &[u8], after: Option<&[u8]>) -> Span {
    let mut span = keys::starting_with(prefix.to_vec());
    if let Some(key) = after {
        span.from.extend_from_slice(key);
        span.from = keys::after(span.from);
    }
    span
}

/// The record that a key of an index names.
fn unread(index: &Bytes, prefix: &[u8], likely: Table) -> Candidate {
    Candidate {
        key: index.slice(prefix.len()..),
        value: None,
        likely,
    }
}

pub(crate) fn write_cursor(key: &[u8]) -> Cursor {
    let mut text = String::with_capacity(key.len() * 2);
    for byte in key {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
    }
    Cursor(text)
}

pub(crate) fn read_cursor(cursor: &Cursor) -> Result<Vec<u8>> {
    let invalid = || Error::Invalid("the cursor is not one that this store made".to_owned());
    let digits = cursor.0.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2);
            u8::from_str_radix(text.ok_or_else(invalid)?, 16).map_err(|_| invalid())
        })
        .collect()
}

//! Listings: by status or parent through the index table, else over the listed table.

use crate::bounded::view;
use crate::committer::Core;
use crate::store::{closed, engine_error};
use crate::{EngineError, OrderedKv, Span, Table, View, keys, value};
use bytes::Bytes;
use perennial_store::{Cursor, Error, ListFilter, ListPage, Listed, Result, Version};
use std::fmt::Write as _;

/// How many records one page may examine: a filter that matches little must not delay other callers.
const EXAMINED_PER_PAGE: usize = 4096;

/// A record that may match, with its value, or why that cannot be read, if the search has read it.
type Candidate = (Bytes, Option<std::result::Result<Bytes, String>>);

impl<E: OrderedKv> Core<E> {
    pub(crate) fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        let after = after.map(read_cursor).transpose()?;
        let engine = self.engine.read();
        let engine = engine.as_ref().ok_or_else(closed)?;
        let view = view(engine);
        let budget = EXAMINED_PER_PAGE.max(limit);
        let mut candidates = candidates(&view, filter, after.as_deref(), budget.saturating_add(1))?;
        let mut more = candidates.len() > budget;
        candidates.truncate(budget);
        let mut page = ListPage::default();
        let mut last = None;
        for (key, value) in candidates {
            if page.entries.len() >= limit {
                more = true;
                break;
            }
            page.entries.extend(self.listed(&view, filter, &key, value)?);
            last = Some(key);
        }
        if more {
            page.next = last
                .map(|key| write_cursor(&key))
                .or_else(|| after.as_deref().map(write_cursor));
        }
        Ok(page)
    }

    fn listed(
        &self,
        view: &dyn View,
        filter: &ListFilter,
        key: &Bytes,
        value: Option<std::result::Result<Bytes, String>>,
    ) -> Result<Option<Listed>> {
        let value = match value {
            Some(value) => Some(value),
            None => find(view, key)?,
        };
        let Some(value) = value else { return Ok(None) };
        let stored = match value.and_then(value::decode) {
            Ok(stored) => stored,
            Err(why) => {
                self.counts.note_damaged(key, &why);
                return Ok(None);
            }
        };
        let listing = stored.listing.filter(|listing| filter.matches(listing));
        Ok(listing.zip(keys::parse(key)).map(|(listing, key)| Listed {
            key,
            version: Version::number(stored.version),
            listing,
        }))
    }
}

/// The value of a record that the index names, or why it cannot be read.
fn find(view: &dyn View, key: &[u8]) -> Result<Option<std::result::Result<Bytes, String>>> {
    for table in [Table::Listed, Table::Queue] {
        match view.get(table, key) {
            Ok(None) => {}
            Ok(Some(value)) => return Ok(Some(Ok(value))),
            Err(EngineError::Corrupt(why)) => return Ok(Some(Err(why))),
            Err(error) => return Err(engine_error(error)),
        }
    }
    Ok(None)
}

/// The records that may match, in order of their keys.
fn candidates(view: &dyn View, filter: &ListFilter, after: Option<&[u8]>, limit: usize) -> Result<Vec<Candidate>> {
    // A parent has few children, a status may have millions of records.
    if let Some(parent) = &filter.parent {
        return indexed(view, keys::by_parent(&filter.kind, parent), after, limit);
    }
    if let Some(status) = &filter.status {
        return indexed(view, keys::by_status(&filter.kind, status), after, limit);
    }
    let span = Span {
        from: after.map_or_else(Vec::new, |key| keys::after(key.to_vec())),
        to: None,
    };
    let listed = view.scan(Table::Listed, &span, limit).map_err(engine_error)?;
    let mut all: Vec<Candidate> = listed.into_iter().map(|(key, value)| (key, Some(value))).collect();
    all.append(&mut indexed(view, keys::queued(&filter.kind), after, limit)?);
    all.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    all.truncate(limit);
    Ok(all)
}

fn indexed(view: &dyn View, prefix: Vec<u8>, after: Option<&[u8]>, limit: usize) -> Result<Vec<Candidate>> {
    let length = prefix.len();
    let mut span = keys::starting_with(prefix);
    if let Some(key) = after {
        span.from.extend_from_slice(key);
        span.from = keys::after(span.from);
    }
    let found = view.scan(Table::Index, &span, limit).map_err(engine_error)?;
    Ok(found.into_iter().map(|(key, _)| (key.slice(length..), None)).collect())
}

fn write_cursor(key: &[u8]) -> Cursor {
    let mut text = String::with_capacity(key.len() * 2);
    for byte in key {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
    }
    Cursor(text)
}

fn read_cursor(cursor: &Cursor) -> Result<Vec<u8>> {
    let invalid = || Error::Invalid("the cursor is not one that this store made".to_owned());
    let digits = cursor.0.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2);
            u8::from_str_radix(text.ok_or_else(invalid)?, 16).map_err(|_| invalid())
        })
        .collect()
}

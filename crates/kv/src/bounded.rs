//! A view that never passes on a key longer than its engine takes.

use crate::engine::Entry;
use crate::{EngineError, OrderedKv, Span, Table, View};
use bytes::Bytes;
use std::borrow::Cow;
use std::io::ErrorKind;

/// The current content of an engine. A key that is too long never exists, so the engine need not handle a request for
/// one.
pub(crate) struct Bounded<'a> {
    inner: Box<dyn View + 'a>,
    limit: usize,
}

/// The current content of an engine.
pub(crate) fn view<E: OrderedKv>(engine: &E) -> Bounded<'_> {
    Bounded {
        inner: engine.view(),
        limit: engine.key_limit(),
    }
}

impl<'a> Bounded<'a> {
    /// A view that never sees a key of more than `limit` bytes.
    pub(crate) fn new(inner: Box<dyn View + 'a>, limit: usize) -> Self {
        Self { inner, limit }
    }
}

impl View for Bounded<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        match key.len() > self.limit {
            true => Ok(None),
            false => self.inner.get(table, key),
        }
    }

    fn get_many(&self, keys: &[(Table, Bytes)]) -> Vec<Result<Option<Bytes>, EngineError>> {
        let is_short = |key: &Bytes| key.len() <= self.limit;
        let mut values = match keys.iter().all(|(_, key)| is_short(key)) {
            true => self.inner.get_many(keys),
            false => {
                let short: Vec<_> = keys.iter().filter(|(_, key)| is_short(key)).cloned().collect();
                let mut values = self.inner.get_many(&short).into_iter();
                let value = |(_, key): &(Table, Bytes)| match is_short(key) {
                    true => values.next().unwrap_or_else(|| Err(too_few())),
                    false => Ok(None),
                };
                keys.iter().map(value).collect()
            }
        };
        values.resize_with(keys.len(), || Err(too_few()));
        values
    }

    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError> {
        match bounded(span, self.limit) {
            Some(span) => self.inner.scan(table, &span, limit),
            None => Ok(Vec::new()),
        }
    }

    fn scan_many(&self, spans: &[(Table, &Span)], limit: usize) -> Result<Vec<Vec<Entry>>, EngineError> {
        let bounds: Vec<_> = spans.iter().map(|(_, span)| bounded(span, self.limit)).collect();
        let inner: Vec<_> = spans
            .iter()
            .zip(&bounds)
            .filter_map(|((table, _), span)| Some((*table, span.as_deref()?)))
            .collect();
        let mut found = self.inner.scan_many(&inner, limit)?.into_iter();
        let entries = |span: &Option<Cow<'_, Span>>| match span {
            Some(_) => found.next().ok_or_else(too_few),
            None => Ok(Vec::new()),
        };
        bounds.iter().map(entries).collect()
    }
}

/// An engine that returns fewer results than were requested.
pub(crate) fn too_few() -> EngineError {
    EngineError::Io(
        ErrorKind::Other,
        "the storage engine returned too few results".to_owned(),
    )
}

/// The span of the same keys, with bounds that are not too long; `None` if it has no such keys.
fn bounded(span: &Span, limit: usize) -> Option<Cow<'_, Span>> {
    let is_short = |key: &Vec<u8>| key.len() <= limit;
    if is_short(&span.from) && span.to.as_ref().is_none_or(is_short) {
        return Some(Cow::Borrowed(span));
    }
    let from = first_of(&span.from, limit)?;
    let to = span.to.as_ref().and_then(|to| first_of(to, limit));
    Some(Cow::Owned(Span { from, to }))
}

/// The first key of at most `limit` bytes that is not before this one; `None` if all are.
fn first_of(key: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut first = key.get(..limit).unwrap_or(key).to_vec();
    if first.len() == key.len() {
        return Some(first);
    }
    // Of all short keys, only the prefixes of this one are before it.
    while let Some(last) = first.pop() {
        if let Some(next) = last.checked_add(1) {
            first.push(next);
            return Some(first);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All keys of at most `length` of these bytes.
    fn keys(length: usize) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = vec![Vec::new()];
        let mut last = all.clone();
        for _ in 0..length {
            let longer = |key: &Vec<u8>| [0, 1, 0xFE, 0xFF].map(|byte| [key.as_slice(), &[byte]].concat());
            last = last.iter().flat_map(longer).collect();
            all.extend(last.iter().cloned());
        }
        all.sort();
        all
    }

    #[test]
    fn the_same_short_keys_are_before_a_key_and_before_its_bound() {
        let short = keys(2);
        for key in keys(4) {
            let bound = first_of(&key, 2);
            assert!(bound.as_ref().is_none_or(|bound| bound.len() <= 2));
            for one in &short {
                assert_eq!(
                    *one < key,
                    bound.as_ref().is_none_or(|bound| one < bound),
                    "{one:?} {key:?}"
                );
            }
        }
    }
}

//! A view that never passes on a key longer than its engine takes.

use crate::engine::Entry;
use crate::{EngineError, OrderedKv, Span, Table, View};
use bytes::Bytes;

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

impl View for Bounded<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        match key.len() > self.limit {
            true => Ok(None),
            false => self.inner.get(table, key),
        }
    }

    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError> {
        let is_short = |key: &Vec<u8>| key.len() <= self.limit;
        if is_short(&span.from) && span.to.as_ref().is_none_or(is_short) {
            return self.inner.scan(table, span, limit);
        }
        let Some(from) = first_of(&span.from, self.limit) else {
            return Ok(Vec::new());
        };
        let to = span.to.as_ref().and_then(|to| first_of(to, self.limit));
        self.inner.scan(table, &Span { from, to }, limit)
    }
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

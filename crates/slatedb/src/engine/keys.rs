//! Keys of all tables in one database: a byte for the table comes first.

use bytes::{BufMut, Bytes, BytesMut};
use perennial_kv::{Span, Table};
use std::ops::Bound;

/// The row that every batch writes. Its time is that of the last write.
///
/// It sorts next to the table `meta`, so that an opening finds all that it reads first in one block.
pub(crate) const TICK: &[u8] = b"n";

/// The byte before every key of a table. They are stored, so they never change.
const fn byte(table: Table) -> u8 {
    match table {
        Table::Index => b'i',
        Table::Listed => b'l',
        Table::Meta => b'm',
        Table::Queue => b'q',
        Table::Records => b'r',
    }
}

/// The key in the database.
pub(crate) fn key(table: Table, key: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(key.len() + 1);
    out.put_u8(byte(table));
    out.put_slice(key);
    out.freeze()
}

/// The keys of a span; `None` if it is empty.
pub(crate) fn range(table: Table, span: &Span) -> Option<(Bound<Bytes>, Bound<Bytes>)> {
    let from = key(table, &span.from);
    let to = match &span.to {
        Some(to) => key(table, to),
        None => Bytes::copy_from_slice(&[byte(table) + 1]),
    };
    (from < to).then_some((Bound::Included(from), Bound::Excluded(to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_do_not_overlap() {
        let mut bytes: Vec<u8> = Table::ALL.iter().map(|table| byte(*table)).chain([b'n']).collect();
        bytes.sort_unstable();
        bytes.dedup();
        assert_eq!(bytes.len(), Table::ALL.len() + 1);
    }

    #[test]
    fn a_span_without_an_end_stays_in_its_table() {
        for table in Table::ALL {
            let (Bound::Included(from), Bound::Excluded(to)) = range(table, &Span::all()).unwrap() else {
                panic!("a table has a beginning and an end")
            };
            for other in Table::ALL {
                for text in [&b""[..], b"\0", b"a", b"\xff\xff"] {
                    let inside = key(other, text);
                    assert_eq!(inside >= from && inside < to, other == table, "{inside:?} in {table:?}");
                }
            }
            assert!(TICK < from.as_ref() || TICK >= to.as_ref());
        }
    }

    #[test]
    fn a_span_that_ends_before_it_begins_is_empty() {
        for (from, to) in [("b", "a"), ("a", "a")] {
            let span = Span {
                from: from.into(),
                to: Some(to.into()),
            };
            assert_eq!(range(Table::Queue, &span), None);
        }
    }
}

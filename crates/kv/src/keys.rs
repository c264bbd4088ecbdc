//! Names as bytes: any text is safe, and byte order is the order of (partition, id).
//!
//! A component with others after it is written with each 0x00 as 0x00 0xFF, and ends with 0x00 0x01. The last component
//! of a key, the id, is written as it is.

use crate::Span;
use bytes::{Bytes, BytesMut};
use perennial_store::{Key, Listing, Partition, RecordId};

const END: [u8; 2] = [0x00, 0x01];
const ZERO: [u8; 2] = [0x00, 0xFF];

const BY_STATUS: u8 = b's';
const BY_PARENT: u8 = b'p';
/// Listed records that are queued too: an unfiltered listing does not find them in its own table.
const QUEUED: u8 = b'q';

fn push_part(out: &mut impl Extend<u8>, part: &str) {
    for byte in part.bytes() {
        if byte == 0 {
            out.extend(ZERO);
        } else {
            out.extend([byte]);
        }
    }
    out.extend(END);
}

fn push_text(out: &mut BytesMut, part: &str) {
    if part.as_bytes().contains(&0) {
        push_part(out, part);
    } else {
        out.extend_from_slice(part.as_bytes());
        out.extend_from_slice(&END);
    }
}

/// The key of a record, in whichever table it is.
pub(crate) fn record(key: &Key) -> Bytes {
    let mut out = BytesMut::with_capacity(key.partition.as_str().len() + key.id.as_str().len() + 2);
    push_text(&mut out, key.partition.as_str());
    out.extend_from_slice(key.id.as_str().as_bytes());
    out.freeze()
}

/// The prefix of every key of a partition.
pub(crate) fn partition(partition: &Partition) -> Vec<u8> {
    let mut out = BytesMut::with_capacity(partition.as_str().len() + 2);
    push_text(&mut out, partition.as_str());
    out.into()
}

/// The record that a key names, if it is the key of a record.
pub(crate) fn parse(key: &[u8]) -> Option<Key> {
    let mut name = Vec::with_capacity(key.len());
    let mut rest = key;
    loop {
        match rest {
            [0x00, 0xFF, tail @ ..] => {
                name.push(0);
                rest = tail;
            }
            [0x00, 0x01, tail @ ..] => {
                rest = tail;
                break;
            }
            [0x00, ..] | [] => return None,
            [byte, tail @ ..] => {
                name.push(*byte);
                rest = tail;
            }
        }
    }
    let name = String::from_utf8(name).ok()?;
    let id = std::str::from_utf8(rest).ok()?;
    Some(Key::new(Partition::new(name), RecordId::from_raw(id)))
}

/// The smallest key after this one.
pub(crate) fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// All keys with a prefix that ends with the end of a component, or with any byte below 0xFF.
pub(crate) fn starting_with(prefix: Vec<u8>) -> Span {
    let mut to = prefix.clone();
    if let Some(last) = to.last_mut() {
        *last = last.saturating_add(1);
    }
    Span {
        from: prefix,
        to: Some(to),
    }
}

/// The spans of a partition's keys that a scan reads, in order.
pub(crate) fn scan_spans(name: &Partition, under: Option<&RecordId>, after_id: Option<&RecordId>) -> Vec<Span> {
    let prefix = partition(name);
    let mut spans = match under {
        None => vec![starting_with(prefix.clone())],
        Some(id) => {
            let exact = [prefix.as_slice(), id.as_str().as_bytes()].concat();
            let below = [exact.as_slice(), b"/"].concat();
            vec![
                Span {
                    from: exact.clone(),
                    to: Some(after(exact)),
                },
                starting_with(below),
            ]
        }
    };
    if let Some(id) = after_id {
        let start = after([prefix.as_slice(), id.as_str().as_bytes()].concat());
        for span in &mut spans {
            if span.from < start {
                span.from.clone_from(&start);
            }
        }
    }
    spans.retain(|span| span.to.as_ref().is_none_or(|to| span.from < *to));
    spans
}

/// The prefix of the index keys of a search.
fn index_prefix(tag: u8, kind: &str, value: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(kind.len() + value.map_or(0, str::len) + 8);
    out.push(tag);
    push_part(&mut out, kind);
    if let Some(value) = value {
        push_part(&mut out, value);
    }
    out
}

pub(crate) fn by_status(kind: &str, status: &str) -> Vec<u8> {
    index_prefix(BY_STATUS, kind, Some(status))
}

pub(crate) fn by_parent(kind: &str, parent: &str) -> Vec<u8> {
    index_prefix(BY_PARENT, kind, Some(parent))
}

pub(crate) fn queued(kind: &str) -> Vec<u8> {
    index_prefix(QUEUED, kind, None)
}

/// The index keys of a listed record.
pub(crate) fn index(record: &[u8], listing: &Listing, is_queued: bool) -> Vec<Bytes> {
    let with_record = |mut prefix: Vec<u8>| {
        prefix.extend_from_slice(record);
        Bytes::from(prefix)
    };
    let mut keys = vec![with_record(by_status(&listing.kind, &listing.status))];
    if let Some(parent) = &listing.parent {
        keys.push(with_record(by_parent(&listing.kind, parent)));
    }
    if is_queued {
        keys.push(with_record(queued(&listing.kind)));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(partition: &str, id: &str) -> Key {
        Key::new(Partition::new(partition), RecordId::from_raw(id))
    }

    const NAMES: [&str; 12] = [
        "", "\0", "\0\0", "\0\u{1}", "\u{1}", "\n", "a", "a\0", "a\0b", "ab", "é", "😀",
    ];

    #[test]
    fn any_text_comes_back_as_it_was() {
        for name in NAMES {
            for id in NAMES {
                assert_eq!(parse(&record(&key(name, id))), Some(key(name, id)));
            }
        }
    }

    #[test]
    fn keys_sort_as_partition_and_id_do() {
        let mut names: Vec<Key> = NAMES.iter().flat_map(|name| NAMES.map(|id| key(name, id))).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| record(&pair[0]) < record(&pair[1])));
    }

    #[test]
    fn a_partition_spans_its_own_keys_only() {
        for name in NAMES {
            let span = starting_with(partition(&Partition::new(name)));
            for other in NAMES {
                for id in NAMES {
                    let bytes = record(&key(other, id));
                    let inside = bytes.as_ref() >= span.from.as_slice() && bytes.as_ref() < span.to.as_deref().unwrap();
                    assert_eq!(inside, name == other, "{other:?}/{id:?} in {name:?}");
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_no_key_are_refused() {
        for bytes in [
            &b""[..],
            b"abc",
            b"abc\x00",
            b"abc\x00\x07",
            b"\xff\x00\x01id",
            b"a\x00\x01\xff",
        ] {
            assert_eq!(parse(bytes), None);
        }
    }
}

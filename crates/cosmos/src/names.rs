//! How names of any text become names that Cosmos DB takes.
//!
//! | name | allowed by the service | encoded so that |
//! |---|---|---|
//! | record id | 1 to 1023 bytes, none of `/ \ ? #` | it sorts like the bytes of the id |
//! | partition | up to 2048 bytes | it can be read in the portal |
//!
//! Both are plain ASCII, because nothing else is certain to sort, hash and pass through headers the same way everywhere.
//! A name that is too long is cut, followed by its digest, and stands in full in a property beside it.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Ids longer than this many bytes are cut here. Three characters a byte, a mark and a digest stay below the limit.
const ID_BYTES: usize = 280;
/// Between the start of a cut id and its digest. Sorts behind everything that can follow the start of an id.
const ID_CUT: &str = "~~";
/// The empty id. Sorts before every other.
const EMPTY_ID: &str = "!";

/// Encoded partitions longer than this are cut.
const PARTITION_CHARS: usize = 1900;
const PARTITION_CUT_BYTES: usize = 500;
const PARTITION_CUT: &str = "%%";
const EMPTY_PARTITION: &str = "%";

/// A name as the database stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The document's `id` or `partition`.
    pub(crate) encoded: String,
    /// Whether it was too long, so that the document must hold the full text too.
    pub(crate) is_cut: bool,
}

/// The `id` of a record's document.
pub(crate) fn id(text: &str) -> Name {
    let bytes = text.as_bytes();
    let start = bytes.get(..ID_BYTES).unwrap_or(bytes);
    let mut encoded = encode_id(start);
    let is_cut = start.len() < bytes.len();
    if is_cut {
        encoded.push_str(ID_CUT);
        push_digest(&mut encoded, bytes);
    }
    Name { encoded, is_cut }
}

/// The common prefix of the documents' ids of all records whose ids begin with this text, and perhaps of others.
pub(crate) fn id_prefix(text: &str) -> String {
    let bytes = text.as_bytes();
    match bytes.get(..ID_BYTES) {
        Some(start) if start.len() < bytes.len() => encode_id(start) + ID_CUT,
        _ => bytes.iter().fold(String::new(), push_id_byte),
    }
}

/// Whether an `id` is one that was cut: those sort in one block, but inside it by their digest.
pub(crate) fn is_cut_id(encoded: &str) -> bool {
    encoded.contains(ID_CUT)
}

/// The id that was encoded; `None` if nothing encodes so, or it was cut.
pub(crate) fn parse_id(encoded: &str) -> Option<String> {
    if encoded == EMPTY_ID {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'!' | b'~' => hex(rest.next()?, rest.next()?)?,
            b'.' => b'.' + digit(rest.next()?)?,
            b':' => b':' + digit(rest.next()?)?,
            b'_' => b'[' + digit(rest.next()?)?,
            b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => byte,
            _ => return None,
        });
    }
    String::from_utf8(bytes).ok()
}

fn encode_id(bytes: &[u8]) -> String {
    match bytes.is_empty() {
        true => EMPTY_ID.to_owned(),
        false => bytes.iter().fold(String::with_capacity(bytes.len()), push_id_byte),
    }
}

/// Letters, digits and `-` stand for themselves. Each gap between them in ASCII has one character of its own as a mark,
/// so that escaped bytes sort where they belong.
fn push_id_byte(mut encoded: String, byte: &u8) -> String {
    let wrote = match *byte {
        b @ (b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z') => write!(encoded, "{}", char::from(b)),
        b @ ..b'-' => write!(encoded, "!{b:02x}"),
        b @ b'.'..=b'/' => write!(encoded, ".{}", b - b'.'),
        b @ b':'..=b'@' => write!(encoded, ":{}", b - b':'),
        b @ b'['..=b'`' => write!(encoded, "_{}", b - b'['),
        b => write!(encoded, "~{b:02x}"),
    };
    debug_assert!(wrote.is_ok(), "a string takes everything");
    encoded
}

/// The `partition` of a document.
pub(crate) fn partition(text: &str) -> Name {
    if text.is_empty() {
        let encoded = EMPTY_PARTITION.to_owned();
        return Name { encoded, is_cut: false };
    }
    let encoded = text
        .bytes()
        .fold(String::with_capacity(text.len()), push_partition_byte);
    if encoded.len() <= PARTITION_CHARS {
        return Name { encoded, is_cut: false };
    }
    let start = text.bytes().take(PARTITION_CUT_BYTES);
    let mut encoded = start.fold(String::new(), push_partition_byte);
    encoded.push_str(PARTITION_CUT);
    push_digest(&mut encoded, text.as_bytes());
    Name { encoded, is_cut: true }
}

/// The partition that was encoded; `None` if nothing encodes so, or it was cut.
pub(crate) fn parse_partition(encoded: &str) -> Option<String> {
    if encoded == EMPTY_PARTITION {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?, rest.next()?)?,
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn push_partition_byte(mut encoded: String, byte: u8) -> String {
    let wrote = match byte {
        b'%' | b'"' | b'\\' | ..b' ' | 0x7f.. => write!(encoded, "%{byte:02x}"),
        _ => write!(encoded, "{}", char::from(byte)),
    };
    debug_assert!(wrote.is_ok(), "a string takes everything");
    encoded
}

fn push_digest(encoded: &mut String, bytes: &[u8]) {
    for byte in Sha256::digest(bytes) {
        let wrote = write!(encoded, "{byte:02x}");
        debug_assert!(wrote.is_ok(), "a string takes everything");
    }
}

fn digit(byte: u8) -> Option<u8> {
    byte.is_ascii_digit().then(|| byte - b'0')
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let value = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    Some(value(high)? << 4 | value(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All texts of up to two of these, and some long ones.
    fn texts() -> Vec<String> {
        let units: Vec<String> = (0..=0x7f_u8)
            .map(|byte| char::from(byte).to_string())
            .chain(["é", "\u{7ff}", "\u{ffff}", "😀"].map(str::to_owned))
            .collect();
        let mut texts = vec![String::new()];
        for first in &units {
            texts.push(first.clone());
            texts.extend(units.iter().map(|second| format!("{first}{second}")));
        }
        for length in [ID_BYTES - 1, ID_BYTES, ID_BYTES + 1, 1000] {
            texts.extend(["a", "/", "\u{0}", "é", "~"].map(|unit| unit.repeat(length / unit.len())));
        }
        texts.sort();
        texts.dedup();
        texts
    }

    #[test]
    fn ids_sort_as_their_texts_do_and_come_back() {
        let texts = texts();
        for pair in texts.windows(2) {
            let (low, high) = (id(&pair[0]), id(&pair[1]));
            let is_one_block = low.is_cut && id_prefix(&pair[0]) == id_prefix(&pair[1]);
            assert!(
                low.encoded < high.encoded || is_one_block,
                "{:?} {:?}",
                pair[0],
                pair[1]
            );
        }
        for text in &texts {
            let name = id(text);
            assert_eq!(name.is_cut, text.len() > ID_BYTES);
            assert_eq!(is_cut_id(&name.encoded), name.is_cut, "{text:?}");
            assert!((1..=1023).contains(&name.encoded.len()));
            if !name.is_cut {
                assert_eq!(parse_id(&name.encoded).as_deref(), Some(text.as_str()));
            }
        }
    }

    #[test]
    fn ids_hold_nothing_that_the_service_forbids() {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-.:_!~".contains(c);
        for text in texts() {
            assert!(id(&text).encoded.chars().all(allowed), "{text:?}");
        }
    }

    #[test]
    fn a_prefix_begins_every_id_that_it_begins() {
        let long = "x".repeat(ID_BYTES);
        for (prefix, text) in [
            ("job/", "job/1"),
            ("", "a"),
            (&*long, &format!("{long}/1")),
            (&format!("{long}/"), &format!("{long}/1")),
        ] {
            assert!(id(text).encoded.starts_with(&id_prefix(prefix)), "{prefix:?}");
        }
        assert!(!id("job!").encoded.starts_with(&id_prefix("job/")));
    }

    #[test]
    fn partitions_come_back_and_are_apart() {
        let mut seen = std::collections::HashSet::new();
        for text in texts() {
            let name = partition(&text);
            assert!((1..=2048).contains(&name.encoded.len()));
            assert!(name.encoded.is_ascii() && !name.encoded.contains(['"', '\\']));
            if !name.is_cut {
                assert_eq!(parse_partition(&name.encoded).as_deref(), Some(text.as_str()));
            }
            assert!(seen.insert(name.encoded), "{text:?}");
        }
        assert_eq!(partition("order 1/é").encoded, "order 1/%c3%a9");
    }

    #[test]
    fn what_nothing_encodes_to_is_refused() {
        for encoded in ["a/b", "~", "~f", ".9x", "é", "a~~00"] {
            assert!(parse_id(encoded).is_none() || id(&parse_id(encoded).unwrap()).encoded != encoded);
        }
        assert_eq!(parse_id("~zz"), None);
        assert_eq!(parse_partition("%zz"), None);
    }
}

//! The records that hold a spilled body: a manifest, which stands in a queue until no record refers to it, and the
//! chunks of the text below it.
//!
//! The manifest is small, so that postponing its due time or deciding its fate never rewrites the text.

use crate::{Draft, Error, Key, Lane, Order, Partition, Place, Record, RecordId, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The kind of manifests and chunks, reserved for them. It is stored in ids.
const KIND: &str = "part";

/// A millisecond has room for about a million orders, as in the engine.
const ORDERS_PER_MS: u32 = 20;

/// Names the chunks of one body: by the handle that writes them, and the number of the body on that handle.
pub(super) fn nonce(handle: u64, count: u64) -> String {
    format!("{handle:016x}-{count:x}")
}

pub(super) fn manifest_id(nonce: &str) -> RecordId {
    RecordId::of(KIND).text(nonce)
}

/// The nonce in a manifest's id; `None` if the id is not one of a manifest.
pub(super) fn nonce_of(manifest: &RecordId) -> Option<&str> {
    manifest.below(&RecordId::of(KIND)).filter(|nonce| !nonce.contains('/'))
}

/// Whether an id is that of a manifest. A caller that deletes a partition deletes manifests at the version that it has read:
/// chunks may be added to them meanwhile.
pub fn is_manifest(id: &RecordId) -> bool {
    nonce_of(id).is_some()
}

/// Whether an id is reserved for manifests and chunks.
pub(super) fn is_reserved(id: &RecordId) -> bool {
    let kind = RecordId::of(KIND);
    *id == kind || id.below(&kind).is_some()
}

pub(super) fn json(value: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_vec(value);
    text.map(Bytes::from)
        .map_err(|why| Error::Invalid(format!("a chunk cannot be written as JSON: {why}")))
}

/// What a manifest holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The record, in the same partition, that refers to these chunks or is about to.
    pub(super) owner: String,
    /// How long after it was written a sweep is due.
    pub(super) wait_ms: u64,
}

impl Manifest {
    pub(super) fn decode(record: &Record) -> Result<Self> {
        serde_json::from_slice(&record.body)
            .map_err(|why| Error::Corrupt(format!("the record {} does not name its owner: {why}", record.key)))
    }

    /// This manifest as it is written into `lane` at `now_ms`.
    pub(super) fn draft(&self, key: Key, lane: &Lane, order: Order, now_ms: u64) -> Result<Draft> {
        let place = Place {
            lane: lane.clone(),
            order,
            due_ms: now_ms.saturating_add(self.wait_ms),
        };
        Ok(Draft::new(key, json(self)?).placed(place))
    }
}

/// The order of a manifest.
pub(super) fn order(now_ms: u64, count: u64) -> Order {
    let mask = (1 << ORDERS_PER_MS) - 1;
    Order((now_ms << ORDERS_PER_MS) | (count & mask))
}

/// One chunk of a body.
pub(super) fn chunk(partition: &Partition, nonce: &str, number: usize, text: &str) -> Result<Draft> {
    let id = manifest_id(nonce).number(number as u64);
    Ok(Draft::new(Key::new(partition.clone(), id), json(&text)?))
}

/// The least room that a chunk needs: quotes and one character, however it is escaped.
pub(super) const LEAST_CHUNK: usize = 8;

/// Cuts a text into chunks, none longer than `limit` bytes as a JSON string. Returns their lengths.
pub(super) fn cut(text: &str, limit: usize) -> Vec<usize> {
    let room = limit.max(LEAST_CHUNK) - 2;
    let mut lengths = Vec::with_capacity(text.len() / room + 1);
    let (mut used, mut length) = (0, 0);
    for character in text.chars() {
        let cost = escaped(character);
        if used + cost > room {
            lengths.push(length);
            (used, length) = (0, 0);
        }
        used += cost;
        length += character.len_utf8();
    }
    lengths.push(length);
    lengths
}

/// A body as text: itself where it is UTF-8, else a character for each byte.
pub(super) fn to_text(body: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(body) {
        Ok(text) => text.into(),
        Err(_) => body.iter().map(|byte| char::from(*byte)).collect::<String>().into(),
    }
}

/// The bytes of a text that has a character for each; `None` if it has characters beyond a byte.
pub(super) fn to_bytes(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(character).ok()).collect()
}

/// How many bytes a character takes in a JSON string.
fn escaped(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        control if control < ' ' => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_make_up_the_text_and_none_is_too_long() {
        let every: String = (0..0x300).chain(0x1f600..0x1f680).filter_map(char::from_u32).collect();
        for text in ["", "a", "é😀\"\\\n\u{0}\u{1f}\u{7f}\u{2028}", &every, &every.repeat(3)] {
            for limit in (0..64).chain([100, 1000, 10_000]) {
                let mut rest = text;
                let next_chunk = |length| {
                    let (chunk, behind) = rest.split_at(length);
                    rest = behind;
                    chunk
                };
                let chunks: Vec<&str> = cut(text, limit).into_iter().map(next_chunk).collect();
                assert_eq!(chunks.concat(), text);
                for chunk in &chunks {
                    let length = json(chunk).unwrap().len();
                    assert!(length <= limit.max(LEAST_CHUNK), "{length} bytes where {limit} fit");
                }
                for pair in chunks.windows(2) {
                    let next = pair[1].chars().next().unwrap();
                    let more = json(&format!("{}{next}", pair[0])).unwrap().len();
                    assert!(more > limit, "a chunk has room left");
                }
            }
        }
    }

    #[test]
    fn a_cost_is_what_the_encoder_writes() {
        for character in (0..0x11_0000).filter_map(char::from_u32) {
            assert_eq!(json(&character).unwrap().len(), escaped(character) + 2, "{character:?}");
        }
    }

    #[test]
    fn every_byte_has_a_character() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(to_bytes(&to_text(&all)), Some(all));
        assert_eq!(to_text("é".as_bytes()), "é");
        assert_eq!(to_bytes("漢"), None);
    }

    #[test]
    fn ids_of_chunks_are_told_from_others() {
        let manifest = manifest_id(&nonce(7, 8));
        assert_eq!(nonce_of(&manifest), Some("0000000000000007-8"));
        assert_eq!(nonce_of(&manifest.number(0)), None);
        assert!(is_reserved(&manifest) && is_reserved(&manifest.number(3)) && is_reserved(&RecordId::of("part")));
        for other in ["", "parts", "par", "part-1", "x/part/1"] {
            assert!(!is_reserved(&RecordId::of(other)) && nonce_of(&RecordId::of(other)).is_none());
        }
    }

    #[test]
    fn orders_follow_time_first() {
        assert!(order(1, u64::MAX) < order(2, 0));
        assert!(order(1, 0) < order(1, 1));
    }
}

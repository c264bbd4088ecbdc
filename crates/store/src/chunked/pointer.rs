//! The content of a record whose body is stored in chunks.

use crate::{Error, Key, Result};
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// No pointer is longer than this.
pub(super) const POINTER_BYTES: usize = 160;

/// The property that marks a pointer, as stored.
const FIELD: &str = "$parts";

/// Where the body is, and how to know that it is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pointer {
    pub(super) nonce: String,
    pub(super) count: usize,
    pub(super) bytes: usize,
    pub(super) hash: String,
    /// The chunks hold a character for each byte, because the body is not UTF-8.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) binary: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    #[serde(rename = "$parts")]
    chunks: Pointer,
}

impl Pointer {
    pub(super) fn encode(self) -> Result<Bytes> {
        super::chunks::json(&Envelope { chunks: self })
    }

    /// The pointer in a body; `None` if the body is what the caller wrote.
    pub(super) fn decode(key: &Key, body: &[u8]) -> Result<Option<Self>> {
        if !may_be_pointer(body) {
            return Ok(None);
        }
        let why = match serde_json::from_slice::<Envelope>(body) {
            Ok(envelope) => return Ok(Some(envelope.chunks)),
            Err(why) => why,
        };
        // A caller's object with more properties, of which the database has put this one first.
        let properties = serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(body);
        match properties {
            Ok(properties) if properties.len() > 1 => Ok(None),
            _ => Err(Error::Corrupt(format!(
                "the record {key} does not say where its body is: {why}"
            ))),
        }
    }
}

pub(super) fn hash(body: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(body))
}

/// Whether a body may be a pointer, or may look like one once a database has rewritten it: escapes resolved, spaces
/// dropped, a duplicate property kept once. A pointer has no other property, so the order does not matter. Reads a few
/// bytes, whatever the length.
pub(super) fn may_be_pointer(body: &[u8]) -> bool {
    let first_key = || {
        let object = body.trim_ascii_start().strip_prefix(b"{")?;
        let key = object.trim_ascii_start();
        if !key.starts_with(b"\"$") && !key.starts_with(b"\"\\") {
            return None;
        }
        let key = serde_json::Deserializer::from_slice(key).into_iter::<String>().next()?;
        key.ok()
    };
    first_key().is_some_and(|key| key == FIELD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Partition, RecordId};

    fn key() -> Key {
        Key::new(Partition::new("p"), RecordId::of("a"))
    }

    #[test]
    fn a_pointer_comes_back_and_is_short() {
        let pointer = Pointer {
            nonce: super::super::chunks::nonce(u64::MAX, u64::MAX),
            count: u32::MAX as usize,
            bytes: u32::MAX as usize,
            hash: hash(b""),
            binary: true,
        };
        let body = pointer.clone().encode().unwrap();
        assert!(body.len() <= POINTER_BYTES, "{} bytes", body.len());
        assert_eq!(Pointer::decode(&key(), &body), Ok(Some(pointer)));
    }

    #[test]
    fn an_object_with_more_properties_is_no_pointer_in_any_order() {
        for body in [r#"{"$parts":1,"a":2}"#, r#"{"a":2,"$parts":1}"#] {
            assert_eq!(Pointer::decode(&key(), body.as_bytes()), Ok(None));
        }
    }

    #[test]
    fn whatever_could_be_taken_for_a_pointer_is_recognised() {
        for body in [
            r#"{"$parts":{}}"#,
            " {\n\"$parts\" : 1 }",
            r#"{"$parts":1,"$parts":2}"#,
            r#"{"\u0024parts":1}"#,
        ] {
            assert!(may_be_pointer(body.as_bytes()), "{body}");
            assert!(matches!(
                Pointer::decode(&key(), body.as_bytes()),
                Err(Error::Corrupt(_))
            ));
        }
        for body in [
            "",
            "{}",
            "{\"",
            r#""$parts""#,
            r#"{"parts":1}"#,
            r#"{"$part":1}"#,
            r#"{"a":{"$parts":1}}"#,
            r#"[{"$parts":1}]"#,
            r#"{"$parts"#,
            r#"{"\uZZ":1}"#,
        ] {
            assert!(!may_be_pointer(body.as_bytes()), "{body}");
            assert_eq!(Pointer::decode(&key(), body.as_bytes()), Ok(None));
        }
    }
}

//! The body of a record as part of a document.
//!
//! JSON objects and arrays are nested, so that they can be read in the portal, unless the service would change them: it
//! stores numbers as doubles and keeps each property of an object once. Everything else is a string, or base64 where
//! that is shorter.

use azure_core::base64;
use bytes::Bytes;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;

/// The largest integer up to which a double holds every integer exactly.
pub(crate) const MAX_SAFE: u64 = (1 << 53) - 1;

/// The service takes 128 levels; the document and the batch around the body are some of them.
const MAX_DEPTH: usize = 100;

/// The bytes of a record in the form that a document holds.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    /// As JSON.
    Nested(&'a RawValue),
    /// As a string.
    Text(&'a str),
    /// As base64 in a string.
    Base64(String),
}

impl<'a> Body<'a> {
    /// Chooses the form. None is longer than four thirds of the bytes and a little.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self::Base64(base64::encode(bytes));
        };
        if let Ok(raw) = serde_json::from_str::<&RawValue>(text)
            && raw.get().starts_with(['{', '['])
            && is_kept(raw.get())
        {
            return Self::Nested(raw);
        }
        // No longer than base64 would be: a quarter of the characters may be escaped.
        let escaped = text.bytes().map(escaped_len).sum::<usize>();
        match escaped <= text.len() + text.len() / 3 {
            true => Self::Text(text),
            false => Self::Base64(base64::encode(bytes)),
        }
    }
}

/// The bytes of a record from its document; `None` unless it holds exactly one form.
pub(crate) fn read(nested: Option<Box<RawValue>>, text: Option<String>, encoded: Option<String>) -> Option<Bytes> {
    match (nested, text, encoded) {
        (Some(nested), None, None) => Some(Bytes::from(String::from(Box::<str>::from(nested)))),
        (None, Some(text), None) => Some(Bytes::from(text)),
        (None, None, Some(encoded)) => base64::decode(encoded).ok().map(Bytes::from),
        _ => None,
    }
}

fn escaped_len(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | 0x08..=0x0a | 0x0c..=0x0d => 2,
        ..0x20 => 6,
        _ => 1,
    }
}

/// Whether the service returns the same JSON value.
fn is_kept(json: &str) -> bool {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    deserializer.deserialize_any(Kept { depth: 0 }).is_ok()
}

/// Visits a value and fails at whatever would come back changed.
#[derive(Clone, Copy)]
struct Kept {
    depth: usize,
}

impl Kept {
    fn below<E: Error>(self) -> Result<Self, E> {
        match self.depth < MAX_DEPTH {
            true => Ok(Self { depth: self.depth + 1 }),
            false => Err(E::custom("too deep")),
        }
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for Kept {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Kept {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON that Cosmos DB keeps as it is")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<(), E> {
        match n <= MAX_SAFE {
            true => Ok(()),
            false => Err(E::custom("more than a double holds exactly")),
        }
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<(), E> {
        self.visit_u64(n.unsigned_abs())
    }

    /// A whole number that is written as a fraction would come back as an integer.
    fn visit_f64<E: Error>(self, n: f64) -> Result<(), E> {
        match n.fract() == 0.0 {
            true => Err(E::custom("a whole number written as a fraction")),
            false => Ok(()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let below = self.below()?;
        while items.next_element_seed(below)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let below = self.below()?;
        let mut seen = HashSet::new();
        while let Some(name) = entries.next_key::<String>()? {
            if !seen.insert(name) {
                return Err(A::Error::custom("a property twice"));
            }
            entries.next_value_seed(below)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(bytes: &[u8]) -> &'static str {
        match Body::of(bytes) {
            Body::Nested(_) => "nested",
            Body::Text(_) => "text",
            Body::Base64(_) => "base64",
        }
    }

    #[test]
    fn json_is_nested_where_the_service_keeps_it() {
        for json in [
            "{}",
            "[]",
            r#"{"b":1,"a":[null,true,"x",-5,0.25,1.5e-3]}"#,
            r#"{"n":9007199254740991,"m":-9007199254740991}"#,
            r#" { "a" : 1 } "#,
        ] {
            assert_eq!(form(json.as_bytes()), "nested", "{json}");
        }
    }

    #[test]
    fn json_that_would_change_is_text() {
        for json in [
            r#"{"n":9007199254740992}"#,
            r#"{"n":18446744073709551615}"#,
            r#"{"n":123456789012345678901234567890}"#,
            r#"{"n":1.0}"#,
            r#"{"n":1e20}"#,
            r#"{"n":-0.0}"#,
            r#"{"a":1,"a":2}"#,
            "1",
            "null",
            r#""text""#,
            "",
            "not json",
            r#"{"a":1"#,
        ] {
            assert_eq!(form(json.as_bytes()), "text", "{json}");
        }
        let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
        assert_eq!(form(deep.as_bytes()), "text");
    }

    #[test]
    fn bytes_that_are_no_text_or_would_grow_are_base64() {
        assert_eq!(form(&[0xff, 0xfe]), "base64");
        assert_eq!(form(&[0; 100]), "base64");
        assert_eq!(form("\"".repeat(100).as_bytes()), "base64");
    }

    #[test]
    fn no_form_is_longer_than_the_limits_count_on() {
        for bytes in [
            &b"x".repeat(999)[..],
            &[0; 999],
            &"\"a\\b ".repeat(200).into_bytes(),
            &[0xff; 999],
        ] {
            let length = match Body::of(bytes) {
                Body::Nested(raw) => raw.get().len(),
                Body::Text(text) => serde_json::to_string(text).unwrap().len(),
                Body::Base64(text) => text.len() + 2,
            };
            assert!(length <= bytes.len() * 4 / 3 + 8, "{length} of {}", bytes.len());
        }
    }

    #[test]
    fn every_form_is_read_back() {
        let raw = RawValue::from_string("{}".to_owned()).unwrap();
        assert_eq!(read(Some(raw.clone()), None, None).unwrap(), "{}");
        assert_eq!(read(None, Some("a".into()), None).unwrap(), "a");
        assert_eq!(read(None, None, Some("//4=".into())).unwrap(), &[0xff, 0xfe][..]);
        assert_eq!(read(None, None, Some("?".into())), None);
        assert_eq!(read(None, None, None), None);
        assert_eq!(read(Some(raw), Some("a".into()), None), None);
    }
}

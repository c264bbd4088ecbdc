//! Records as bytes.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | the format, 1 |
//! | 8 | the version, little-endian |
//! | varint | length of the attributes |
//! | … | attributes: tag (1 byte), length (varint), bytes; unknown tags below 128 are skipped, others are refused |
//! | rest | the body |

use bytes::{Buf, BufMut, Bytes, BytesMut};
use perennial_store::{Draft, Key, Lane, Listing, Order, Place, Record, Version};
use std::borrow::Cow;

const FORMAT: u8 = 1;
const VERSION_AT: std::ops::Range<usize> = 1..9;

const LANE: u8 = 1;
const TOPIC: u8 = 2;
const ORDER: u8 = 3;
const DUE: u8 = 4;
const KIND: u8 = 16;
const STATUS: u8 = 17;
const NAME: u8 = 18;
const PARENT: u8 = 19;
const CREATED: u8 = 20;
const COMPLETED: u8 = 21;
/// Tags from here on change the meaning of a record: a reader that does not know one must refuse the record.
const MUST_KNOW: u8 = 128;

/// A decoded value of a record.
pub(crate) struct Stored {
    pub(crate) version: u64,
    pub(crate) place: Option<Place>,
    pub(crate) listing: Option<Listing>,
    pub(crate) body: Bytes,
}

impl Stored {
    pub(crate) fn into_record(self, key: Key) -> Record {
        Record {
            key,
            version: Version::number(self.version),
            body: self.body,
            place: self.place,
            listing: self.listing,
        }
    }
}

/// The value of a record, its version still to be [set](set_version).
pub(crate) fn encode(draft: &Draft) -> BytesMut {
    let mut attributes = match (&draft.place, &draft.listing) {
        (None, None) => BytesMut::new(),
        // Enough for names of the usual length, so that it need not grow step by step.
        _ => BytesMut::with_capacity(192),
    };
    if let Some(place) = &draft.place {
        put_text(&mut attributes, LANE, &place.lane.name);
        if let Some(topic) = &place.lane.topic {
            put_text(&mut attributes, TOPIC, topic);
        }
        put_number(&mut attributes, ORDER, place.order.0);
        put_number(&mut attributes, DUE, place.due_ms);
    }
    if let Some(listing) = &draft.listing {
        put_text(&mut attributes, KIND, &listing.kind);
        put_text(&mut attributes, STATUS, &listing.status);
        put_text(&mut attributes, NAME, &listing.name);
        if let Some(parent) = &listing.parent {
            put_text(&mut attributes, PARENT, parent);
        }
        put_number(&mut attributes, CREATED, listing.created_ms);
        if let Some(at) = listing.completed_ms {
            put_number(&mut attributes, COMPLETED, at);
        }
    }
    let mut out = BytesMut::with_capacity(16 + attributes.len() + draft.body.len());
    out.put_u8(FORMAT);
    out.put_u64_le(0);
    put_varint(&mut out, attributes.len() as u64);
    out.put_slice(&attributes);
    out.put_slice(&draft.body);
    out
}

/// Writes the version into an encoded value.
pub(crate) fn set_version(value: &mut BytesMut, version: u64) {
    if let Some(place) = value.get_mut(VERSION_AT) {
        place.copy_from_slice(&version.to_le_bytes());
    }
}

/// The version of a value, without decoding the rest.
pub(crate) fn version(value: &[u8]) -> Option<u64> {
    if value.first() != Some(&FORMAT) {
        return None;
    }
    Some(u64::from_le_bytes(value.get(VERSION_AT)?.try_into().ok()?))
}

/// Decodes a value, or says why it cannot.
pub(crate) fn decode(mut value: Bytes) -> Result<Stored, String> {
    let version = version(&value).ok_or_else(|| match value.first() {
        Some(&format) if format != FORMAT => format!("it has format {format}, this program reads format {FORMAT}"),
        _ => "it is cut short".to_owned(),
    })?;
    value.advance(VERSION_AT.end);
    let length = usize::try_from(take_varint(&mut value)?).map_err(|_| "a length is too large")?;
    if length > value.len() {
        return Err("it is cut short".to_owned());
    }
    let mut fields = Fields::default();
    let mut attributes = value.split_to(length);
    while attributes.has_remaining() {
        let tag = attributes.get_u8();
        let length = usize::try_from(take_varint(&mut attributes)?).map_err(|_| "a length is too large")?;
        if length > attributes.len() {
            return Err("an attribute is cut short".to_owned());
        }
        fields.take(tag, &attributes.split_to(length))?;
    }
    Ok(Stored {
        version,
        place: fields.place(),
        listing: fields.listing(),
        body: value,
    })
}

#[derive(Default)]
struct Fields {
    lane: Option<String>,
    topic: Option<String>,
    order: u64,
    due_ms: u64,
    kind: Option<String>,
    status: String,
    name: String,
    parent: Option<String>,
    created_ms: u64,
    completed_ms: Option<u64>,
}

impl Fields {
    fn take(&mut self, tag: u8, bytes: &[u8]) -> Result<(), String> {
        match tag {
            LANE => self.lane = Some(text(bytes)?),
            TOPIC => self.topic = Some(text(bytes)?),
            ORDER => self.order = number(bytes)?,
            DUE => self.due_ms = number(bytes)?,
            KIND => self.kind = Some(text(bytes)?),
            STATUS => self.status = text(bytes)?,
            NAME => self.name = text(bytes)?,
            PARENT => self.parent = Some(text(bytes)?),
            CREATED => self.created_ms = number(bytes)?,
            COMPLETED => self.completed_ms = Some(number(bytes)?),
            MUST_KNOW.. => return Err(format!("it has attribute {tag}, which a newer program wrote")),
            _ => {}
        }
        Ok(())
    }

    fn place(&mut self) -> Option<Place> {
        Some(Place {
            lane: Lane {
                name: Cow::Owned(self.lane.take()?),
                topic: self.topic.take().map(Into::into),
            },
            order: Order(self.order),
            due_ms: self.due_ms,
        })
    }

    fn listing(self) -> Option<Listing> {
        Some(Listing {
            kind: Cow::Owned(self.kind?),
            status: Cow::Owned(self.status),
            name: self.name,
            parent: self.parent,
            created_ms: self.created_ms,
            completed_ms: self.completed_ms,
        })
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "an attribute is not text".to_owned())
}

fn number(bytes: &[u8]) -> Result<u64, String> {
    let bytes = bytes.try_into().map_err(|_| "a number has a wrong length")?;
    Ok(u64::from_le_bytes(bytes))
}

fn put_text(out: &mut BytesMut, tag: u8, text: &str) {
    out.put_u8(tag);
    put_varint(out, text.len() as u64);
    out.put_slice(text.as_bytes());
}

fn put_number(out: &mut BytesMut, tag: u8, number: u64) {
    out.put_u8(tag);
    put_varint(out, 8);
    out.put_u64_le(number);
}

pub(crate) fn put_varint(out: &mut BytesMut, mut n: u64) {
    while n >= 0x80 {
        out.put_u8((n & 0x7F) as u8 | 0x80);
        n >>= 7;
    }
    out.put_u8(n as u8);
}

pub(crate) fn take_varint(bytes: &mut Bytes) -> Result<u64, String> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        if !bytes.has_remaining() {
            return Err("a length is cut short".to_owned());
        }
        let byte = bytes.get_u8();
        n |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(n);
        }
    }
    Err("a length is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perennial_store::{Partition, RecordId};

    fn full() -> Draft {
        let key = Key::new(Partition::new("p"), RecordId::of("r"));
        Draft::new(key, vec![7; 300])
            .placed(Place {
                lane: Lane::topic("work", Some("gpu".into())),
                order: Order(u64::MAX),
                due_ms: 12,
            })
            .listed(Listing {
                kind: "instance".into(),
                status: "done".into(),
                name: "ship".repeat(100),
                parent: Some("p\0q".into()),
                created_ms: 1,
                completed_ms: Some(2),
            })
    }

    #[test]
    fn what_is_written_is_read() {
        let bare = Draft::new(full().key, "");
        for draft in [full(), bare] {
            let mut value = encode(&draft);
            set_version(&mut value, 99);
            let record = decode(value.freeze()).unwrap().into_record(draft.key.clone());
            assert_eq!(record.version, Version::number(99));
            assert_eq!(
                (record.place, record.listing, record.body),
                (draft.place, draft.listing, draft.body)
            );
        }
    }

    #[test]
    fn every_cut_is_noticed_until_only_the_body_is_missing() {
        let draft = full();
        let value = encode(&draft).freeze();
        for length in 0..value.len() - draft.body.len() {
            assert!(decode(value.slice(..length)).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn an_unknown_attribute_is_skipped_unless_it_must_be_known() {
        let with = |tag: u8| {
            let mut value = BytesMut::from(&[FORMAT, 5, 0, 0, 0, 0, 0, 0, 0, 3, tag, 1, 0][..]);
            value.put_slice(b"body");
            decode(value.freeze())
        };
        assert_eq!(with(90).unwrap().body, "body");
        assert!(with(200).is_err());
    }
}

//! Records, and the attributes by which they are queued and listed.

use crate::Key;
use crate::stamp::without_mark;
use bytes::Bytes;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Identifies one write of a record. It changes with every write and is never reused, not even when the record is
/// deleted and created again. Opaque: only equality means anything.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Number(u64),
    Text(Arc<str>),
}

impl Version {
    /// The version of a store that numbers its writes.
    pub fn number(n: u64) -> Self {
        Self(Repr::Number(n))
    }

    /// The version of a store that hands out tags.
    pub fn text(tag: impl Into<Arc<str>>) -> Self {
        Self(Repr::Text(tag.into()))
    }

    /// The number, if this store numbers its writes.
    pub fn as_number(&self) -> Option<u64> {
        match &self.0 {
            Repr::Number(n) => Some(*n),
            Repr::Text(_) => None,
        }
    }

    /// Whether this is the version of an earlier write than the other. Only stores that number their writes can say.
    pub fn is_older_than(&self, other: &Self) -> bool {
        matches!((&self.0, &other.0), (Repr::Number(one), Repr::Number(other)) if one < other)
    }

    /// The tag, if this store hands out tags.
    pub fn as_text(&self) -> Option<&str> {
        match &self.0 {
            Repr::Number(_) => None,
            Repr::Text(tag) => Some(tag),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(n) => write!(f, "v{n:x}"),
            Repr::Text(tag) => write!(f, "v{tag}"),
        }
    }
}

/// The position of arrival in a lane: smaller arrived earlier. Assigned by the engine, unique enough that ties may be
/// broken either way, and kept when a record is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Order(pub u64);

/// A queue, and the topic inside it by which a reader may select.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// The queue, chosen by the engine.
    pub name: Cow<'static, str>,
    /// The topic inside it; `None` is the default topic.
    pub topic: Option<Arc<str>>,
}

impl Lane {
    /// The default topic of a queue.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            topic: None,
        }
    }

    /// A topic of a queue.
    pub fn topic(name: &'static str, topic: Option<Arc<str>>) -> Self {
        Self {
            name: Cow::Borrowed(name),
            topic,
        }
    }
}

/// Where a record stands in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The queue and topic.
    pub lane: Lane,
    /// The position of arrival.
    pub order: Order,
    /// When it becomes ready, in milliseconds since the Unix epoch; 0 is at once.
    pub due_ms: u64,
}

/// Attributes by which a record is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The kind of record, chosen by the engine.
    pub kind: Cow<'static, str>,
    /// Its status.
    pub status: Cow<'static, str>,
    /// A name that many records may share.
    pub name: String,
    /// The partition that this one belongs to, if any.
    pub parent: Option<String>,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// When it ended, if it has.
    pub completed_ms: Option<u64>,
}

/// A record to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Its key.
    pub key: Key,
    /// The body: JSON, so that document databases can show it. JSON may come back as other bytes of the same value:
    /// spaces gone, properties in another order. Everything else comes back byte for byte.
    pub body: Bytes,
    /// Its place in a queue, if it is queued.
    pub place: Option<Place>,
    /// Its attributes, if it is listed.
    pub listing: Option<Listing>,
}

impl Draft {
    /// A record that is neither queued nor listed.
    pub fn new(key: Key, body: impl Into<Bytes>) -> Self {
        Self {
            key,
            body: body.into(),
            place: None,
            listing: None,
        }
    }

    /// The same record, queued.
    #[must_use]
    pub fn placed(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// The same record, listed.
    #[must_use]
    pub fn listed(mut self, listing: Listing) -> Self {
        self.listing = Some(listing);
        self
    }

    /// Whether `record` is this draft as this commit wrote it, not overwritten since.
    pub fn is_stored_as(&self, record: &Record) -> bool {
        is_same(&record.body, &self.body) && record.place == self.place
    }

    /// Whether `record` has the same content, whichever commit wrote it.
    pub fn is_stored_alike(&self, record: &Record) -> bool {
        let (found, wanted) = (without_mark(&record.body), without_mark(&self.body));
        let found = found.as_deref().unwrap_or(&record.body);
        is_same(found, wanted.as_deref().unwrap_or(&self.body)) && record.place == self.place
    }
}

/// Whether two bodies are equal: stores may return other bytes of the same JSON.
fn is_same(found: &[u8], written: &[u8]) -> bool {
    let json = |bytes| serde_json::from_slice::<serde_json::Value>(bytes);
    found == written || matches!((json(found), json(written)), (Ok(found), Ok(written)) if found == written)
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: Key,
    /// The version of this write.
    pub version: Version,
    /// The body. If it is JSON, it is the value that was written, perhaps in other bytes.
    pub body: Bytes,
    /// Its place in a queue, if it is queued.
    pub place: Option<Place>,
    /// Its attributes, if it is listed.
    pub listing: Option<Listing>,
}

/// A running total that commits add to, so that a count never needs a scan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Counter(pub Cow<'static, str>);

impl Counter {
    /// Names a total.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_compared_as_json_where_they_are_json() {
        assert!(is_same(br#"{"a":1,"b":[2]}"#, br#" {"b": [2], "a": 1}"#));
        assert!(!is_same(br#"{"a":1}"#, br#"{"a":2}"#));
        assert!(is_same(b"a b", b"a b") && !is_same(b"a b", b"ab"));
        assert!(!is_same(b"{}", b"no json"));
    }

    #[test]
    fn a_record_is_alike_whichever_commit_wrote_it() {
        let key = Key::new(crate::Partition::new("p"), crate::RecordId::of("a"));
        let draft = Draft::new(key.clone(), r#"{"a":1,"$commit":"x-1"}"#);
        let record = |body: &'static str| Record {
            key: key.clone(),
            version: Version::number(1),
            body: Bytes::from(body),
            place: None,
            listing: None,
        };
        let others = record(r#"{"$commit":"y-1","a":1}"#);
        assert!(draft.is_stored_alike(&others) && !draft.is_stored_as(&others));
        assert!(!draft.is_stored_alike(&record(r#"{"a":2,"$commit":"x-1"}"#)));
        assert!(draft.is_stored_as(&record(r#"{"$commit":"x-1","a":1}"#)));
    }
}

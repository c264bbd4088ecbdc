//! The document of a record: one JSON object, readable in the portal.
//!
//! | property | what |
//! |---|---|
//! | `id`, `partition` | the key, see [`names`]; in full in `idText`, `partitionText` where it was cut |
//! | `commit` | which commit wrote it, to recognise a commit whose reply was lost |
//! | `before` | which commits had written what that one replaced, see [`previous_commits`](crate::previous_commits) |
//! | `body`, `text` or `base64` | the bytes, see [`body`](crate::body) |
//! | `lane`, `topic`, `arrival`, `due`, `slot` | its place in a queue, if it is queued |
//! | `kind`, `status`, `name`, `parent`, `created`, `completed` | its attributes, if it is listed |
//! | `exact` | times that a double does not hold |

use crate::body::{self, Body, MAX_SAFE};
use crate::names;
use perennial_store::{
    Draft, Error, Key, Lane, Listing, Order, Partition, Place, Record, RecordId, Result, Slot, Version,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The columns of a query that needs everything but the bodies.
pub(crate) const WITHOUT_BODY: &str = "c.id, c.partition, c.idText, c.partitionText, c._etag, c.commit, c.before, \
     c.lane, c.topic, c.arrival, c.due, c.kind, c.status, c.name, c.parent, c.created, c.completed, c.exact";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    id: &'a str,
    partition: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_text: Option<&'a str>,
    commit: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    before: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(flatten)]
    attributes: Attributes,
}

#[derive(Serialize, Deserialize, Default)]
struct Attributes {
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrival: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<Exact>,
}

/// Times beyond the integers that a double holds, as text. The numbers beside them are the largest it holds.
#[derive(Serialize, Deserialize, Default)]
struct Exact {
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    id: String,
    partition: String,
    id_text: Option<String>,
    partition_text: Option<String>,
    #[serde(rename = "_etag")]
    etag: String,
    commit: Option<String>,
    #[serde(default)]
    before: Vec<String>,
    body: Option<Box<RawValue>>,
    text: Option<String>,
    base64: Option<String>,
    lane: Option<String>,
    topic: Option<String>,
    arrival: Option<String>,
    due: Option<f64>,
    kind: Option<String>,
    status: Option<String>,
    name: Option<String>,
    parent: Option<String>,
    created: Option<f64>,
    completed: Option<f64>,
    exact: Option<Exact>,
}

/// A time as a number that the service stores exactly.
pub(crate) fn safe(time_ms: u64) -> u64 {
    time_ms.min(MAX_SAFE)
}

/// An arrival as text that sorts as the number does.
pub(crate) fn order_text(order: Order) -> String {
    format!("{:016x}", order.0)
}

/// The document of a draft, as JSON, written by `commit` over those of `before`.
pub(crate) fn write(draft: &Draft, commit: &str, before: &[String]) -> Result<Box<RawValue>> {
    let (id, partition) = (
        names::id(draft.key.id.as_str()),
        names::partition(draft.key.partition.as_str()),
    );
    let mut written = Written {
        id: &id.encoded,
        partition: &partition.encoded,
        id_text: id.is_cut.then_some(draft.key.id.as_str()),
        partition_text: partition.is_cut.then_some(draft.key.partition.as_str()),
        commit,
        before,
        body: None,
        text: None,
        base64: None,
        attributes: attributes(draft),
    };
    match Body::of(&draft.body) {
        Body::Nested(raw) => written.body = Some(raw),
        Body::Text(text) => written.text = Some(text),
        Body::Base64(text) => written.base64 = Some(text),
    }
    serde_json::value::to_raw_value(&written)
        .map_err(|error| Error::Invalid(format!("the record {} cannot be written as JSON: {error}", draft.key)))
}

fn attributes(draft: &Draft) -> Attributes {
    let mut attributes = Attributes::default();
    let mut exact = Exact::default();
    let beyond = |time_ms: u64| (time_ms > MAX_SAFE).then(|| time_ms.to_string());
    if let Some(place) = &draft.place {
        attributes.lane = Some(place.lane.name.clone().into_owned());
        attributes.topic = place.lane.topic.as_deref().map(str::to_owned);
        attributes.arrival = Some(order_text(place.order));
        attributes.due = Some(safe(place.due_ms));
        attributes.slot = Some(Slot::of(&draft.key.partition).0);
        exact.due = beyond(place.due_ms);
    }
    if let Some(listing) = &draft.listing {
        attributes.kind = Some(listing.kind.clone().into_owned());
        attributes.status = Some(listing.status.clone().into_owned());
        attributes.name = Some(listing.name.clone());
        attributes.parent = listing.parent.clone();
        attributes.created = Some(safe(listing.created_ms));
        attributes.completed = listing.completed_ms.map(safe);
        exact.created = beyond(listing.created_ms);
        exact.completed = listing.completed_ms.and_then(beyond);
    }
    let is_needed = exact.due.is_some() || exact.created.is_some() || exact.completed.is_some();
    attributes.exact = is_needed.then_some(exact);
    attributes
}

/// A document that is created and deleted in one batch, to verify that there was none.
pub(crate) fn probe(key: &Key, commit: &str) -> Result<Box<RawValue>> {
    write(&Draft::new(key.clone(), "{}"), commit, &[])
}

/// A record that was read, and the commits that wrote it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) record: Record,
    /// The commit that wrote it.
    pub(crate) commit: Option<String>,
    /// The commits that had written what that one replaced, latest first.
    pub(crate) before: Vec<String>,
}

/// The record of a document. `with_body` says whether the document was read whole.
pub(crate) fn read(json: &RawValue, with_body: bool) -> Result<Found> {
    let read: Read = serde_json::from_str(json.get())
        .map_err(|error| Error::Corrupt(format!("a document cannot be read: {error}")))?;
    let damaged = |what: &str| {
        Error::Corrupt(format!(
            "the document {:?} in {:?} has no valid {what}",
            read.id, read.partition
        ))
    };
    let id = read.id_text.clone().or_else(|| names::parse_id(&read.id));
    let partition = read
        .partition_text
        .clone()
        .or_else(|| names::parse_partition(&read.partition));
    let key = Key::new(
        Partition::new(partition.ok_or_else(|| damaged("partition"))?),
        RecordId::from_raw(id.ok_or_else(|| damaged("id"))?),
    );
    let place = match &read.lane {
        Some(lane) => Some(read_place(&read, lane).ok_or_else(|| damaged("place in a queue"))?),
        None => None,
    };
    let listing = match &read.kind {
        Some(kind) => Some(read_listing(&read, kind).ok_or_else(|| damaged("attributes"))?),
        None => None,
    };
    let version = Version::text(read.etag.as_str());
    let missing = damaged("body");
    let body = match with_body {
        true => body::read(read.body, read.text, read.base64).ok_or(missing)?,
        false => bytes::Bytes::new(),
    };
    Ok(Found {
        record: Record {
            key,
            version,
            body,
            place,
            listing,
        },
        commit: read.commit,
        before: read.before,
    })
}

fn read_place(read: &Read, lane: &str) -> Option<Place> {
    Some(Place {
        lane: Lane {
            name: lane.to_owned().into(),
            topic: read.topic.as_deref().map(Into::into),
        },
        order: Order(u64::from_str_radix(read.arrival.as_deref()?, 16).ok()?),
        due_ms: time(read.due, read.exact.as_ref().and_then(|exact| exact.due.as_deref()))?,
    })
}

fn read_listing(read: &Read, kind: &str) -> Option<Listing> {
    let exact = read.exact.as_ref();
    Some(Listing {
        kind: kind.to_owned().into(),
        status: read.status.clone()?.into(),
        name: read.name.clone()?,
        parent: read.parent.clone(),
        created_ms: time(read.created, exact.and_then(|exact| exact.created.as_deref()))?,
        completed_ms: match read.completed {
            None => None,
            completed => Some(time(completed, exact.and_then(|exact| exact.completed.as_deref()))?),
        },
    })
}

/// The service may return any number as a fraction.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)]
fn time(number: Option<f64>, exact: Option<&str>) -> Option<u64> {
    let number = number?;
    match exact {
        Some(exact) => exact.parse().ok(),
        None => (number >= 0.0 && number.fract() == 0.0 && number <= MAX_SAFE as f64).then_some(number as u64),
    }
}

#[cfg(test)]
mod tests;

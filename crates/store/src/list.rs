//! Queries for records by their attributes.

use crate::{Key, Listing, Record, Version};
use std::borrow::Cow;

/// Where a page of a listing ended. Opaque: only the store that made it reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// Which records to list. Fields that are `None` do not filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// The kind of the records.
    pub kind: Cow<'static, str>,
    /// Their status.
    pub status: Option<Cow<'static, str>>,
    /// Their name.
    pub name: Option<String>,
    /// The partition that they belong to.
    pub parent: Option<String>,
    /// Only records that ended strictly before this time.
    pub completed_before_ms: Option<u64>,
}

impl ListFilter {
    /// All records of a kind.
    pub fn kind(kind: &'static str) -> Self {
        Self {
            kind: Cow::Borrowed(kind),
            ..Self::default()
        }
    }

    /// Whether a record with these attributes matches.
    pub fn matches(&self, listing: &Listing) -> bool {
        self.kind == listing.kind
            && self.status.as_ref().is_none_or(|status| *status == listing.status)
            && self.name.as_ref().is_none_or(|name| *name == listing.name)
            && self
                .parent
                .as_ref()
                .is_none_or(|parent| Some(parent) == listing.parent.as_ref())
            && self
                .completed_before_ms
                .is_none_or(|before| listing.completed_ms.is_some_and(|at| at < before))
    }
}

/// A listed record, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: Key,
    /// The version that was listed.
    pub version: Version,
    /// Its attributes.
    pub listing: Listing,
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The records, in an order that the store chooses and keeps.
    pub entries: Vec<Listed>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// A page of a listing, with bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// The records, in an order that the store chooses and keeps.
    pub records: Vec<Record>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

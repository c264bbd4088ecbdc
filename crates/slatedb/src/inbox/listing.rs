//! What a listing of the inbox shows.

use super::envelope::Position;
use super::names::{self, Incarnation};
use super::requests::{Failure, Requests};
use object_store::path::Path;
use std::collections::BTreeMap;

/// Numbers that are remembered of each incarnation: those that were applied are deleted by them. What is beyond is found by the
/// next listing.
const NUMBERS: usize = 1024;
/// Objects that are remembered although they have no name of a message.
const OTHERS: usize = 128;

/// The messages of one incarnation that are known to exist, or have existed. They have no gaps, so the highest tells them all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) highest: u64,
    /// The first of those that were listed.
    pub(crate) numbers: Vec<u64>,
    /// The size of the largest one, in bytes.
    pub(crate) largest: u64,
}

impl Known {
    /// All messages up to this one.
    pub(crate) fn up_to(number: u64) -> Self {
        Self {
            highest: number,
            ..Self::default()
        }
    }

    fn add(&mut self, number: u64, size: u64) {
        self.highest = self.highest.max(number);
        self.largest = self.largest.max(size);
        if self.numbers.len() < NUMBERS {
            self.numbers.push(number);
        }
    }

    /// Adds what another look showed.
    pub(crate) fn merge(&mut self, other: Self) {
        self.highest = self.highest.max(other.highest);
        self.largest = self.largest.max(other.largest);
        if !other.numbers.is_empty() {
            self.numbers = other.numbers;
        }
    }
}

/// A listing of the inbox.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) messages: BTreeMap<Incarnation, Known>,
    /// Objects that have no name of a message.
    pub(crate) others: Vec<Path>,
}

impl Listing {
    pub(crate) async fn read(requests: &Requests, inbox: &Path) -> Result<Self, Failure> {
        let mut listing = Self::default();
        requests
            .list(inbox, |object| match names::parse(inbox, &object.location) {
                Some((incarnation, number)) => {
                    let known = listing.messages.entry(incarnation).or_default();
                    known.add(number, object.size);
                }
                None if listing.others.len() < OTHERS => listing.others.push(object.location),
                None => {}
            })
            .await?;
        for known in listing.messages.values_mut() {
            known.numbers.sort_unstable();
        }
        Ok(listing)
    }

    /// Adds a message that is known to exist, even if the listing lacks it.
    pub(crate) fn hint(&mut self, (incarnation, number): Position) {
        self.messages
            .entry(incarnation)
            .or_default()
            .merge(Known::up_to(number));
    }
}

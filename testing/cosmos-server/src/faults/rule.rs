//! Which requests a fault meets.

use super::Fault;
use crate::{Container, Kind};

/// Which of the requests that a rule applies to it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// All of them.
    Always,
    /// The i-th document request, counted from 0 since the last [`Faults::reset`](super::Faults::reset): among those
    /// of the rule's container if it has one, else among all.
    ///
    /// The count does not depend on the rule's kinds, so that a sweep over i meets every request once.
    At(u64),
    /// So many of a million, by chance.
    Chance {
        /// How many of a million.
        per_million: u32,
        /// Decides which.
        seed: u64,
    },
}

/// A fault, and the requests that it meets.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) fault: Fault,
    pub(super) when: When,
    pub(super) kinds: Vec<Kind>,
    pub(super) container: Option<Container>,
    pub(super) times: Option<u64>,
}

impl Rule {
    /// A fault that meets every document request for which `when` holds.
    pub fn new(fault: Fault, when: When) -> Self {
        Self {
            fault,
            when,
            kinds: Kind::DOCUMENTS.to_vec(),
            container: None,
            times: None,
        }
    }

    /// A fault of the i-th document request.
    pub fn at(index: u64, fault: Fault) -> Self {
        Self::new(fault, When::At(index))
    }

    /// Only requests of these kinds. This is also the way to metadata requests, which no rule meets otherwise.
    pub fn on(mut self, kinds: impl IntoIterator<Item = Kind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Only requests of this container, so that tests can share a server.
    pub fn within(mut self, container: Container) -> Self {
        self.container = Some(container);
        self
    }

    /// No more than so many times.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

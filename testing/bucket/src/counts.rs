//! How many requests were made.

use crate::Method;
use std::collections::BTreeMap;

/// How many requests were made, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Method, u64>);

impl Counts {
    /// Requests of one kind.
    pub fn of(&self, method: Method) -> u64 {
        self.0.get(&method).copied().unwrap_or_default()
    }

    /// Requests that are charged as writes, see [`Method::is_write`].
    pub fn writes(&self) -> u64 {
        self.sum(Method::is_write)
    }

    /// Requests that are charged as reads, see [`Method::is_read`].
    pub fn reads(&self) -> u64 {
        self.sum(Method::is_read)
    }

    /// All requests.
    pub fn total(&self) -> u64 {
        self.sum(|_| true)
    }

    /// What was added since an earlier count of the same client.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added = |(method, count): (&Method, &u64)| (*method, count.saturating_sub(earlier.of(*method)));
        Self(self.0.iter().map(added).filter(|(_, count)| *count > 0).collect())
    }

    pub(crate) fn add(&mut self, method: Method) {
        *self.0.entry(method).or_default() += 1;
    }

    fn sum(&self, is_counted: impl Fn(Method) -> bool) -> u64 {
        let counted = self.0.iter().filter(|(method, _)| is_counted(**method));
        counted.map(|(_, count)| count).sum()
    }
}

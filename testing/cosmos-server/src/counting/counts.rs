//! Requests, counted.

use crate::Kind;
use std::collections::BTreeMap;
use std::fmt;

/// Requests, counted since the server started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// All of them.
    pub total: u64,
    /// By kind.
    pub by_kind: BTreeMap<Kind, u64>,
    /// By the status of the reply; 0 stands for no reply.
    pub by_status: BTreeMap<u16, u64>,
    /// Their estimated price, in request units.
    pub ru: f64,
}

impl Counts {
    /// Requests of one kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.by_kind.get(&kind).copied().unwrap_or_default()
    }

    /// Requests that got this status.
    pub fn answered(&self, status: u16) -> u64 {
        self.by_status.get(&status).copied().unwrap_or_default()
    }

    /// Requests about documents.
    pub fn documents(&self) -> u64 {
        self.total - self.of(Kind::Metadata)
    }

    /// The difference from an earlier count of the same server.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            total: self.total.saturating_sub(earlier.total),
            by_kind: difference(&self.by_kind, &earlier.by_kind),
            by_status: difference(&self.by_status, &earlier.by_status),
            ru: self.ru - earlier.ru,
        }
    }

    pub(super) fn add(&mut self, kind: Kind, status: u16, ru: f64) {
        self.total += 1;
        *self.by_kind.entry(kind).or_default() += 1;
        *self.by_status.entry(status).or_default() += 1;
        self.ru += ru;
    }
}

fn difference<K: Ord + Copy>(now: &BTreeMap<K, u64>, earlier: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    now.iter()
        .map(|(key, count)| {
            (
                *key,
                count.saturating_sub(earlier.get(key).copied().unwrap_or_default()),
            )
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests, {:.1} RU", self.total, self.ru)?;
        for (kind, count) in &self.by_kind {
            write!(f, ", {count} {kind}")?;
        }
        for (status, count) in self.by_status.iter().filter(|(status, _)| **status >= 400) {
            write!(f, ", {count} answered {status}")?;
        }
        match self.answered(0) {
            0 => Ok(()),
            lost => write!(f, ", {lost} not answered"),
        }
    }
}

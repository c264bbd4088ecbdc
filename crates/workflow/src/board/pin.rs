//! Which runtime versions may run an instance.

use duroxide::providers::{DispatcherCapabilityFilter, SemverRange};

/// The runtime version that an instance is bound to, as far as it is known. Instances are queued by it,
/// so that incompatible ones are stepped over together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pin {
    /// Not known, or not bound: any dispatcher may try.
    Open,
    /// Bound to this version.
    At(semver::Version),
}

impl Pin {
    /// The pin of an instance whose execution has this version.
    pub fn of(pinned: Option<&semver::Version>) -> Self {
        pinned.map_or(Self::Open, |version| Self::At(version.clone()))
    }
}

/// The versions that a dispatcher can run. The runtime's contract is that only the first range counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// Everything.
    Any,
    /// Nothing.
    Nothing,
    /// One range.
    Range(SemverRange),
}

impl Window {
    /// The window of a dispatcher's filter.
    pub fn of(filter: Option<&DispatcherCapabilityFilter>) -> Self {
        match filter {
            None => Self::Any,
            Some(filter) => filter
                .supported_duroxide_versions
                .first()
                .cloned()
                .map_or(Self::Nothing, Self::Range),
        }
    }

    /// Whether an instance with this pin may be run.
    pub fn admits(&self, pin: &Pin) -> bool {
        match (self, pin) {
            (Self::Nothing, _) => false,
            (Self::Any, _) | (Self::Range(_), Pin::Open) => true,
            (Self::Range(range), Pin::At(version)) => range.contains(version),
        }
    }
}

//! Counted requests: by what they do, and by what they are for.

mod store;

pub(crate) use store::MeteredStore;

use object_store::path::Path;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a request does. Object stores charge by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Writes an object, or a part of one.
    Put,
    /// Reads an object, or a part of one.
    Get,
    /// Reads the attributes of an object.
    Head,
    /// Lists objects, up to a thousand.
    List,
    /// Deletes an object.
    Delete,
    /// Copies an object.
    Copy,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 6] = [Self::Put, Self::Get, Self::Head, Self::List, Self::Delete, Self::Copy];

    /// The operation as metrics name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Copy => "copy",
        }
    }
}

/// What a request is for, by the name of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The log: one object for each durable group of commits.
    Log,
    /// Which objects make up the database.
    Manifest,
    /// The tables of the database.
    Tables,
    /// The state of merges of tables.
    Compactions,
    /// The marks of garbage collection.
    Garbage,
    /// The lease of the owner.
    Lease,
    /// The object that changes when a client has left a message.
    Bell,
    /// The messages of clients.
    Inbox,
    /// The description of the store, and the proof of its object store.
    Description,
    /// Anything else.
    Other,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 10] = [
        Self::Log,
        Self::Manifest,
        Self::Tables,
        Self::Compactions,
        Self::Garbage,
        Self::Lease,
        Self::Bell,
        Self::Inbox,
        Self::Description,
        Self::Other,
    ];

    /// The class as metrics name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "wal",
            Self::Manifest => "manifest",
            Self::Tables => "compacted",
            Self::Compactions => "compactions",
            Self::Garbage => "gc",
            Self::Lease => "lease",
            Self::Bell => "bell",
            Self::Inbox => "inbox",
            Self::Description => "description",
            Self::Other => "other",
        }
    }

    /// The class of an object, or of a listing, of a store under a prefix.
    fn of(prefix: &Path, location: &Path) -> Self {
        let Some(mut parts) = location.prefix_match(prefix) else {
            return Self::Other;
        };
        // The shard comes first, except for what belongs to all of them.
        let (first, second, third) = (parts.next(), parts.next(), parts.next());
        let name = |part: Option<object_store::path::PathPart<'_>>| part.map(|part| part.as_ref().to_owned());
        match (name(first), name(second).as_deref(), name(third).as_deref()) {
            (_, None, _) => Self::Description,
            (_, Some("lease"), _) => Self::Lease,
            (_, Some("bell"), _) => Self::Bell,
            (_, Some("inbox"), _) => Self::Inbox,
            (_, Some("db"), Some("wal")) => Self::Log,
            (_, Some("db"), Some("manifest")) => Self::Manifest,
            (_, Some("db"), Some("compacted")) => Self::Tables,
            (_, Some("db"), Some("compactions")) => Self::Compactions,
            (_, Some("db"), Some("gc")) => Self::Garbage,
            _ => Self::Other,
        }
    }
}

const KINDS: usize = Operation::ALL.len() * Class::ALL.len();

fn index(operation: Operation, class: Class) -> usize {
    operation as usize * Class::ALL.len() + class as usize
}

/// The requests that were made through a bucket. Clones count together.
#[derive(Clone, Debug)]
pub struct Requests(Arc<[AtomicU64; KINDS]>);

impl Default for Requests {
    fn default() -> Self {
        Self(Arc::new(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl Requests {
    fn add(&self, operation: Operation, class: Class) {
        if let Some(count) = self.0.get(index(operation, class)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let (operation, class) = (operation.name(), class.name());
        metrics::counter!("perennial_object_requests_total", "operation" => operation, "class" => class).increment(1);
    }

    /// How many there were until now.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (to, from) in counts.0.iter_mut().zip(self.0.iter()) {
            *to = from.load(Ordering::Relaxed);
        }
        counts
    }
}

/// Numbers of requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Counts([u64; KINDS]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; KINDS])
    }
}

impl Counts {
    /// The requests of a kind.
    pub fn of(&self, operation: Operation, class: Class) -> u64 {
        self.0.get(index(operation, class)).copied().unwrap_or_default()
    }

    /// The requests that do this, whatever for.
    pub fn operation(&self, operation: Operation) -> u64 {
        Class::ALL.iter().map(|class| self.of(operation, *class)).sum()
    }

    /// All requests.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The requests that were made after an earlier count.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut counts = *self;
        for (now, before) in counts.0.iter_mut().zip(earlier.0) {
            *now = now.saturating_sub(before);
        }
        counts
    }

    /// Every kind of which there were any.
    pub fn kinds(&self) -> impl Iterator<Item = (Operation, Class, u64)> + '_ {
        let kinds = Operation::ALL
            .into_iter()
            .flat_map(|operation| Class::ALL.map(|class| (operation, class)));
        kinds
            .map(|(operation, class)| (operation, class, self.of(operation, class)))
            .filter(|(_, _, count)| *count > 0)
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds().map(|(operation, class, count)| {
            let kind = format!("{} {}", operation.name(), class.name());
            (kind, count)
        });
        f.debug_map().entries(kinds).finish()
    }
}

#[cfg(test)]
mod tests;

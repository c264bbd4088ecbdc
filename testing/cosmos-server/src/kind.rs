//! The kinds of requests.

use std::fmt;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Create one document.
    Create,
    /// Read one document.
    Read,
    /// Replace one document.
    Replace,
    /// Create or replace one document.
    Upsert,
    /// Delete one document.
    Delete,
    /// Change fields of one document.
    Patch,
    /// A transactional batch.
    Batch,
    /// One page of a query.
    Query,
    /// The plan of a query, for clients that merge partitions themselves.
    QueryPlan,
    /// One page of all documents.
    Feed,
    /// One page of the change feed.
    ChangeFeed,
    /// Anything about the account, databases, containers, partition key ranges and offers.
    Metadata,
}

impl Kind {
    /// Every kind of request to documents.
    pub const DOCUMENTS: [Self; 11] = [
        Self::Create,
        Self::Read,
        Self::Replace,
        Self::Upsert,
        Self::Delete,
        Self::Patch,
        Self::Batch,
        Self::Query,
        Self::QueryPlan,
        Self::Feed,
        Self::ChangeFeed,
    ];

    /// Whether it is about documents, not about what holds them.
    pub fn is_document(self) -> bool {
        self != Self::Metadata
    }

    /// Whether it names one partition, and must say which.
    pub fn is_partitioned(self) -> bool {
        use Kind::{Batch, Create, Delete, Patch, Read, Replace, Upsert};
        matches!(self, Create | Read | Replace | Upsert | Delete | Patch | Batch)
    }

    /// Whether its result is a page.
    pub fn is_paged(self) -> bool {
        matches!(self, Self::Query | Self::Feed | Self::ChangeFeed)
    }

    /// Whether any replica may serve it.
    pub fn is_read(self) -> bool {
        self == Self::Read || self.is_paged()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Replace => "replace",
            Self::Upsert => "upsert",
            Self::Delete => "delete",
            Self::Patch => "patch",
            Self::Batch => "batch",
            Self::Query => "query",
            Self::QueryPlan => "queryplan",
            Self::Feed => "feed",
            Self::ChangeFeed => "changefeed",
            Self::Metadata => "metadata",
        };
        f.pad(name)
    }
}

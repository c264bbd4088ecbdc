//! How the two modes commit and read.

use super::Mode;
use crate::engine::Engine;
use crate::instance::{Snapshot, Trust};
use crate::read::Freshness;
use crate::records::head::Head;
use crate::shared;
use perennial_store::{Commit, Key, Result, Version};
use std::sync::Arc;

impl Mode {
    /// Makes a commit recognisable, so that its outcome can be found out if the reply is lost.
    pub fn stamp(&self, commit: &mut Commit) {
        if let Self::Shared(shared) = self {
            shared.stamps.mark(commit);
        }
    }

    /// When a cached snapshot counts as the newest without a request.
    pub fn trust(&self, now_ms: u64) -> Trust {
        match self {
            Self::Exclusive => Trust::Always,
            Self::Shared(_) => Trust::At(now_ms),
        }
    }

    /// The cached snapshot of an instance, if it is as new as it must be.
    pub fn cached(&self, engine: &Engine, instance: &str, freshness: Freshness) -> Option<Arc<Snapshot>> {
        match (self, freshness) {
            (Self::Exclusive, _) | (Self::Shared(_), Freshness::Recent) => engine.cache.get(instance, engine.trust()),
            (Self::Shared(_), Freshness::Latest) => None,
        }
    }

    /// The cached snapshot of an instance, if a read of its head has just confirmed that it is the newest.
    pub fn confirmed(&self, engine: &Engine, instance: &Arc<str>, head: Option<&Version>) -> Option<Arc<Snapshot>> {
        match self {
            Self::Exclusive => None,
            Self::Shared(_) => shared::confirmed(engine, instance, head),
        }
    }

    /// Whether a snapshot that took several reads is of one moment.
    pub async fn is_consistent(&self, engine: &Engine, instance: &str, snapshot: &Snapshot) -> Result<bool> {
        match self {
            Self::Exclusive => Ok(true),
            Self::Shared(_) => shared::is_consistent(engine, instance, snapshot).await,
        }
    }

    /// Whether the ack of this commit returns once it is ordered. Beside others, a commit is not known to succeed before its
    /// reply; a turn that needs an outbox or several commits has work to do after the first of them.
    pub fn orders(&self, engine: &Engine, commit: &Commit) -> bool {
        let limits = engine.store.limits();
        matches!(self, Self::Exclusive) && limits.partitions_per_commit > 1 && commit.ops.len() <= limits.ops_per_commit
    }

    /// From here on, reads of an instance show everything that any process had stored before this call. For operations that
    /// remove what they find: what an old read misses would stay.
    pub async fn catch_up(&self, engine: &Engine, instance: &str) -> Result<()> {
        match self {
            Self::Exclusive => {
                engine.outstanding.of(instance).await;
                Ok(())
            }
            Self::Shared(_) => shared::is_surely_absent(engine, Head::key(instance)).await.map(|_| ()),
        }
    }

    /// Whether a record that a read did not find is surely absent. If not, it is there, and every later read finds it.
    pub async fn is_surely_absent(&self, engine: &Engine, key: Key) -> Result<bool> {
        match self {
            Self::Exclusive => Ok(true),
            Self::Shared(_) => shared::is_surely_absent(engine, key).await,
        }
    }
}

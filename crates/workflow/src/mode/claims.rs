//! How the two modes renew and release claims and sessions.

use super::Mode;
use crate::board::ClaimId;
use crate::engine::Engine;
use crate::exclusive;
use crate::shared;
use crate::turn;
use crate::work;
use duroxide::providers::ProviderError;
use perennial_store::Result;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

impl Mode {
    /// Waits until no other task writes what other processes see of a claim; `None` if there is no such claim.
    pub async fn enter(&self, engine: &Engine, id: ClaimId) -> Option<Option<OwnedMutexGuard<()>>> {
        match self {
            Self::Exclusive => Some(None),
            Self::Shared(_) => engine.enter(id).await.map(Some),
        }
    }

    /// Extends the lease on a turn in the store. Returns the time that it counts from, 0 where only memory counts.
    pub async fn renew_turn(&self, engine: &Arc<Engine>, token: &str, extend: Duration) -> Result<u64, ProviderError> {
        match self {
            Self::Exclusive => Ok(0),
            Self::Shared(shared) => shared::turn::renew(engine, shared, token, extend).await,
        }
    }

    /// Extends the lease on an activity in the store. Returns the time that it counts from, 0 where only memory counts.
    pub async fn renew_work(&self, engine: &Arc<Engine>, token: &str, extend: Duration) -> Result<u64, ProviderError> {
        match self {
            Self::Exclusive => Ok(0),
            Self::Shared(shared) => shared::work::renew(engine, shared, token, extend).await,
        }
    }

    /// Gives a turn back.
    pub async fn abandon_turn(&self, engine: &Arc<Engine>, abandoned: turn::Abandoned) -> Result<(), ProviderError> {
        match self {
            Self::Exclusive => abandoned.put_back(engine),
            Self::Shared(_) => shared::turn::abandon(engine, abandoned).await,
        }
    }

    /// Gives an activity back.
    pub async fn abandon_work(&self, engine: &Arc<Engine>, abandoned: work::Abandoned) -> Result<(), ProviderError> {
        match self {
            Self::Exclusive => abandoned.put_back(engine),
            Self::Shared(shared) => shared::work::abandon(engine, shared, abandoned).await,
        }
    }

    /// Extends the sessions of these workers that were used within `idle`; returns how many.
    pub async fn renew_sessions(
        &self,
        engine: &Engine,
        owners: &[&str],
        extend: Duration,
        idle: Duration,
    ) -> Result<usize> {
        match self {
            Self::Exclusive => Ok(exclusive::work::renew_sessions(engine, owners, extend, idle)),
            Self::Shared(shared) => shared::work::renew_sessions(engine, shared, owners, extend, idle).await,
        }
    }

    /// Forgets sessions that no worker holds and nothing waits for; returns how many.
    pub async fn clean_up_sessions(&self, engine: &Engine) -> Result<usize> {
        match self {
            Self::Exclusive => Ok(exclusive::work::clean_up_sessions(engine)),
            Self::Shared(shared) => shared::work::clean_up_sessions(engine, shared).await,
        }
    }
}

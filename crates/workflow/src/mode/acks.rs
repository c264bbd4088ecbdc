//! How the two modes acknowledge turns and activities.

use super::Mode;
use crate::board::{ClaimId, Handed};
use crate::engine::Engine;
use crate::records::head::{Head, Lease};
use crate::shared;
use crate::turn::Turn;
use crate::work;
use crate::{exclusive, outbox};
use duroxide::providers::{ProviderError, WorkItem};
use perennial_store::{Key, Op, Order, Result};
use std::sync::Arc;

impl Mode {
    /// Ends an activity and sends its result.
    pub async fn finish_work(
        &self,
        engine: &Arc<Engine>,
        done: work::Done,
        result: Option<(outbox::Outgoing, Op)>,
    ) -> Result<(), ProviderError> {
        match self {
            Self::Exclusive => exclusive::work::finish(engine, done, result).await,
            Self::Shared(shared) => shared::work::finish(engine, shared, done, result).await,
        }
    }

    /// The lease that a turn leaves in the head if `more` is to be done: the next turn then needs no claim.
    pub fn next_lease(&self, now_ms: u64, more: impl FnOnce() -> bool) -> Option<Lease> {
        match self {
            Self::Exclusive => None,
            Self::Shared(shared) => more().then(|| shared.lease(now_ms, shared.turn_lock())),
        }
    }

    /// The records of activities that a turn cancels, if the board does not know all of them.
    pub async fn find_cancelled(&self, engine: &Engine, turn: &Turn) -> Result<Option<Vec<(Order, Key)>>> {
        match self {
            Self::Exclusive => Ok(None),
            Self::Shared(_) => shared::turn::find_cancelled(engine, turn).await.map(Some),
        }
    }

    /// For each activity that a turn schedules, until when its commit claims it for a worker here; 0 if it does not.
    pub fn claim_ahead(&self, engine: &Engine, items: &[WorkItem], now_ms: u64) -> Vec<u64> {
        match self {
            Self::Exclusive => vec![0; items.len()],
            Self::Shared(shared) => shared::work::claim_ahead(engine, shared, items, now_ms),
        }
    }

    /// Notes in the head which messages a turn has consumed, if a sender may store them again.
    pub fn note_consumed(&self, head: &mut Head, handed: &[Handed], now_ms: u64) {
        if let Self::Shared(_) = self {
            shared::turn::note_consumed(head, handed, now_ms);
        }
    }

    /// A turn has scheduled activities: some were claimed `ahead`, some `left` to whichever process takes them.
    pub fn scheduled(&self, engine: &Arc<Engine>, ahead: bool, left: bool) {
        if let Self::Shared(shared) = self {
            shared::work::scheduled(engine, shared, ahead, left);
        }
    }

    /// The commit of a turn has failed, `overtaken` if it met another version of the head than it was built on.
    pub fn turn_failed(&self, engine: &Engine, id: ClaimId, instance: &Arc<str>, overtaken: bool) {
        match self {
            Self::Shared(_) if overtaken => shared::turn::lose(engine, id, instance),
            _ => {
                let (mut board, now_ms) = engine.board.lock();
                board.end_commit(id, now_ms);
            }
        }
    }
}

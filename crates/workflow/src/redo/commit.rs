//! The first commit of a turn, which is all of it if it fits.

use super::Rest;
use crate::engine::Engine;
use crate::records::head::{Head, Pending};
use crate::records::redo::Redo;
use crate::tuning::REDO_TAKE_OVER_MS;
use perennial_store::{Commit, Committed, Op, Result};
use tracing::warn;

/// The outcome of a turn that is durable.
pub enum Outcome {
    /// Everything is stored.
    Done(Committed),
    /// The store failed after the first commit: the rest is still to be rolled forward.
    Pending(Box<Rest>),
}

/// Commits a turn: `commit` is all that it changes, and its first operation writes `head`.
pub async fn commit(engine: &Engine, head: &Head, commit: Commit) -> Result<Outcome> {
    let limit = engine.store.limits().ops_per_commit;
    if commit.ops.len() <= limit {
        return engine.commit(commit).await.map(Outcome::Done);
    }
    let (first, mut rest) = stage(engine, head, commit, limit)?;
    let _turn = engine.rolling.enter(rest.partition()).await;
    let committed = engine.commit(first).await?;
    engine.meters.staged.increment(1);
    rest.began(committed);
    match rest.roll(engine).await {
        Ok(()) => Ok(Outcome::Done(rest.committed())),
        Err(error) => {
            warn!(partition = %rest.partition(), %error, "a turn is durable and could not be rolled forward yet");
            Ok(Outcome::Pending(Box::new(rest)))
        }
    }
}

/// Separates what fits into the first commit from the rest.
fn stage(engine: &Engine, head: &Head, mut commit: Commit, limit: usize) -> Result<(Commit, Rest)> {
    // The last place is for the record of the rest.
    let rest = commit.ops.split_off(limit - 1);
    let pending = Pending {
        turn: head.turns,
        done: 0,
        total: rest.len() as u64,
        order: engine.next_order().0,
        due_ms: engine.clock.now_ms() + REDO_TAKE_OVER_MS,
    };
    let head = Head {
        pending: Some(pending),
        ..head.clone()
    };
    let partition = match commit.ops.first_mut() {
        Some(Op::Create(draft) | Op::Put(draft) | Op::Replace(draft, _)) => {
            *draft = head.draft(draft.key.clone())?;
            draft.key.partition.clone()
        }
        _ => {
            return Err(perennial_store::Error::Invalid(
                "a turn must write its head first".to_string(),
            ));
        }
    };
    let redo = Redo::new(&rest)?.draft(Redo::key(&partition, head.turns))?;
    commit.ops.push(Op::Create(redo));
    Ok((commit, Rest::staged(&partition, head, rest)))
}

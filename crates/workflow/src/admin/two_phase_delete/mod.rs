//! Deleting what one commit cannot: several instances, or one with many records.
//!
//! 1. Every head is marked with the *deletion*, if it is still at its version. From then on the instance has no turns.
//! 2. The preconditions are checked once more, under the marks; if one does not hold, the marks are removed.
//! 3. The head of the first instance, the *coordinator*, is marked as *decided*: that one commit is the deletion.
//! 4. Everything is removed, the heads last, the coordinator's last of all.
//!
//! A process that dies in between leaves marks in the lane `chores`. Undecided marks are removed, the coordinator's first,
//! so that the deletion can no longer be decided; decided deletions are carried out.

mod mark;
mod remove;

use crate::engine::Engine;
use crate::records::head::{Deletion, Head};
use crate::records::{decode, instance_of};
use crate::tuning::DELETION_TAKE_OVER_MS;
use mark::{Fate, head_of, unmark, unmark_all};
use perennial_store::{Commit, Error, Op, Record, Result, Store, Version};
use remove::carry_out;
use std::sync::Arc;
use tracing::warn;

pub use remove::evict;

/// The outcome of a deletion.
pub enum Verdict {
    /// Everything is gone, or will be.
    Deleted,
    /// Something came in between: nothing has changed.
    Overtaken,
}

/// Deletes instances, all or none, if their heads are still at these versions and `allowed` holds once none of them can
/// change any more.
pub async fn delete<Refusal>(
    engine: &Arc<Engine>,
    targets: &[(String, Head, Version)],
    allowed: impl Future<Output = Result<(), Refusal>>,
    failed: impl Fn(Error) -> Refusal,
) -> Result<Verdict, Refusal> {
    let Some((coordinator, _, version)) = targets.first() else {
        return Ok(Verdict::Deleted);
    };
    let order = engine.next_order().0;
    let mark = Deletion {
        // Only one commit can replace that version, so this name is unique.
        by: format!("{order:x}-{version:?}"),
        coordinator: coordinator.clone(),
        members: Vec::new(),
        decided: false,
        order,
        due_ms: engine.clock.now_ms() + DELETION_TAKE_OVER_MS,
    };
    let mut members: Vec<String> = targets.iter().map(|(id, ..)| id.clone()).collect();
    // If anything fails from here on, housekeeping finishes or cancels the deletion.
    let failed = |error: Error| {
        engine.housekeeper.call(engine);
        failed(error)
    };
    let marked = mark::mark_all(engine, targets, &mark).await.map_err(&failed)?;
    let Some((mut head, version)) = marked else {
        unmark_all(engine, &members, &mark.by).await.map_err(&failed)?;
        return Ok(Verdict::Overtaken);
    };
    if let Err(refusal) = allowed.await {
        unmark_all(engine, &members, &mark.by).await.map_err(&failed)?;
        return Err(refusal);
    }
    members.retain(|member| member != coordinator);
    head.deletion = Some(Deletion {
        decided: true,
        members: members.clone(),
        ..mark.clone()
    });
    if !mark::replace(engine, coordinator, &head, version)
        .await
        .map_err(&failed)?
    {
        members.insert(0, coordinator.clone());
        unmark_all(engine, &members, &mark.by).await.map_err(&failed)?;
        return Ok(Verdict::Overtaken);
    }
    if let Err(error) = carry_out(engine, coordinator, &mark.by).await {
        engine.housekeeper.call(engine);
        warn!(%coordinator, %error, "instances are deleted, and what is left of them is removed later");
    }
    Ok(Verdict::Deleted)
}

/// Whether the deletion that a head is marked with is decided.
pub async fn is_decided(store: &dyn Store, instance: &str, mark: &Deletion) -> Result<bool> {
    if mark.coordinator == instance {
        return Ok(mark.decided);
    }
    let coordinator = head_of(store, &mark.coordinator).await?;
    let its_mark = coordinator.and_then(|(head, _)| head.deletion);
    Ok(its_mark.is_some_and(|its| its.by == mark.by && its.decided))
}

/// Finishes or cancels the deletion of a head that has been marked for too long.
pub async fn chore(engine: &Arc<Engine>, record: Record) -> Result<()> {
    let instance = instance_of(&record.key.partition);
    let Some(mark) = decode::<Head>(&record)?.deletion else {
        return Ok(());
    };
    if is_decided(&*engine.store, instance, &mark).await? {
        return carry_out(engine, &mark.coordinator, &mark.by).await;
    }
    if mark.coordinator != instance && cancel(engine, &mark).await? == Fate::Decided {
        return carry_out(engine, &mark.coordinator, &mark.by).await;
    }
    unmark(engine, instance, &mark.by).await?;
    Ok(())
}

/// Makes sure that an undecided deletion can no longer be decided.
async fn cancel(engine: &Engine, mark: &Deletion) -> Result<Fate> {
    let head = Head::key(&mark.coordinator);
    match engine.commit(Commit::new(vec![Op::Absent(head)])).await {
        // The coordinator is removed last of all: the deletion is complete, or was cancelled.
        Ok(_) => Ok(Fate::Open),
        // Every later read is at least as new as this conflict: an older one would cancel what is decided.
        Err(Error::Conflict { .. }) => unmark(engine, &mark.coordinator, &mark.by).await,
        Err(other) => Err(other),
    }
}

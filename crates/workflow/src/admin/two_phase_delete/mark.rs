//! Marks on heads.

use crate::engine::Engine;
use crate::queued::written;
use crate::records::decode;
use crate::records::head::{Deletion, Head};
use crate::send::slot_of;
use perennial_store::{Commit, Committed, Error, Op, Result, Store, Version};

/// The head of an instance as it is stored.
pub async fn head_of(store: &dyn Store, instance: &str) -> Result<Option<(Head, Version)>> {
    let Some(record) = store.get(&Head::key(instance)).await? else {
        return Ok(None);
    };
    Ok(Some((decode(&record)?, record.version)))
}

/// Writes a head; `None` if it is no longer at this version.
async fn write(engine: &Engine, instance: &str, head: &Head, version: Version) -> Result<Option<Committed>> {
    let replace = Op::Replace(head.draft(Head::key(instance))?, version);
    let outcome = engine.commit(Commit::new(vec![replace])).await;
    engine.cache.forget(instance, slot_of(instance));
    match outcome {
        Ok(committed) => Ok(Some(committed)),
        Err(Error::Conflict { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Writes a head, if it is still at this version; returns whether it was. What it wrote counts even if another process has
/// overwritten it since: a decision stays one.
pub async fn replace(engine: &Engine, instance: &str, head: &Head, version: Version) -> Result<bool> {
    Ok(write(engine, instance, head, version).await?.is_some())
}

/// Marks all heads. Returns the first one as written, or `None` if one of them is no longer at its version.
pub async fn mark_all(
    engine: &Engine,
    targets: &[(String, Head, Version)],
    mark: &Deletion,
) -> Result<Option<(Head, Version)>> {
    let mut first = None;
    for (instance, head, version) in targets {
        let mut head = head.clone();
        head.deletion = Some(Deletion {
            order: engine.next_order().0,
            ..mark.clone()
        });
        let marked = write(engine, instance, &head, version.clone()).await?;
        match marked.and_then(|committed| written(&committed, 0)) {
            Some(version) => first.get_or_insert((head, version)),
            None => return Ok(None),
        };
    }
    Ok(first)
}

/// The state of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It must be carried out.
    Decided,
    /// It is not decided, and the mark is removed.
    Open,
}

/// Removes a mark, if it is there and the deletion is not decided.
pub async fn unmark(engine: &Engine, instance: &str, by: &str) -> Result<Fate> {
    loop {
        let Some((mut head, version)) = head_of(&*engine.store, instance).await? else {
            return Ok(Fate::Open);
        };
        match head.deletion.as_ref().filter(|mark| mark.by == by) {
            None => return Ok(Fate::Open),
            Some(mark) if mark.decided => return Ok(Fate::Decided),
            Some(_) => head.deletion = None,
        }
        if replace(engine, instance, &head, version).await? {
            return Ok(Fate::Open);
        }
    }
}

/// Removes all marks, in order.
pub async fn unmark_all(engine: &Engine, instances: &[String], by: &str) -> Result<()> {
    for instance in instances {
        unmark(engine, instance, by).await?;
    }
    Ok(())
}

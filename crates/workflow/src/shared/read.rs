//! Reading what other processes may change meanwhile.

use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::records::head::Head;
use perennial_store::{Commit, Error, Key, Op, Result, Version};
use std::sync::Arc;

/// The cached snapshot of an instance, if its head was just read at the same version.
pub fn confirmed(engine: &Engine, instance: &Arc<str>, head: Option<&Version>) -> Option<Arc<Snapshot>> {
    let known = engine.cache.peek(instance)?;
    if known.head.as_ref().map(|(_, version)| version) != head {
        return None;
    }
    let involved = engine.board.lock().0.is_involved(instance);
    engine.cache.confirm(instance, engine.clock.now_ms(), involved);
    Some(known)
}

/// Whether no process changed an instance while it was read: its head and the rest of it would not belong together.
pub async fn is_consistent(engine: &Engine, instance: &str, snapshot: &Snapshot) -> Result<bool> {
    let Some((_, version)) = &snapshot.head else {
        return Ok(true);
    };
    if snapshot.is_of_one_moment() {
        return Ok(true);
    }
    let now = engine.store.get(&Head::key(instance)).await?;
    Ok(now.is_some_and(|now| now.version == *version))
}

/// Whether a record that a read did not find is absent: the read may be older than the record. What is read after `false` is
/// at least as new as the commit that says so.
pub async fn is_surely_absent(engine: &Engine, key: Key) -> Result<bool> {
    match engine.commit(Commit::new(vec![Op::Absent(key)])).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

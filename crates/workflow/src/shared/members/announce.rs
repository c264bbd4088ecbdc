//! Announcing this process, meeting others, leaving.

use crate::engine::Engine;
use crate::records::decode;
use crate::records::member::{Member, Serves};
use crate::shared::Shared;
use crate::tuning::ANNOUNCE_EVERY_MS;
use perennial_store::{Commit, Error, Op, Record, Result};
use std::sync::Arc;
use tracing::debug;

/// Announces this process, if it is time to; returns whether it was.
pub async fn announce(engine: &Engine, shared: &Shared) -> Result<bool> {
    let now_ms = engine.clock.now_ms();
    let serves = {
        let state = shared.members.state.lock();
        let is_said = |(serves, at_ms): &(Serves, u64)| {
            *serves == state.serves && *at_ms <= now_ms && now_ms < at_ms.saturating_add(ANNOUNCE_EVERY_MS)
        };
        if state.said.as_ref().is_some_and(is_said) {
            return Ok(false);
        }
        state.serves.clone()
    };
    let member = Member {
        process: Arc::clone(&shared.owner),
        said_ms: now_ms,
        serves: serves.clone(),
    };
    let draft = member.draft(engine.next_order())?;
    engine.commit(Commit::new(vec![Op::Put(draft)])).await?;
    shared.members.state.lock().said = Some((serves, now_ms));
    Ok(true)
}

/// Another process has announced itself; or has not for so long that it is gone, and its record is removed.
pub async fn meet(engine: &Engine, shared: &Shared, record: Record) -> Result<()> {
    let member: Member = decode(&record)?;
    if member.process == shared.owner {
        return Ok(());
    }
    let now_ms = engine.clock.now_ms();
    if shared.members.met(member, record.version.clone(), now_ms) {
        return Ok(());
    }
    debug!(key = %record.key, "a process that worked on the store is gone");
    match engine
        .commit(Commit::new(vec![Op::Delete(record.key, record.version)]))
        .await
    {
        // It lives, or another process was faster.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Removes the announcement: this process does not work on the store any more.
pub async fn leave(engine: &Engine, shared: &Shared) {
    if shared.members.state.lock().said.take().is_none() {
        return;
    }
    let gone = Op::Remove(Member::key(&shared.owner));
    if let Err(error) = engine.commit(Commit::new(vec![gone])).await {
        debug!(%error, "the announcement could not be removed: other processes will notice that this one is gone");
    }
}

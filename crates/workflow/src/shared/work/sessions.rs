//! Sessions where many processes share the store: a worker holds one by a conditional write to its record.

use crate::engine::{Engine, later, millis};
use crate::queued::written;
use crate::records::decode;
use crate::records::session::Session;
use crate::shared::Shared;
use crate::tuning::SESSION_CLAIM_TRIES;
use perennial_store::{Commit, Error, Op, Record, Result, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// The sessions whose records this process wrote last.
pub type Held = Mutex<BTreeMap<Arc<str>, (Session, Version)>>;

/// What became of the attempt to hold a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// The worker held it before.
    Held,
    /// The worker has just taken it.
    Taken,
    /// Another worker holds it.
    Refused,
}

/// Makes sure that a worker holds a session in the store; if another one does, the board learns of it.
pub async fn acquire(
    engine: &Engine,
    shared: &Shared,
    session: &Arc<str>,
    owner: &Arc<str>,
    lock_ms: u64,
) -> Result<Tenancy> {
    let mut held = shared.sessions.lock().await;
    let mut known = held.get(session).cloned();
    for _ in 0..SESSION_CLAIM_TRIES {
        let now_ms = engine.clock.now_ms();
        if let Some((there, _)) = &known {
            if there.owner == *owner && there.until_ms > now_ms.saturating_add(lock_ms / 2) {
                return Ok(Tenancy::Held);
            }
            if there.owner != *owner && there.until_ms > now_ms {
                let (mut board, now_ms) = engine.board.lock();
                board.session_is_held(session, &there.owner, there.until_ms, now_ms);
                held.remove(session);
                return Ok(Tenancy::Refused);
            }
        }
        let before = known
            .as_ref()
            .is_some_and(|(there, _)| there.owner == *owner && there.until_ms > now_ms);
        let next = Session {
            owner: Arc::clone(owner),
            until_ms: now_ms.saturating_add(lock_ms),
            process: Arc::clone(&shared.owner),
        };
        match write(engine, session, &next, known.map(|(_, version)| version)).await? {
            Some(version) => {
                held.insert(Arc::clone(session), (next, version));
                return Ok(if before { Tenancy::Held } else { Tenancy::Taken });
            }
            None => known = read(engine, session).await?,
        }
    }
    Ok(Tenancy::Refused)
}

/// Releases a session that a worker took and has no use for.
pub async fn release(engine: &Engine, shared: &Shared, session: &Arc<str>, owner: &Arc<str>) -> Result<()> {
    let mut held = shared.sessions.lock().await;
    if held.get(session).is_none_or(|(there, _)| there.owner != *owner) {
        return Ok(());
    }
    if let Some((_, version)) = held.remove(session) {
        remove(engine, session, version).await?;
        let (mut board, now_ms) = engine.board.lock();
        board.session_is_held(session, owner, 0, now_ms);
    }
    Ok(())
}

async fn write(engine: &Engine, id: &str, session: &Session, version: Option<Version>) -> Result<Option<Version>> {
    let draft = session.draft(id, engine.next_order())?;
    let op = match version {
        None => Op::Create(draft),
        Some(version) => Op::Replace(draft, version),
    };
    match engine.commit(Commit::new(vec![op])).await {
        // If another process has overwritten it since, that one holds it.
        Ok(committed) => Ok(written(&committed, 0)),
        Err(Error::Conflict { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

async fn read(engine: &Engine, session: &str) -> Result<Option<(Session, Version)>> {
    let Some(record) = engine.store.get(&Session::key(session)).await? else {
        return Ok(None);
    };
    Ok(Some((decode(&record)?, record.version)))
}

/// Extends the sessions of these workers that were used within `idle`; returns how many.
pub async fn renew(
    engine: &Engine,
    shared: &Shared,
    owners: &[&str],
    extend: Duration,
    idle: Duration,
) -> Result<usize> {
    let due = {
        let (mut board, now_ms) = engine.board.lock();
        board.sessions().used_lately(owners, millis(idle), now_ms)
    };
    let mut held = shared.sessions.lock().await;
    let mut renewed = 0;
    for id in due {
        let Some((session, version)) = held.get(&id).cloned() else {
            continue;
        };
        let now_ms = engine.clock.now_ms();
        let next = Session {
            until_ms: later(now_ms, extend),
            ..session
        };
        match write(engine, &id, &next, Some(version)).await? {
            None => drop(held.remove(&id)),
            Some(version) => {
                let (mut board, now_ms) = engine.board.lock();
                board.session_is_held(&id, &next.owner, next.until_ms, now_ms);
                held.insert(Arc::clone(&id), (next, version));
                renewed += 1;
            }
        }
    }
    Ok(renewed)
}

/// Removes the records of sessions that no worker holds and nothing waits for, as far as this process wrote them; returns
/// how many.
pub async fn clean_up(engine: &Engine, shared: &Shared) -> Result<usize> {
    let gone = {
        let (mut board, now_ms) = engine.board.lock();
        board.sessions().clean_up(now_ms)
    };
    let mut held = shared.sessions.lock().await;
    for id in &gone {
        if let Some((_, version)) = held.remove(id) {
            remove(engine, id, version).await?;
        }
    }
    Ok(gone.len())
}

async fn remove(engine: &Engine, session: &str, version: Version) -> Result<()> {
    let op = Op::Delete(Session::key(session), version);
    match engine.commit(Commit::new(vec![op])).await {
        // The process that changed it since holds it.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Removes the record of a session that ended long ago.
pub async fn forget(engine: &Engine, record: Record) -> Result<()> {
    match engine
        .commit(Commit::new(vec![Op::Delete(record.key, record.version)]))
        .await
    {
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

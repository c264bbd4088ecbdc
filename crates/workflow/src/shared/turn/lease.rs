//! Leases on turns, as other processes see them.

use super::inline_message;
use crate::board::{Body, Claim, ClaimId, Handed, Subject};
use crate::engine::{Engine, put_off};
use crate::error::{dead_token, from_store};
use crate::instance::Snapshot;
use crate::queued::written;
use crate::records::head::Head;
use crate::records::message;
use crate::send::slot_of;
use crate::shared::{Shared, renewal};
use crate::turn::{ABANDON, Abandoned, RENEW};
use duroxide::providers::ProviderError;
use perennial_store::{Commit, Committed, Error, Op, Order, Place, Result as Stored};
use std::sync::Arc;
use std::time::Duration;

/// Gives a turn back in the store, and then on the board. It does not stop half-way if the caller goes away.
pub async fn abandon(engine: &Arc<Engine>, abandoned: Abandoned) -> Result<(), ProviderError> {
    let engine = Arc::clone(engine);
    let dead = || dead_token(ABANDON);
    engine
        .spawner
        .shield(async move {
            let _gate = engine.enter(abandoned.id).await.ok_or_else(dead)?;
            let held = borrow(&engine, abandoned.id, |_| true).ok_or_else(dead)?;
            let due_ms = abandoned.delay.map(|delay| put_off(engine.clock.now_ms(), delay));
            let given = give_back(&engine, &held, due_ms, abandoned.ignore_attempt).await;
            resume_lease(&engine, abandoned.id, None);
            if !given.map_err(|e| from_store(ABANDON, &e))? {
                lose(&engine, abandoned.id, &held.instance);
                return Err(dead());
            }
            abandoned.put_back(&engine)
        })
        .await
}

/// Makes a lease on a turn last `extend` from now, in the store. Returns the time that it counts from.
pub async fn renew(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    token: &str,
    extend: Duration,
) -> Result<u64, ProviderError> {
    let shared = Arc::clone(shared);
    renewal::renew(engine, RENEW, token, move |engine, id, _| {
        let shared = Arc::clone(&shared);
        async move { extend_lease(&engine, &shared, id, extend).await }
    })
    .await
}

/// Extends the lease of a turn in the store; `false` if it is not held any more.
async fn extend_lease(engine: &Engine, shared: &Shared, id: ClaimId, by: Duration) -> Stored<bool> {
    let Some(_gate) = engine.enter(id).await else {
        return Ok(false);
    };
    let now_ms = engine.clock.now_ms();
    let Some(held) = borrow(engine, id, |claim| claim.until_ms > now_ms) else {
        return Ok(false);
    };
    let extended = extend(engine, shared, &held.instance, &held.snapshot, by).await;
    resume_lease(engine, id, extended.as_ref().ok().cloned().flatten());
    let extended = extended?.is_some();
    if !extended {
        lose(engine, id, &held.instance);
    }
    Ok(extended)
}

/// A turn that is leased to a dispatcher here.
struct Held {
    instance: Arc<str>,
    handed: Vec<Handed>,
    snapshot: Arc<Snapshot>,
}

/// The turn of a claim that passes; the claim does not run out until [`resume_lease`].
fn borrow(engine: &Engine, id: ClaimId, passes: impl Fn(&Claim) -> bool) -> Option<Held> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let claim = board.claim(id).filter(|claim| !claim.committing && passes(claim))?;
    let Subject::Turn {
        instance,
        handed,
        snapshot: Some(snapshot),
        ..
    } = claim.subject.clone()
    else {
        return None;
    };
    claim.committing = true;
    Some(Held {
        instance,
        handed,
        snapshot,
    })
}

/// The claim may run out again, and rests on a newer head if there is one.
fn resume_lease(engine: &Engine, id: ClaimId, newer: Option<Arc<Snapshot>>) {
    let (mut board, now_ms) = engine.board.lock();
    board.end_commit(id, now_ms);
    let subject = board.claim(id).map(|claim| &mut claim.subject);
    if let (Some(newer), Some(Subject::Turn { snapshot, .. })) = (newer, subject) {
        *snapshot = Some(newer);
    }
}

/// Another process has taken the instance over: what is known here is old.
pub fn lose(engine: &Engine, id: ClaimId, instance: &Arc<str>) {
    engine.cache.forget(instance, slot_of(instance));
    let (mut board, now_ms) = engine.board.lock();
    board.drop_claim(id);
    board.let_go(instance, id, now_ms);
}

/// Gives a turn back in the store; `false` if another process has taken over.
async fn give_back(engine: &Engine, held: &Held, due_ms: Option<u64>, ignore_attempt: bool) -> Stored<bool> {
    let Some((given, ops)) = GivenBack::of(engine, held, due_ms, ignore_attempt).await? else {
        return Ok(false);
    };
    let began_ms = engine.clock.now_ms();
    match engine.commit(Commit::new(ops)).await {
        Ok(committed) => {
            given.publish(engine, held, &committed, began_ms);
            Ok(true)
        }
        Err(Error::Conflict { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

/// What giving a turn back makes of its instance.
struct GivenBack {
    /// The head, without the lease; `None` if nothing is left that needs one.
    head: Option<Head>,
    /// The messages that were put off. Operation 0 is the head, each of the next is one of these.
    put_off: Vec<Order>,
}

impl GivenBack {
    /// Draws up the operations; `None` if the turn has no head, so that nothing was claimed.
    async fn of(
        engine: &Engine,
        held: &Held,
        due_ms: Option<u64>,
        ignore_attempt: bool,
    ) -> Stored<Option<(Self, Vec<Op>)>> {
        let Some((head, version)) = &held.snapshot.head else {
            return Ok(None);
        };
        let mut head = head.clone();
        head.lease = None;
        head.deliveries = head.deliveries.saturating_sub(u32::from(ignore_attempt));
        let (mut ops, mut put_off) = (Vec::new(), Vec::new());
        if let Some(due_ms) = due_ms {
            // What is put off counts for itself from now on.
            let counted = std::mem::take(&mut head.deliveries);
            for handed in &held.handed {
                let op = match inline_message::put_off(engine, &held.instance, &mut head, handed, due_ms, counted)? {
                    Some(op) => Some(op),
                    None => put_off_record(engine, &held.instance, handed, due_ms, counted).await?,
                };
                if let Some(op) = op {
                    ops.push(op);
                    put_off.push(handed.order);
                }
            }
        }
        let key = Head::key(&held.instance);
        let head = Some(head).filter(|head| !head.is_nothing());
        let first = match &head {
            None => Op::Delete(key, version.clone()),
            Some(head) => Op::Replace(head.draft(key)?, version.clone()),
        };
        ops.insert(0, first);
        Ok(Some((Self { head, put_off }, ops)))
    }

    /// Makes memory agree with the commit.
    fn publish(self, engine: &Engine, held: &Held, committed: &Committed, began_ms: u64) {
        let instance = &held.instance;
        let snapshot = match (self.head, written(committed, 0)) {
            (None, _) => Some(Snapshot::default()),
            (Some(head), version) => version.map(|version| held.snapshot.with_head(head, version)),
        };
        match snapshot {
            Some(snapshot) => engine
                .cache
                .put(instance, slot_of(instance), Arc::new(snapshot), began_ms),
            // Another process has claimed it since.
            None => engine.cache.forget(instance, slot_of(instance)),
        }
        let (mut board, _) = engine.board.lock();
        for (at, order) in self.put_off.into_iter().enumerate() {
            match written(committed, at + 1) {
                Some(version) => board.noted(instance, order, 0, version),
                None => board.forget_messages(instance, &[order]),
            }
        }
    }
}

/// Makes a message that has a record due at another time.
async fn put_off_record(
    engine: &Engine,
    instance: &Arc<str>,
    handed: &Handed,
    due_ms: u64,
    counted: u32,
) -> Stored<Option<Op>> {
    let known = {
        let (mut board, _) = engine.board.lock();
        board
            .message(instance, handed.order)
            .map(|queued| (queued.body.clone(), queued.attempts))
    };
    let (item, attempts) = match known {
        Some((Body::Held(item, _), attempts)) => (item, attempts),
        _ => match message::read(&*engine.store, instance, &handed.id).await? {
            None => return Ok(None),
            Some(envelope) => (Arc::new(envelope.item), envelope.attempts),
        },
    };
    let place = Place {
        lane: engine.lanes.turn(),
        order: handed.order,
        due_ms,
    };
    let from = handed.origin.as_ref().map(|origin| &origin.from);
    let draft = message::draft(instance, &handed.id, &item, place, attempts + counted, from)?;
    Ok(Some(Op::Replace(draft, handed.version.clone())))
}

/// Makes the lease on an instance last `lock` from now; `None` if another process has taken over.
pub async fn extend(
    engine: &Engine,
    shared: &Shared,
    instance: &Arc<str>,
    snapshot: &Snapshot,
    lock: Duration,
) -> Stored<Option<Arc<Snapshot>>> {
    let Some((head, version)) = &snapshot.head else {
        return Ok(None);
    };
    let mut head = head.clone();
    let began_ms = engine.clock.now_ms();
    head.lease_to(shared.lease(began_ms, lock));
    let op = Op::Replace(head.draft(Head::key(instance))?, version.clone());
    match engine.commit(Commit::new(vec![op])).await {
        Ok(committed) => {
            let Some(now) = written(&committed, 0) else {
                return Ok(None);
            };
            engine.board.lock().0.wrote_head(instance, Some(version), Some(&now));
            let snapshot = Arc::new(snapshot.with_head(head, now));
            engine
                .cache
                .put(instance, slot_of(instance), Arc::clone(&snapshot), began_ms);
            Ok(Some(snapshot))
        }
        Err(Error::Conflict { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Releases a claim that came to nothing. If another process has taken over, there is nothing to release.
pub async fn release(engine: &Engine, instance: &Arc<str>, snapshot: &Snapshot) -> Stored<()> {
    let Some((head, version)) = snapshot.head.clone() else {
        return Ok(());
    };
    let mut head = head;
    let key = Head::key(instance);
    head.lease = None;
    head.deliveries = head.deliveries.saturating_sub(1);
    let out = inline_message::take_out(engine, instance, &mut head)?;
    // A head that counts earlier deliveries stays for those, or is a chore.
    let is_nothing = head.is_nothing();
    let op = if is_nothing {
        Op::Delete(key, version)
    } else {
        Op::Replace(head.draft(key)?, version)
    };
    let (slot, began_ms) = (slot_of(instance), engine.clock.now_ms());
    match inline_message::commit(engine, instance, op, out).await {
        Ok(committed) => {
            let released = match written(&committed, 0) {
                _ if is_nothing => Some(Snapshot::default()),
                version => version.map(|version| snapshot.with_head(head, version)),
            };
            match released {
                Some(released) => engine.cache.put(instance, slot, Arc::new(released), began_ms),
                // Another process has claimed it since.
                None => engine.cache.forget(instance, slot),
            }
            Ok(())
        }
        Err(Error::Conflict { .. }) => {
            engine.cache.forget(instance, slot);
            Ok(())
        }
        Err(other) => Err(other),
    }
}

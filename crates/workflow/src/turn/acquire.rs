//! Claiming an instance where many processes share the store: a conditional write to its head. What is read after it is
//! at least as new as it; what was read before is a hint.

use super::fetch::ClaimGuard;
use super::{inline_message, mailbox, phantom_lease};
use crate::board::{MessageKind, Pin, Window};
use crate::engine::Engine;
use crate::instance::{self, Snapshot};
use crate::mutation::mutant;
use crate::queued::written;
use crate::records::head::Head;
use crate::records::{decode, partition};
use crate::redo;
use crate::send::slot_of;
use crate::shared::{Shared, lasts};
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::WorkItem;
use perennial_store::{Commit, Error, Op, Result, Version};
use std::sync::Arc;
use std::time::Duration;

/// How often a claim is tried again when the head is not what it was thought to be.
const TRIES: usize = 8;

/// What became of the attempt to claim an instance.
pub enum Acquired {
    /// It is ours: what it is, and its messages.
    Ours(Arc<Snapshot>, Vec<WorkItem>),
    /// Another process works on it, until this time.
    Busy(u64),
    /// It is bound to a version that the dispatcher does not run.
    Pinned(Pin),
    /// There is nothing to do.
    Nothing,
}

/// Claims the instance for all to see, and reads what its turn needs. The messages in `taken` become what the store has.
pub async fn acquire(
    engine: &Arc<Engine>,
    shared: &Shared,
    taken: &mut ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Acquired> {
    if let Some(reserved) = taken.reserved.take()
        && lasts(reserved.until_ms, engine.clock.now_ms(), lock)
        && inline_message::are_there(head_of(&reserved.snapshot), &taken.queued_messages)
    {
        // What is behind one that may be gone must not come before it. But those in front of a start may be for what it starts.
        let certain = taken
            .queued_messages
            .iter()
            .take_while(|(_, queued)| queued.certain)
            .count();
        let mut behind = taken.queued_messages.iter().skip(certain);
        if certain > 0 && behind.all(|(_, queued)| queued.sort != MessageKind::Start) {
            taken.queued_messages.truncate(certain);
            let messages = super::prepare::open(engine, taken).await?;
            // Reading may have taken so long that the lease is over.
            if lasts(reserved.until_ms, engine.clock.now_ms(), lock) {
                return Ok(Acquired::Ours(reserved.snapshot, messages));
            }
        }
    }
    let claimed = claim(engine, shared, taken, window, lock).await?;
    let Claimed::Ours(snapshot, over) = claimed else {
        return Ok(match claimed {
            Claimed::Busy(until_ms) => Acquired::Busy(until_ms),
            Claimed::Pinned(pin) => Acquired::Pinned(pin),
            Claimed::Ours(..) | Claimed::Lapsed => Acquired::Nothing,
        });
    };
    mutant!(TrustHints, {
        let messages = super::prepare::open(engine, taken).await?;
        if !taken.queued_messages.is_empty() {
            return Ok(Acquired::Ours(snapshot, messages));
        }
    });
    let parked = snapshot.head.as_ref().is_some_and(|(head, _)| head.parked);
    let messages = if !parked
        && inline_message::are_there(head_of(&snapshot), &taken.queued_messages)
        && engine
            .board
            .lock()
            .0
            .is_certain(&taken.instance, &taken.queued_messages, over.as_ref())
    {
        super::prepare::open(engine, taken).await?
    } else {
        let (queued_messages, messages) = mailbox::read(engine, &taken.instance, taken.claim, parked).await?;
        taken.queued_messages = queued_messages;
        messages
    };
    if taken.queued_messages.is_empty() {
        release(engine, &taken.instance, &snapshot).await?;
        return Ok(Acquired::Nothing);
    }
    Ok(match lasting(engine, shared, taken, snapshot, lock).await? {
        Some(snapshot) => Acquired::Ours(snapshot, messages),
        None => Acquired::Nothing,
    })
}

fn head_of(snapshot: &Snapshot) -> Option<&Head> {
    snapshot.head.as_ref().map(|(head, _)| head)
}

/// Makes sure that a lease can be handed out: reading may have taken so long that it would end too early, and so may the
/// write that was to prolong it. `None` if somebody has taken over.
async fn lasting(
    engine: &Engine,
    shared: &Shared,
    taken: &ClaimGuard,
    mut snapshot: Arc<Snapshot>,
    lock: Duration,
) -> Result<Option<Arc<Snapshot>>> {
    loop {
        let until_ms = snapshot.lease().map_or(0, |lease| lease.until_ms);
        if mutant!(LeaseFromFetchStart, true, lasts(until_ms, engine.clock.now_ms(), lock)) {
            return Ok(Some(snapshot));
        }
        match extend(engine, shared, &taken.instance, &snapshot, lock).await? {
            Some(extended) => snapshot = extended,
            None => return Ok(None),
        }
    }
}

/// Makes the lease on an instance last `lock` from now; `None` if somebody has taken over.
pub async fn extend(
    engine: &Engine,
    shared: &Shared,
    instance: &Arc<str>,
    snapshot: &Snapshot,
    lock: Duration,
) -> Result<Option<Arc<Snapshot>>> {
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

enum Claimed {
    /// The instance, and the version of its head if all of it was known before, with its messages.
    Ours(Arc<Snapshot>, Option<Version>),
    Busy(u64),
    Pinned(Pin),
    /// The claim here has run out, and another dispatcher of this process may have made one.
    Lapsed,
}

/// What is thought to be in the store.
enum Belief {
    /// All of the instance, as of some version of its head.
    Whole(Arc<Snapshot>),
    /// The head alone, or that there is none.
    Head(Option<Box<(Head, Version)>>),
}

impl Belief {
    fn head(&self) -> Option<&(Head, Version)> {
        match self {
            Self::Whole(snapshot) => snapshot.head.as_ref(),
            Self::Head(head) => head.as_deref(),
        }
    }
}

async fn claim(
    engine: &Arc<Engine>,
    shared: &Shared,
    taken: &ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Claimed> {
    let instance = &taken.instance;
    let exists = {
        let (board, now_ms) = engine.board.lock();
        board.was_busy(instance, now_ms)
    };
    let starts = taken
        .queued_messages
        .iter()
        .any(|(_, queued)| queued.sort == MessageKind::Start)
        && !exists;
    let mut fresh = false;
    let mut belief = match engine.cache.peek(instance) {
        Some(snapshot) => Belief::Whole(snapshot),
        // A start is most often for an instance that does not exist.
        None if starts => Belief::Head(None),
        None => {
            fresh = true;
            Belief::Head(read_head(engine, instance).await?)
        }
    };
    for _ in 0..TRIES {
        let now_ms = {
            let (mut board, now_ms) = engine.board.lock();
            board.advance(now_ms);
            if !board.is_held_by(instance, taken.claim) {
                return Ok(Claimed::Lapsed);
            }
            now_ms
        };
        let (mut head, version) = match belief.head() {
            Some((head, version)) => (head.clone(), Some(version.clone())),
            None => (Head::new(INITIAL_EXECUTION_ID, now_ms), None),
        };
        if let Some(lease) = &head.lease
            && lease.owner != shared.owner
            && mutant!(IgnoreLease, false, lease.until_ms > now_ms)
        {
            if fresh {
                return Ok(Claimed::Busy(lease.until_ms));
            }
            // It may have been given back since that was read.
            fresh = true;
            match read_head(engine, instance).await? {
                Some(now) if Some(&now.1) == version.as_ref() => {
                    return Ok(Claimed::Busy(now.0.lease.map_or(0, |lease| lease.until_ms)));
                }
                newer => {
                    belief = Belief::Head(newer);
                    continue;
                }
            }
        }
        // A claim of this process whose commit is not answered yet.
        if head.lease.is_some() && engine.board.lock().0.is_claim_pending(instance) {
            return Ok(Claimed::Busy(0));
        }
        if head.deletion.is_some() {
            return Ok(Claimed::Busy(0));
        }
        if head.pending.is_some() {
            redo::finish(engine, &partition(instance)).await?;
            belief = Belief::Head(read_head(engine, instance).await?);
            continue;
        }
        let pin = Pin::of(head.execution.pinned.as_ref());
        if !window.admits(&pin) {
            return Ok(Claimed::Pinned(pin));
        }
        let out = inline_message::take_out(engine, instance, &mut head)?;
        let is_known = matches!(belief, Belief::Whole(_)) && out.is_none();
        phantom_lease::note(engine, &mut head);
        head.lease_to(shared.lease(now_ms, lock));
        head.deliveries += mutant!(SkipAttempt, 0, 1);
        let draft = head.draft(Head::key(instance))?;
        let replaced = version.clone();
        let op = match version {
            Some(version) => Op::Replace(draft, version),
            None => Op::Create(draft),
        };
        match inline_message::commit(engine, instance, op, out).await {
            Ok(committed) => {
                let Some(version) = written(&committed, 0) else {
                    // It was claimed, and somebody has taken over before that was known here.
                    fresh = true;
                    belief = Belief::Head(read_head(engine, instance).await?);
                    continue;
                };
                engine
                    .board
                    .lock()
                    .0
                    .wrote_head(instance, replaced.as_ref(), Some(&version));
                let over = is_known.then(|| version.clone());
                let snapshot = match belief {
                    Belief::Whole(snapshot) => snapshot.with_head(head, version),
                    Belief::Head(_) => instance::load_rest(&*engine.store, &partition(instance), head, version).await?,
                };
                let snapshot = Arc::new(snapshot);
                engine
                    .cache
                    .put(instance, slot_of(instance), Arc::clone(&snapshot), now_ms);
                return Ok(Claimed::Ours(snapshot, over));
            }
            Err(Error::Conflict { .. }) => {
                fresh = true;
                belief = Belief::Head(read_head(engine, instance).await?);
            }
            Err(other) => return Err(other),
        }
    }
    Ok(Claimed::Busy(0))
}

async fn read_head(engine: &Engine, instance: &str) -> Result<Option<Box<(Head, Version)>>> {
    let Some(record) = engine.store.get(&Head::key(instance)).await? else {
        return Ok(None);
    };
    Ok(Some(Box::new((decode(&record)?, record.version))))
}

/// Gives a claim back that came to nothing. If somebody has taken over, there is nothing to give back.
pub async fn release(engine: &Engine, instance: &Arc<str>, snapshot: &Snapshot) -> Result<()> {
    let Some((head, version)) = snapshot.head.clone() else {
        return Ok(());
    };
    let mut head = head;
    let key = Head::key(instance);
    head.lease = None;
    head.deliveries = head.deliveries.saturating_sub(1);
    let out = inline_message::take_out(engine, instance, &mut head)?;
    // One that tells of earlier deliveries stays for those, or is a chore.
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
                // Somebody has claimed it since.
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

//! Claiming an instance where many processes share the store: a conditional write to its head. What is read after it is
//! at least as new as it; what was read before is a hint.

use super::{inline_message, lease, mailbox, phantom_lease};
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
use crate::tuning::TURN_CLAIM_TRIES;
use crate::turn::{self, ClaimGuard};
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::WorkItem;
use perennial_store::{Error, Op, Result, Version};
use std::sync::Arc;
use std::time::Duration;

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

/// Claims the instance in the store, and reads what its turn needs. The messages in `guard` become what the store has.
pub async fn acquire(
    engine: &Arc<Engine>,
    shared: &Shared,
    guard: &mut ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Acquired> {
    if let Some(acquired) = use_reservation(engine, guard, lock).await? {
        return Ok(acquired);
    }
    let (snapshot, over) = match claim(engine, shared, guard, window, lock).await? {
        Claimed::Ours(snapshot, over) => (snapshot, over),
        Claimed::Busy(until_ms) => return Ok(Acquired::Busy(until_ms)),
        Claimed::Pinned(pin) => return Ok(Acquired::Pinned(pin)),
        Claimed::Lapsed => return Ok(Acquired::Nothing),
    };
    mutant!(TrustHints, {
        let messages = open(engine, guard).await?;
        if !guard.queued_messages.is_empty() {
            return Ok(Acquired::Ours(snapshot, messages));
        }
    });
    let messages = messages(engine, guard, &snapshot, over.as_ref()).await?;
    if guard.queued_messages.is_empty() {
        lease::release(engine, &guard.instance, &snapshot).await?;
        return Ok(Acquired::Nothing);
    }
    Ok(match lasting(engine, shared, guard, snapshot, lock).await? {
        Some(snapshot) => Acquired::Ours(snapshot, messages),
        None => Acquired::Nothing,
    })
}

/// The instance as it was claimed in advance, if that claim lasts and its messages are known without a read.
async fn use_reservation(engine: &Engine, guard: &mut ClaimGuard, lock: Duration) -> Result<Option<Acquired>> {
    let Some(reserved) = guard.reserved.take() else {
        return Ok(None);
    };
    if !lasts(reserved.until_ms, engine.clock.now_ms(), lock)
        || !inline_message::are_there(head_of(&reserved.snapshot), &guard.queued_messages)
    {
        return Ok(None);
    }
    // What is behind one that may be gone must not come before it. But those in front of a start may be for what it starts.
    let queued = &guard.queued_messages;
    let certain = queued.iter().take_while(|(_, queued)| queued.certain).count();
    let mut behind = queued.iter().skip(certain);
    if certain == 0 || behind.any(|(_, queued)| queued.sort == MessageKind::Start) {
        return Ok(None);
    }
    guard.queued_messages.truncate(certain);
    let messages = open(engine, guard).await?;
    // Reading may have taken so long that the lease is over.
    let lasts = lasts(reserved.until_ms, engine.clock.now_ms(), lock);
    Ok(lasts.then_some(Acquired::Ours(reserved.snapshot, messages)))
}

/// The messages of an instance that is claimed: those on the board if they are there for sure, else what the store has.
async fn messages(
    engine: &Engine,
    guard: &mut ClaimGuard,
    snapshot: &Snapshot,
    over: Option<&Version>,
) -> Result<Vec<WorkItem>> {
    let parked = head_of(snapshot).is_some_and(|head| head.parked);
    let (instance, queued) = (&guard.instance, &guard.queued_messages);
    if !parked
        && inline_message::are_there(head_of(snapshot), queued)
        && engine.board.lock().0.is_certain(instance, queued, over)
    {
        return open(engine, guard).await;
    }
    let (queued, messages) = mailbox::read(engine, instance, guard.claim, parked).await?;
    guard.queued_messages = queued;
    Ok(messages)
}

/// The messages themselves. One that is not found may be newer than the read: the next poll returns it again.
async fn open(engine: &Engine, guard: &mut ClaimGuard) -> Result<Vec<WorkItem>> {
    Ok(turn::open(engine, guard).await?.items)
}

fn head_of(snapshot: &Snapshot) -> Option<&Head> {
    snapshot.head.as_ref().map(|(head, _)| head)
}

/// Makes sure that a lease can be handed out: reading may have taken so long that it would end too early, and so may the
/// write that extended it. `None` if another process has taken over.
async fn lasting(
    engine: &Engine,
    shared: &Shared,
    guard: &ClaimGuard,
    mut snapshot: Arc<Snapshot>,
    lock: Duration,
) -> Result<Option<Arc<Snapshot>>> {
    loop {
        let until_ms = snapshot.lease().map_or(0, |lease| lease.until_ms);
        if mutant!(LeaseFromFetchStart, true, lasts(until_ms, engine.clock.now_ms(), lock)) {
            return Ok(Some(snapshot));
        }
        match lease::extend(engine, shared, &guard.instance, &snapshot, lock).await? {
            Some(extended) => snapshot = extended,
            None => return Ok(None),
        }
    }
}

/// What became of the attempt to write a lease.
enum Claimed {
    /// The instance, and the version of its head if all of it was known before, with its messages.
    Ours(Arc<Snapshot>, Option<Version>),
    Busy(u64),
    Pinned(Pin),
    /// The claim on the board has run out, and another dispatcher of this process may have made one.
    Lapsed,
}

/// What is thought to be in the store.
struct Belief {
    known: Known,
    /// Whether it was read for this claim.
    fresh: bool,
}

enum Known {
    /// All of the instance, as of some version of its head.
    Whole(Arc<Snapshot>),
    /// The head alone, or that there is none.
    Head(Option<Box<(Head, Version)>>),
}

/// What is to be done about a belief.
enum Assessment {
    /// The instance cannot be claimed.
    Stop(Claimed),
    /// It could not be claimed when it was last read, which may be long ago.
    Reread,
    /// A turn must be rolled forward first.
    FinishTurn,
    /// It can be claimed.
    Write,
}

impl Belief {
    /// What this process knows of an instance without a read, if that is enough to try.
    async fn begin(engine: &Engine, guard: &ClaimGuard) -> Result<Self> {
        let instance = &guard.instance;
        let exists = {
            let (board, now_ms) = engine.board.lock();
            board.was_busy(instance, now_ms)
        };
        let mut queued = guard.queued_messages.iter();
        let starts = queued.any(|(_, queued)| queued.sort == MessageKind::Start) && !exists;
        let known = match engine.cache.peek(instance) {
            Some(snapshot) => Known::Whole(snapshot),
            // A start is most often for an instance that does not exist.
            None if starts => Known::Head(None),
            None => return Self::read(engine, instance).await,
        };
        Ok(Self { known, fresh: false })
    }

    /// The head as the store has it.
    async fn read(engine: &Engine, instance: &str) -> Result<Self> {
        Ok(Self {
            known: Known::Head(read_head(engine, instance).await?),
            fresh: true,
        })
    }

    fn head(&self) -> Option<&(Head, Version)> {
        match &self.known {
            Known::Whole(snapshot) => snapshot.head.as_ref(),
            Known::Head(head) => head.as_deref(),
        }
    }

    fn assess(&self, engine: &Engine, shared: &Shared, instance: &str, window: &Window, now_ms: u64) -> Assessment {
        let head = self.head().map(|(head, _)| head);
        let lease = head.and_then(|head| head.lease.as_ref());
        if let Some(lease) = lease
            && lease.owner != shared.owner
            && mutant!(IgnoreLease, false, lease.until_ms > now_ms)
        {
            if self.fresh {
                return Assessment::Stop(Claimed::Busy(lease.until_ms));
            }
            return Assessment::Reread;
        }
        // A claim of this process whose commit has no reply yet.
        if lease.is_some() && engine.board.lock().0.is_claim_pending(instance) {
            return Assessment::Stop(Claimed::Busy(0));
        }
        if head.is_some_and(|head| head.deletion.is_some()) {
            return Assessment::Stop(Claimed::Busy(0));
        }
        if head.is_some_and(|head| head.pending.is_some()) {
            return Assessment::FinishTurn;
        }
        let pin = Pin::of(head.and_then(|head| head.execution.pinned.as_ref()));
        if !window.admits(&pin) {
            return Assessment::Stop(Claimed::Pinned(pin));
        }
        Assessment::Write
    }
}

/// Claims an instance by its head, beginning with what is known of it.
async fn claim(
    engine: &Arc<Engine>,
    shared: &Shared,
    guard: &ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Claimed> {
    let instance = &guard.instance;
    let mut belief = Belief::begin(engine, guard).await?;
    for _ in 0..TURN_CLAIM_TRIES {
        let Some(now_ms) = held_now(engine, guard) else {
            return Ok(Claimed::Lapsed);
        };
        match belief.assess(engine, shared, instance, window, now_ms) {
            Assessment::Stop(claimed) => return Ok(claimed),
            Assessment::Reread => {
                let newer = Belief::read(engine, instance).await?;
                if let (Some((_, before)), Some((head, now))) = (belief.head(), newer.head())
                    && before == now
                {
                    let until_ms = head.lease.as_ref().map_or(0, |lease| lease.until_ms);
                    return Ok(Claimed::Busy(until_ms));
                }
                belief = newer;
            }
            Assessment::FinishTurn => {
                redo::finish(engine, &partition(instance)).await?;
                belief.known = Known::Head(read_head(engine, instance).await?);
            }
            Assessment::Write => match write_lease(engine, shared, instance, &belief, lock, now_ms).await? {
                Some(claimed) => return Ok(claimed),
                None => belief = Belief::read(engine, instance).await?,
            },
        }
    }
    Ok(Claimed::Busy(0))
}

/// The time, if the claim on the board has not run out by now.
fn held_now(engine: &Engine, guard: &ClaimGuard) -> Option<u64> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    board.is_held_by(&guard.instance, guard.claim).then_some(now_ms)
}

/// Writes this process's lease into the head, and reads the rest of the instance; `None` if the head is not what it was
/// believed to be, or another process has taken over before the lease was known to be written.
async fn write_lease(
    engine: &Engine,
    shared: &Shared,
    instance: &Arc<str>,
    belief: &Belief,
    lock: Duration,
    now_ms: u64,
) -> Result<Option<Claimed>> {
    let (mut head, replaced) = match belief.head() {
        Some((head, version)) => (head.clone(), Some(version.clone())),
        None => (Head::new(INITIAL_EXECUTION_ID, now_ms), None),
    };
    let out = inline_message::take_out(engine, instance, &mut head)?;
    let is_known = matches!(belief.known, Known::Whole(_)) && out.is_none();
    phantom_lease::note(engine, &mut head);
    head.lease_to(shared.lease(now_ms, lock));
    head.deliveries += mutant!(SkipAttempt, 0, 1);
    let draft = head.draft(Head::key(instance))?;
    let op = match replaced.clone() {
        Some(version) => Op::Replace(draft, version),
        None => Op::Create(draft),
    };
    let committed = match inline_message::commit(engine, instance, op, out).await {
        Ok(committed) => committed,
        Err(Error::Conflict { .. }) => return Ok(None),
        Err(other) => return Err(other),
    };
    let Some(version) = written(&committed, 0) else {
        return Ok(None);
    };
    engine
        .board
        .lock()
        .0
        .wrote_head(instance, replaced.as_ref(), Some(&version));
    let over = is_known.then(|| version.clone());
    let snapshot = Arc::new(match &belief.known {
        Known::Whole(snapshot) => snapshot.with_head(head, version),
        Known::Head(_) => instance::load_rest(&*engine.store, &partition(instance), head, version).await?,
    });
    engine
        .cache
        .put(instance, slot_of(instance), Arc::clone(&snapshot), now_ms);
    Ok(Some(Claimed::Ours(snapshot, over)))
}

async fn read_head(engine: &Engine, instance: &str) -> Result<Option<Box<(Head, Version)>>> {
    let Some(record) = engine.store.get(&Head::key(instance)).await? else {
        return Ok(None);
    };
    Ok(Some(Box::new((decode(&record)?, record.version))))
}

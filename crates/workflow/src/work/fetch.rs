//! Handing out an activity.

use super::acquire::{self, Acquired};
use super::sessions::{self, Tenancy};
use crate::board::{Body, ClaimId, Inner, QueuedActivity, Subject, Tenure, Waiting, Want, WorkWant, waited};
use crate::engine::{Engine, deadline, later, millis};
use crate::error::from_store;
use crate::mutation::mutant;
use crate::queued::{PUT_OFF_MS, note_durability, written};
use crate::records::envelope::Envelope;
use crate::records::work;
use crate::shared;
use duroxide::providers::{ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use futures::FutureExt;
use perennial_store::{Commit, Error, Op, Order, Place};
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, trace};

const OPERATION: &str = "fetch_work_item";

/// A worker that is not ready for sessions when it starts to wait may be so soon, but only a new fetch tells.
const WAIT_WITHOUT_SESSION: Duration = Duration::from_secs(1);

/// An activity as the runtime takes it: the item, the token, and how often it was handed out.
pub type Fetched = (WorkItem, String, u32);

/// Hands out the oldest activity that the worker may run, waiting for one until `poll` has passed.
pub async fn fetch(
    engine: &Arc<Engine>,
    lock: Duration,
    poll: Duration,
    session: Option<&SessionFetchConfig>,
    tags: &TagFilter,
) -> Result<Option<Fetched>, ProviderError> {
    let worker = Worker {
        want: WorkWant {
            tags: tags.clone(),
            owner: session.map(|session| Arc::from(session.owner_id.as_str())),
        },
        session_ms: session.map_or(0, |session| millis(session.lock_timeout)),
        lock,
    };
    // Who does not wait looks for himself.
    let mut look = poll.is_zero();
    if let Some(shared) = &engine.shared {
        shared.saw_work_lock(lock);
        shared::poll_first(engine, &Want::Work(worker.want.clone())).await;
    }
    let poll = if session.is_none() {
        poll.min(WAIT_WITHOUT_SESSION)
    } else {
        poll
    };
    let mut deadline_ms = deadline(engine.clock.now_ms(), poll);
    let mut waiting: Option<Waiting> = None;
    loop {
        // If the clock is put back, the wait does not become longer by that.
        deadline_ms = deadline_ms.min(deadline(engine.clock.now_ms(), poll));
        shared::make_sure(engine, &worker.want).await;
        if let Some(taken) = take(engine, &worker, waiting.as_ref()) {
            drop(waiting.take());
            let prepared = match engine.shared {
                None => prepare(engine, taken, &worker).await,
                Some(_) => see_through(engine, taken, &worker).await,
            };
            match prepared {
                Ok(None) => {}
                Ok(fetched) => return Ok(fetched),
                Err(error) => engine.wait_out(OPERATION, &error, deadline_ms).await?,
            }
        } else if engine.clock.now_ms() >= deadline_ms {
            if !std::mem::take(&mut look) || !shared::poll_now(engine, &Want::Work(worker.want.clone())).await {
                return Ok(None);
            }
        } else if let Some(waiting) = &waiting {
            shared::watch(engine);
            waiting.sleep(deadline_ms).await;
        } else {
            waiting = Some(engine.board.wait(Want::Work(worker.want.clone())));
        }
    }
}

#[derive(Clone)]
struct Worker {
    want: WorkWant,
    session_ms: u64,
    lock: Duration,
}

/// A claim on an activity that has not been handed out yet; dropped, it never was.
struct ClaimGuard {
    engine: Arc<Engine>,
    claim: ClaimId,
    order: Order,
    queued: QueuedActivity,
    /// Who had the activity's session before, and until when.
    session_before: Option<Tenure>,
    kept: bool,
}

impl ClaimGuard {
    /// The activity is being cancelled, or a fetch that was dropped has just counted it: that is known in a moment.
    fn put_off(&mut self) {
        let engine = Arc::clone(&self.engine);
        let (mut board, now_ms) = engine.board.lock();
        self.give_back_session(&mut board, now_ms);
        board.put_back(self.order, self.claim, Some(now_ms + PUT_OFF_MS), true, now_ms);
        board.drop_claim(self.claim);
        self.kept = true;
    }

    /// The activity is not at the version that it was thought to be at, perhaps `surely`: it is gone, or another process has
    /// it. But if this process has learnt of a newer version meanwhile, by a claim that was answered late, that one counts.
    fn withdraw(&mut self, surely: bool) {
        let engine = Arc::clone(&self.engine);
        let (mut board, now_ms) = engine.board.lock();
        self.give_back_session(&mut board, now_ms);
        if board
            .work()
            .activity(self.order)
            .is_some_and(|queued| queued.version != self.queued.version)
        {
            board.put_back(self.order, self.claim, None, true, now_ms);
        } else if surely {
            board.withdraw(self.order);
        } else {
            board.unlearn(self.order);
        }
        board.drop_claim(self.claim);
        self.kept = true;
    }

    fn give_back_session(&mut self, board: &mut Inner, now_ms: u64) {
        if let (Some(session), Some(before)) = (&self.queued.activity.session, self.session_before.take()) {
            board.give_back_session(session, before, now_ms);
        }
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if !self.kept {
            let engine = Arc::clone(&self.engine);
            let (mut board, now_ms) = engine.board.lock();
            self.give_back_session(&mut board, now_ms);
            board.put_back(self.order, self.claim, None, true, now_ms);
            board.drop_claim(self.claim);
        }
    }
}

fn take(engine: &Arc<Engine>, worker: &Worker, waiting: Option<&Waiting>) -> Option<ClaimGuard> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let Some(order) = board.first_work(&worker.want, now_ms) else {
        board.found_nothing(waiting);
        return None;
    };
    let claim = board.make_claim(Subject::Work { order }, now_ms, worker.lock);
    let queued = board.hold_task(order, claim)?;
    let session_before = match (&queued.activity.session, &worker.want.owner) {
        (Some(session), Some(owner)) => Some(board.claim_session(session, owner, worker.session_ms, now_ms)),
        _ => None,
    };
    drop(board);
    let waited = waited(order, queued.due_ms, now_ms);
    engine.meters.work_wait.record(waited);
    engine.meters.oldest_work.set(waited);
    Some(ClaimGuard {
        engine: Arc::clone(engine),
        claim,
        order,
        queued,
        session_before,
        kept: false,
    })
}

/// Reads what is not in memory. `None` if the activity is gone.
async fn prepare(engine: &Arc<Engine>, mut taken: ClaimGuard, worker: &Worker) -> Result<Option<Fetched>, Error> {
    let mut took = None;
    let opened = match &engine.shared {
        None => open(engine, &taken.queued)
            .await
            .map(|item| item.map_or(Acquired::Unseen, Acquired::Ours)),
        Some(shared) => {
            if let (Some(session), Some(owner)) = (&taken.queued.activity.session, &worker.want.owner) {
                match sessions::acquire(engine, session, owner, worker.session_ms).await? {
                    Tenancy::Held => {}
                    Tenancy::ClaimGuard => took = Some((Arc::clone(session), Arc::clone(owner))),
                    // The board knows by now who holds it.
                    Tenancy::Refused => {
                        taken.session_before = None;
                        return Ok(None);
                    }
                }
            }
            acquire::acquire(engine, shared, taken.order, &taken.queued, worker.lock).await
        }
    };
    let item = match opened {
        Ok(Acquired::Ours(item)) => item,
        Ok(_) if engine.shared.is_none() => {
            taken.put_off();
            return Ok(None);
        }
        Ok(lost) => {
            trace!(instance = %taken.queued.activity.instance, activity = taken.queued.activity.id, "activity not found as it was");
            taken.withdraw(matches!(lost, Acquired::Lost));
            return Ok(None);
        }
        Err(Error::Corrupt(why)) => {
            error!(key = %taken.queued.key, why, "an activity cannot be read: it is set aside");
            engine.meters.quarantined.increment(1);
            taken.withdraw(true);
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    let queued = &taken.queued;
    if engine.shared.is_none() && (queued.old || queued.attempts > 1) {
        match note(engine, taken.order, queued, &item).await {
            Err(Error::Conflict { .. }) => {
                taken.put_off();
                return Ok(None);
            }
            outcome => outcome?,
        }
    }
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    // Reading may have taken longer than the lease. Whoever took the activity meanwhile has it.
    if !board.hold_task_again(taken.order, taken.claim) {
        drop(board);
        return Ok(None);
    }
    let until_ms = later(now_ms, worker.lock);
    mutant!(LeaseFromFetchStart, {}, board.extend(taken.claim, until_ms));
    if let Some(claim) = board.claim(taken.claim) {
        claim.took = took;
    }
    taken.kept = true;
    drop(board);
    trace!(instance = %taken.queued.activity.instance, activity = taken.queued.activity.id, "activity handed out");
    Ok(Some((
        WorkItem::clone(&item),
        engine.board.token(taken.claim),
        taken.queued.attempts,
    )))
}

/// The same where others see the claim: it is not left behind if the caller goes away.
async fn see_through(engine: &Arc<Engine>, taken: ClaimGuard, worker: &Worker) -> Result<Option<Fetched>, Error> {
    let give_back = |engine: Arc<Engine>, token: String| {
        async move {
            let id = engine.board.claim_of(&token);
            let took = id.and_then(|id| engine.board.lock().0.claim(id)?.took.take());
            super::abandon(&engine, &token, None, true).await?;
            match took {
                None => Ok(()),
                Some((session, owner)) => {
                    let gone = sessions::let_go(&engine, &session, &owner).await;
                    gone.map_err(|e| from_store(OPERATION, &e))
                }
            }
        }
        .boxed()
    };
    let (owned, worker) = (Arc::clone(engine), worker.clone());
    let fetch = async move { prepare(&owned, taken, &worker).await };
    shared::see_through(engine, fetch, give_back).await
}

/// The activity itself: from memory, or from the store if it is large.
pub async fn open(engine: &Engine, queued: &QueuedActivity) -> Result<Option<Arc<WorkItem>>, Error> {
    match &queued.body {
        Body::Held(item, _) => Ok(Some(Arc::clone(item))),
        Body::Stored => {
            let record = engine.store.get(&queued.key).await?;
            Ok(record
                .map(|record| Envelope::open(&record))
                .transpose()?
                .map(|envelope| Arc::new(envelope.item)))
        }
    }
}

/// Writes the delivery count down: this activity may be the one that brings the process down.
async fn note(engine: &Arc<Engine>, order: Order, queued: &QueuedActivity, item: &WorkItem) -> Result<(), Error> {
    let place = Place {
        lane: engine.lanes.work(queued.activity.tag.as_ref()),
        order,
        due_ms: queued.due_ms,
    };
    let draft = work::draft(queued.key.clone(), item, place, queued.attempts, None)?;
    let ops = vec![Op::Replace(draft, queued.version.clone())];
    let commit = Commit {
        ops,
        durability: note_durability(queued.old),
        ..Commit::default()
    };
    let (engine, attempts) = (Arc::clone(engine), queued.attempts);
    engine
        .spawner
        .shield(async move {
            let committed = engine.commit(commit).await?;
            if let Some(version) = written(&committed, 0) {
                engine.board.lock().0.noted_task(order, attempts, version);
            }
            Ok(())
        })
        .await
}

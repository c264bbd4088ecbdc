//! Handing out an activity.

use crate::board::{Body, ClaimId, Inner, QueuedActivity, Subject, Tenure, Waiting, Want, WorkWant, waited};
use crate::engine::{Engine, deadline, later, millis};
use crate::long_poll::{Fetch, long_poll};
use crate::mutation::mutant;
use crate::records::envelope::Envelope;
use crate::tuning::{PUT_OFF_MS, SESSION_ROOM_WAIT};
use duroxide::providers::{ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use perennial_store::{Error, Order};
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, trace};

/// An activity as the runtime takes it: the item, the token, and how often it was handed out.
pub type Fetched = (WorkItem, String, u32);

/// A worker that has come for activities.
#[derive(Clone)]
pub struct Worker {
    pub want: WorkWant,
    /// How long it holds a session.
    pub session_ms: u64,
    /// How long it wants to hold an activity.
    pub lock: Duration,
}

impl Fetch for Worker {
    type Guard = ClaimGuard;
    type Fetched = Fetched;

    const OPERATION: &'static str = "fetch_work_item";

    fn want(&self) -> Want {
        Want::Work(self.want.clone())
    }

    async fn refresh(&self, engine: &Arc<Engine>) {
        engine.mode.refresh_foreign(engine, &self.want).await;
    }

    fn take(&self, engine: &Arc<Engine>, waiting: Option<&Waiting>) -> Option<ClaimGuard> {
        take(engine, self, waiting)
    }

    async fn acquire(&self, engine: &Arc<Engine>, guard: ClaimGuard) -> Result<Option<Fetched>, Error> {
        engine.mode.acquire_work(engine, guard, self).await
    }
}

/// Hands out the oldest activity that the worker may run, waiting for one until `poll` has passed.
pub async fn fetch(
    engine: &Arc<Engine>,
    lock: Duration,
    poll: Duration,
    session: Option<&SessionFetchConfig>,
    tags: &TagFilter,
) -> Result<Option<Fetched>, ProviderError> {
    let mut worker = Worker {
        want: WorkWant {
            tags: tags.clone(),
            owner: session.map(|session| Arc::from(session.owner_id.as_str())),
        },
        session_ms: session.map_or(0, |session| millis(session.lock_timeout)),
        lock,
    };
    engine.mode.begin_work(engine, &Fetch::want(&worker), lock).await;
    let poll = match session {
        Some(_) => poll,
        None => poll.min(SESSION_ROOM_WAIT),
    };
    let deadline_ms = deadline(engine.clock.now_ms(), poll);
    long_poll(engine, &mut worker, poll, deadline_ms).await
}

/// A claim on an activity that has not been handed out yet; if it is dropped, the claim is undone.
pub struct ClaimGuard {
    engine: Arc<Engine>,
    claim: ClaimId,
    pub order: Order,
    pub queued: QueuedActivity,
    /// Which worker held the activity's session before, and until when.
    pub session_before: Option<Tenure>,
    kept: bool,
}

impl ClaimGuard {
    /// The activity is being cancelled, or a fetch that was dropped is still writing its count: it is tried again in a moment.
    pub fn put_off(&mut self) {
        let engine = Arc::clone(&self.engine);
        let (mut board, now_ms) = engine.board.lock();
        self.give_back_session(&mut board, now_ms);
        board.put_back(self.order, self.claim, Some(now_ms + PUT_OFF_MS), true, now_ms);
        board.drop_claim(self.claim);
        self.kept = true;
    }

    /// The activity is not at the version that was expected, perhaps `surely`: it is gone, or another process has it. But if
    /// this process has learnt of a newer version meanwhile, by a late reply to a claim, that one counts.
    pub fn withdraw(&mut self, surely: bool) {
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

    /// The activity cannot be read: it leaves the board, and the next opening of the store tries it again.
    pub fn quarantine(&mut self, why: &str) {
        error!(key = %self.queued.key, why, "an activity cannot be read: it is set aside");
        self.engine.meters.quarantined.increment(1);
        self.withdraw(true);
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

/// Hands out an activity that was claimed and read, with the session that was taken for it. `None` if the claim ran out
/// meanwhile: another worker of this process may have the activity.
pub fn hand_out(
    engine: &Engine,
    mut guard: ClaimGuard,
    item: &WorkItem,
    took: Option<(Arc<str>, Arc<str>)>,
    lock: Duration,
) -> Option<Fetched> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    if !board.hold_task_again(guard.order, guard.claim) {
        drop(board);
        return None;
    }
    mutant!(LeaseFromFetchStart, {}, board.extend(guard.claim, later(now_ms, lock)));
    if let Some(claim) = board.claim(guard.claim) {
        claim.took = took;
    }
    guard.kept = true;
    drop(board);
    trace!(instance = %guard.queued.activity.instance, activity = guard.queued.activity.id, "activity handed out");
    Some((
        WorkItem::clone(item),
        engine.board.token(guard.claim),
        guard.queued.attempts,
    ))
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

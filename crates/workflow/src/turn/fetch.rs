//! Handing out a turn.

use super::mailbox;
use super::secure::{self, Secured};
use crate::board::{Body, ClaimId, Handed, Letter, Pin, Reservation, Sort, Subject, Waiting, Want, Window, waited};
use crate::engine::{Engine, later};
use crate::instance::Snapshot;
use crate::mutation::{self, Mutation};
use crate::outbox;
use crate::queued::{PUT_OFF_MS, note_durability, written};
use crate::records::envelope::Envelope;
use crate::records::message;
use crate::redo::messages_per_turn;
use crate::shared::{self, Shared};
use crate::shield::Shield;
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, ProviderError, WorkItem};
use futures::FutureExt;
use perennial_store::{Commit, Error, Op, Order, Place};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, trace};

const OPERATION: &str = "fetch_orchestration_item";
/// How long an instance is left alone that another process works on, before it is looked at again.
const BUSY_MS: u64 = 1_000;

/// How long a fetch that does not wait for new work waits for what is on its way from other instances.
const DELIVERY: Duration = Duration::from_secs(1);

/// A turn as the runtime takes it: the item, the token, and how often it was handed out.
pub type Fetched = (OrchestrationItem, String, u32);

/// Hands out the oldest turn that the filter admits, waiting for one until `poll` has passed.
pub async fn fetch(
    engine: &Arc<Engine>,
    lock: Duration,
    poll: Duration,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Option<Fetched>, ProviderError> {
    let window = Window::of(filter);
    let mut deadline_ms = later(engine.clock.now_ms(), poll);
    let mut waiting: Option<Waiting> = None;
    let mut patient = true;
    // Who does not wait looks for himself.
    let mut look = poll.is_zero();
    if let Some(shared) = &engine.shared {
        shared.saw_turn_lock(lock);
        shared::look_first(engine, &Want::Turn(window.clone())).await;
    }
    loop {
        // If the clock is put back, the wait does not become longer by that.
        deadline_ms = deadline_ms.min(later(engine.clock.now_ms(), poll));
        if let Some(taken) = take(engine, &window, lock, poll.is_zero(), waiting.as_ref()) {
            drop(waiting.take());
            let prepared = match engine.shared {
                None => prepare(engine, taken, &window, lock).await,
                Some(_) => see_through(engine, taken, &window, lock).await,
            };
            match prepared {
                Ok(None) => {}
                Ok(fetched) => return Ok(fetched),
                Err(error) => engine.wait_out(OPERATION, &error, deadline_ms).await?,
            }
        } else if poll.is_zero() && std::mem::take(&mut patient) && engine.outbox.is_busy() {
            // Who fetches without waiting gets what was sent before, all the same.
            tokio::select! {
                () = engine.outbox.idle() => {}
                () = engine.clock.sleep(DELIVERY) => {}
            }
        } else if engine.clock.now_ms() >= deadline_ms {
            if !std::mem::take(&mut look) || !shared::look_now(engine, &Want::Turn(window.clone())).await {
                return Ok(None);
            }
        } else if let Some(waiting) = &waiting {
            shared::watch(engine);
            waiting.sleep(deadline_ms).await;
            // Completions that became durable together should be one turn: let their senders post them first.
            tokio::task::yield_now().await;
        } else {
            waiting = Some(engine.board.wait(Want::Turn(window.clone())));
        }
    }
}

/// A claim on an instance that has not been handed out yet; dropped, it never was.
pub struct Taken {
    engine: Arc<Engine>,
    claim: ClaimId,
    pub instance: Arc<str>,
    pub letters: Vec<(Order, Letter)>,
    /// The claim that was made in advance, on a store that many share.
    pub reserved: Option<Reservation>,
    kept: bool,
}

/// Why messages are set aside.
enum Aside {
    /// Their instance does not exist.
    Orphaned,
    /// Something cannot be read.
    Damaged,
}

impl Taken {
    fn orders(&self) -> Vec<Order> {
        self.letters.iter().map(|(order, _)| *order).collect()
    }

    fn handed(&self) -> Vec<Handed> {
        let handed = |(order, letter): &(Order, Letter)| Handed {
            order: *order,
            id: letter.id.clone(),
            version: letter.version.clone(),
            origin: letter.from.clone(),
        };
        self.letters.iter().map(handed).collect()
    }

    /// Takes the messages out of everybody's way.
    fn set_aside(&mut self, why: Aside) {
        let orders = self.orders();
        let (mut board, _) = self.engine.board.lock();
        board.uncount(&self.instance, &orders);
        board.drop_claim(self.claim);
        match why {
            Aside::Orphaned => board.park(&self.instance, self.claim, &orders),
            Aside::Damaged => board.shelve(&self.instance, self.claim),
        }
        self.kept = true;
    }

    /// Keeps the claim for a moment, until it is clear what somebody else is doing to the messages.
    fn put_off(&mut self, for_ms: u64) {
        let orders = self.orders();
        let (mut board, now_ms) = self.engine.board.lock();
        board.uncount(&self.instance, &orders);
        if board.hold_again(&self.instance, self.claim) {
            board.extend(self.claim, now_ms + for_ms);
        }
        self.kept = true;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.kept {
            let orders = self.orders();
            let (mut board, now_ms) = self.engine.board.lock();
            board.uncount(&self.instance, &orders);
            board.drop_claim(self.claim);
            if mutation::is(Mutation::DropClaimed) {
                return;
            }
            board.let_go(&self.instance, self.claim, now_ms);
        }
    }
}

fn take(
    engine: &Arc<Engine>,
    window: &Window,
    lock: Duration,
    at_once: bool,
    waiting: Option<&Waiting>,
) -> Option<Taken> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let admits = |pin: &Pin| window.admits(pin);
    let first = if at_once {
        board.turns().first_at_once(admits)
    } else {
        board.turns().first(admits)
    };
    let Some((_, instance)) = first else {
        board.found_nothing(waiting);
        return None;
    };
    let subject = Subject::Turn {
        instance: Arc::clone(&instance),
        handed: Vec::new(),
        snapshot: None,
        window: window.clone(),
    };
    let claim = board.make_claim(subject, later(now_ms, lock));
    let most = messages_per_turn(engine.store.limits().ops_per_commit);
    let letters = board.hold(&instance, claim, most);
    let reserved = board.take_reservation(&instance);
    drop(board);
    if let Some((order, letter)) = letters.first() {
        let waited = waited(*order, letter.due_ms, now_ms);
        engine.meters.turn_wait.record(waited);
        engine.meters.oldest_turn.set(waited);
    }
    Some(Taken {
        engine: Arc::clone(engine),
        claim,
        instance,
        letters,
        reserved,
        kept: false,
    })
}

/// A turn that can be handed out.
struct Prepared {
    snapshot: Arc<Snapshot>,
    messages: Vec<WorkItem>,
    name: String,
    version: String,
    attempt: u32,
}

/// Reads what the turn needs and hands it out. `None` if it turns out that there is none.
async fn prepare(
    engine: &Arc<Engine>,
    mut taken: Taken,
    window: &Window,
    lock: Duration,
) -> Result<Option<Fetched>, Error> {
    let prepared = match &engine.shared {
        None => read(engine, &mut taken, window).await,
        Some(shared) => read_shared(engine, shared, &mut taken, window, lock).await,
    };
    match prepared {
        Ok(Some(prepared)) => Ok(hand_out(engine, taken, prepared, window, lock)),
        Ok(None) => Ok(None),
        Err(Error::Corrupt(why)) => {
            error!(instance = %taken.instance, why, "something of an instance cannot be read: it is set aside");
            taken.set_aside(Aside::Damaged);
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// The same where others see the claim: it is not left behind if the caller goes away.
async fn see_through(
    engine: &Arc<Engine>,
    taken: Taken,
    window: &Window,
    lock: Duration,
) -> Result<Option<Fetched>, Error> {
    let give_back =
        |engine: Arc<Engine>, token: String| async move { super::abandon(&engine, &token, None, true).await }.boxed();
    let (owned, window) = (Arc::clone(engine), window.clone());
    let fetch = async move { prepare(&owned, taken, &window, lock).await };
    shared::see_through(engine, fetch, give_back).await
}

/// Reads a turn of a store that belongs to this process.
async fn read(engine: &Arc<Engine>, taken: &mut Taken, window: &Window) -> Result<Option<Prepared>, Error> {
    let snapshot = engine.snapshot(&taken.instance).await?;
    if snapshot.head().is_some_and(|head| head.condemned.is_some()) {
        taken.put_off(PUT_OFF_MS);
        return Ok(None);
    }
    let pin = Pin::of(snapshot.head().and_then(|head| head.execution.pinned.as_ref()));
    let admitted = window.admits(&pin);
    engine.board.lock().0.pin(&taken.instance, pin);
    if !admitted {
        return Ok(None);
    }
    let messages = open(engine, taken).await?;
    let Some((name, version)) = name(&snapshot, &messages) else {
        orphans(engine, taken).await?;
        return Ok(None);
    };
    match note(engine, taken).await {
        // The instance is being deleted, or a fetch that was dropped has just counted its messages.
        Err(Error::Conflict { .. }) => {
            taken.put_off(PUT_OFF_MS);
            return Ok(None);
        }
        outcome => outcome?,
    }
    let attempts = taken.letters.iter().map(|(_, letter)| letter.attempts);
    Ok(Some(Prepared {
        attempt: attempts.max().unwrap_or(1),
        snapshot,
        messages,
        name,
        version,
    }))
}

/// Claims and reads a turn of a store that many processes share.
async fn read_shared(
    engine: &Arc<Engine>,
    shared: &Shared,
    taken: &mut Taken,
    window: &Window,
    lock: Duration,
) -> Result<Option<Prepared>, Error> {
    let (snapshot, messages) = match secure::secure(engine, shared, taken, window, lock).await? {
        Secured::Ours(snapshot, messages) => (snapshot, messages),
        Secured::Busy(until_ms) => {
            let left_ms = until_ms.saturating_sub(engine.clock.now_ms());
            engine.board.lock().0.found_busy(&taken.instance);
            taken.put_off(left_ms.clamp(PUT_OFF_MS, BUSY_MS));
            return Ok(None);
        }
        Secured::Pinned(pin) => {
            engine.board.lock().0.pin(&taken.instance, pin);
            return Ok(None);
        }
        Secured::Nothing => return Ok(None),
    };
    let Some((name, version)) = name(&snapshot, &messages) else {
        match &snapshot.head {
            Some((head, version)) if head.is_blank() => {
                mailbox::orphan(engine, &taken.instance, &taken.letters, &messages, version.clone()).await?;
            }
            _ => {
                secure::release(engine, &taken.instance, &snapshot).await?;
                taken.set_aside(Aside::Orphaned);
            }
        }
        return Ok(None);
    };
    let attempts = taken.letters.iter().map(|(_, letter)| letter.attempts);
    let deliveries = snapshot.head.as_ref().map_or(1, |(head, _)| head.deliveries);
    Ok(Some(Prepared {
        attempt: attempts.max().unwrap_or_default() + deliveries,
        snapshot,
        messages,
        name,
        version,
    }))
}

fn hand_out(engine: &Engine, mut taken: Taken, prepared: Prepared, window: &Window, lock: Duration) -> Option<Fetched> {
    let handed = taken.handed();
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    // Reading may have taken longer than the lease. Whoever took the instance meanwhile has it.
    if !board.hold_again(&taken.instance, taken.claim) && !mutation::is(Mutation::HandOutLapsed) {
        drop(board);
        return None;
    }
    if !mutation::is(Mutation::LeaseFromFetchStart) {
        board.extend(taken.claim, later(now_ms, lock));
    }
    if let Some(claim) = board.claim(taken.claim) {
        claim.subject = Subject::Turn {
            instance: Arc::clone(&taken.instance),
            handed,
            snapshot: Some(Arc::clone(&prepared.snapshot)),
            window: window.clone(),
        };
    }
    taken.kept = true;
    drop(board);
    let token = engine.board.token(taken.claim);
    let Prepared {
        snapshot,
        messages,
        name,
        version,
        attempt,
    } = prepared;
    trace!(instance = %taken.instance, messages = messages.len(), attempt, "turn handed out");
    Some((
        item(&taken.instance, &snapshot, name, version, messages),
        token,
        attempt,
    ))
}

fn item(
    instance: &str,
    snapshot: &Snapshot,
    name: String,
    version: String,
    messages: Vec<WorkItem>,
) -> OrchestrationItem {
    let head = snapshot.head();
    let damage = snapshot.history.damage();
    OrchestrationItem {
        instance: instance.to_string(),
        orchestration_name: name,
        execution_id: head.map_or(INITIAL_EXECUTION_ID, |head| head.execution.id),
        version,
        history: if damage.is_some() {
            Vec::new()
        } else {
            snapshot.history.events()
        },
        messages,
        history_error: damage.map(str::to_string),
        kv_snapshot: match (head, damage) {
            (Some(head), None) => snapshot.kv.snapshot(head.kv_epoch),
            _ => HashMap::new(),
        },
    }
}

/// What the workflow is called: by its head, its history, or the message that starts it.
fn name(snapshot: &Snapshot, messages: &[WorkItem]) -> Option<(String, String)> {
    let unknown = || "unknown".to_string();
    if let Some(head) = snapshot.head()
        && let Some(name) = &head.name
    {
        return Some((name.clone(), head.version.clone().unwrap_or_else(unknown)));
    }
    let started = messages.iter().find_map(|message| match message {
        WorkItem::StartOrchestration {
            orchestration, version, ..
        }
        | WorkItem::ContinueAsNew {
            orchestration, version, ..
        } => Some((orchestration.clone(), version.clone().unwrap_or_else(unknown))),
        _ => None,
    });
    let unnamed = || snapshot.history.damage().map(|_| (unknown(), unknown()));
    snapshot.history.started_as().or(started).or_else(unnamed)
}

/// The messages themselves. What is not in memory is read from the store.
pub async fn open(engine: &Engine, taken: &Taken) -> Result<Vec<WorkItem>, Error> {
    let mut messages = Vec::with_capacity(taken.letters.len());
    for (_, letter) in &taken.letters {
        match &letter.body {
            Body::Held(item) => messages.push(WorkItem::clone(item)),
            Body::Stored => {
                let key = message::key(&taken.instance, &letter.id);
                if let Some(record) = engine.store.get(&key).await? {
                    messages.push(Envelope::open(&record)?.item);
                }
            }
        }
    }
    Ok(messages)
}

/// Messages to an instance that does not exist: those for its queues are dropped, others wait for a start.
async fn orphans(engine: &Arc<Engine>, taken: &mut Taken) -> Result<(), Error> {
    if taken.letters.iter().any(|(_, letter)| letter.sort != Sort::Queue) {
        taken.set_aside(Aside::Orphaned);
        return Ok(());
    }
    let orders = taken.orders();
    let now_ms = engine.clock.now_ms();
    let remove = taken
        .handed()
        .iter()
        .map(|handed| outbox::consumption(engine, &taken.instance, handed, now_ms))
        .collect::<Result<Vec<Op>, Error>>()?;
    if remove.iter().any(|op| op.draft().is_some()) {
        engine.housekeeper.call(engine);
    }
    engine.commit(Commit::new(remove).relaxed()).await?;
    engine.board.lock().0.consume(&taken.instance, &orders);
    Ok(())
}

/// Writes delivery counts down where memory is not enough: a message that was delivered before, or that was
/// there when the store was opened, may be the one that brings the process down.
async fn note(engine: &Arc<Engine>, taken: &Taken) -> Result<(), Error> {
    let mut ops = Vec::new();
    let mut noted = Vec::new();
    let mut durability = note_durability(false);
    for (order, letter) in taken
        .letters
        .iter()
        .filter(|(_, letter)| letter.old || letter.attempts > 1)
    {
        let key = message::key(&taken.instance, &letter.id);
        let item = match &letter.body {
            Body::Held(item) => Arc::clone(item),
            Body::Stored => match engine.store.get(&key).await? {
                Some(record) => Arc::new(Envelope::open(&record)?.item),
                None => continue,
            },
        };
        if letter.old {
            durability = note_durability(true);
        }
        let place = Place {
            lane: engine.queues.turn(),
            order: *order,
            due_ms: letter.due_ms,
        };
        let from = letter.from.as_ref().map(|origin| &origin.from);
        let draft = message::draft(&taken.instance, &letter.id, &item, place, letter.attempts, from)?;
        noted.push((*order, letter.attempts, ops.len()));
        ops.push(Op::Replace(draft, letter.version.clone()));
    }
    if ops.is_empty() {
        return Ok(());
    }
    let commit = Commit {
        ops,
        durability,
        ..Commit::default()
    };
    let (engine, instance) = (Arc::clone(engine), Arc::clone(&taken.instance));
    Shield::new(async move {
        let committed = engine.commit(commit).await?;
        let (mut board, _) = engine.board.lock();
        for (order, attempts, op) in noted {
            board.noted(&instance, order, attempts, written(&committed, op));
        }
        Ok(())
    })
    .await
}

//! Handing out a turn.

use crate::board::{Body, ClaimId, Letter, Pin, Sort, Subject, Waiting, Want, Window, waited};
use crate::engine::{Engine, later};
use crate::instance::Snapshot;
use crate::mutation::{self, Mutation};
use crate::outbox;
use crate::queued::{PUT_OFF_MS, note_durability, written};
use crate::records::envelope::Envelope;
use crate::records::message;
use crate::redo::messages_per_turn;
use crate::shield::Shield;
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, ProviderError, WorkItem};
use perennial_store::{Commit, Error, Op, Order};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, trace};

const OPERATION: &str = "fetch_orchestration_item";

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
    loop {
        // If the clock is put back, the wait does not become longer by that.
        deadline_ms = deadline_ms.min(later(engine.clock.now_ms(), poll));
        if let Some(taken) = take(engine, &window, lock, poll.is_zero(), waiting.as_ref()) {
            drop(waiting.take());
            match prepare(engine, taken, &window, lock).await {
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
            return Ok(None);
        } else if let Some(waiting) = &waiting {
            waiting.sleep(deadline_ms).await;
            // Completions that became durable together should be one turn: let their senders post them first.
            tokio::task::yield_now().await;
        } else {
            waiting = Some(engine.board.wait(Want::Turn(window.clone())));
        }
    }
}

/// A claim on an instance that has not been handed out yet; dropped, it never was.
struct Taken<'a> {
    engine: &'a Engine,
    claim: ClaimId,
    instance: Arc<str>,
    letters: Vec<(Order, Letter)>,
    kept: bool,
}

/// Why messages are set aside.
enum Aside {
    /// Their instance does not exist.
    Orphaned,
    /// Something cannot be read.
    Damaged,
}

impl Taken<'_> {
    fn orders(&self) -> Vec<Order> {
        self.letters.iter().map(|(order, _)| *order).collect()
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
    fn put_off(&mut self) {
        let orders = self.orders();
        let (mut board, now_ms) = self.engine.board.lock();
        board.uncount(&self.instance, &orders);
        if board.hold_again(&self.instance, self.claim) {
            board.extend(self.claim, now_ms + PUT_OFF_MS);
        }
        self.kept = true;
    }
}

impl Drop for Taken<'_> {
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

fn take<'a>(
    engine: &'a Engine,
    window: &Window,
    lock: Duration,
    at_once: bool,
    waiting: Option<&Waiting>,
) -> Option<Taken<'a>> {
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
        orders: Vec::new(),
        snapshot: None,
    };
    let claim = board.make_claim(subject, later(now_ms, lock));
    let letters = board.hold(
        &instance,
        claim,
        messages_per_turn(engine.store.limits().ops_per_commit),
    );
    drop(board);
    if let Some((order, letter)) = letters.first() {
        let waited = waited(*order, letter.due_ms, now_ms);
        engine.meters.turn_wait.record(waited);
        engine.meters.oldest_turn.set(waited);
    }
    Some(Taken {
        engine,
        claim,
        instance,
        letters,
        kept: false,
    })
}

/// Reads what the turn needs. `None` if it turns out that there is none to hand out.
async fn prepare(
    engine: &Arc<Engine>,
    mut taken: Taken<'_>,
    window: &Window,
    lock: Duration,
) -> Result<Option<Fetched>, Error> {
    let snapshot = match engine.snapshot(&taken.instance).await {
        Err(Error::Corrupt(why)) => {
            error!(instance = %taken.instance, why, "the head of an instance cannot be read: the instance is set aside");
            taken.set_aside(Aside::Damaged);
            return Ok(None);
        }
        other => other?,
    };
    if snapshot.head().is_some_and(|head| head.condemned.is_some()) {
        taken.put_off();
        return Ok(None);
    }
    let pin = Pin::of(snapshot.head().and_then(|head| head.execution.pinned.as_ref()));
    let admitted = window.admits(&pin);
    engine.board.lock().0.pin(&taken.instance, pin);
    if !admitted {
        return Ok(None);
    }
    let messages = match open(engine, &taken).await {
        Err(Error::Corrupt(why)) => {
            error!(instance = %taken.instance, why, "a message cannot be read: the instance is set aside");
            taken.set_aside(Aside::Damaged);
            return Ok(None);
        }
        other => other?,
    };
    let Some((name, version)) = name(&snapshot, &messages) else {
        orphans(engine, taken).await?;
        return Ok(None);
    };
    match note(engine, &taken).await {
        // The instance is being deleted, or a fetch that was dropped has just counted its messages.
        Err(Error::Conflict { .. }) => {
            taken.put_off();
            return Ok(None);
        }
        outcome => outcome?,
    }
    let attempt = taken
        .letters
        .iter()
        .map(|(_, letter)| letter.attempts)
        .max()
        .unwrap_or(1);
    let orders = taken.orders();
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    // Reading may have taken longer than the lease. Whoever took the instance meanwhile has it.
    if !board.hold_again(&taken.instance, taken.claim) && !mutation::is(Mutation::HandOutLapsed) {
        drop(board);
        return Ok(None);
    }
    if !mutation::is(Mutation::LeaseFromFetchStart) {
        board.extend(taken.claim, later(now_ms, lock));
    }
    if let Some(claim) = board.claim(taken.claim) {
        claim.subject = Subject::Turn {
            instance: Arc::clone(&taken.instance),
            orders,
            snapshot: Some(Arc::clone(&snapshot)),
        };
    }
    taken.kept = true;
    drop(board);
    let token = engine.board.token(taken.claim);
    trace!(instance = %taken.instance, messages = messages.len(), attempt, "turn handed out");
    Ok(Some((
        item(&taken.instance, &snapshot, name, version, messages),
        token,
        attempt,
    )))
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
async fn open(engine: &Engine, taken: &Taken<'_>) -> Result<Vec<WorkItem>, Error> {
    let mut messages = Vec::with_capacity(taken.letters.len());
    for (order, letter) in &taken.letters {
        match &letter.body {
            Body::Held(item) => messages.push(WorkItem::clone(item)),
            Body::Stored => {
                let key = letter.key(&taken.instance, *order);
                if let Some(record) = engine.store.get(&key).await? {
                    messages.push(Envelope::open(&record)?.item);
                }
            }
        }
    }
    Ok(messages)
}

/// Messages to an instance that does not exist: those for its queues are dropped, others wait for a start.
async fn orphans(engine: &Arc<Engine>, mut taken: Taken<'_>) -> Result<(), Error> {
    if taken.letters.iter().any(|(_, letter)| letter.sort != Sort::Queue) {
        taken.set_aside(Aside::Orphaned);
        return Ok(());
    }
    let orders = taken.orders();
    let now_ms = engine.clock.now_ms();
    let remove = taken
        .letters
        .iter()
        .map(|(order, letter)| outbox::consumption(&taken.instance, *order, letter.from.as_deref(), now_ms))
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
async fn note(engine: &Arc<Engine>, taken: &Taken<'_>) -> Result<(), Error> {
    let mut ops = Vec::new();
    let mut noted = Vec::new();
    let mut durability = note_durability(false);
    for (order, letter) in taken
        .letters
        .iter()
        .filter(|(_, letter)| letter.old || letter.attempts > 1)
    {
        let key = letter.key(&taken.instance, *order);
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
        let from = letter.from.as_ref().map(|origin| &origin.from);
        let draft = message::draft_from(&taken.instance, &item, *order, letter.due_ms, letter.attempts, from)?;
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

//! Handing out a turn.

use super::prepare::{self, Prepared};
use crate::board::{ClaimId, Handed, Pin, QueuedMessage, Reservation, Subject, Waiting, Want, Window, waited};
use crate::engine::{Engine, deadline, later};
use crate::instance::Snapshot;
use crate::mutation::mutant;
use crate::redo::messages_per_turn;
use crate::shared::{self};
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, ProviderError, WorkItem};
use futures::FutureExt;
use perennial_store::{Error, Order};
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
    let mut deadline_ms = deadline(engine.clock.now_ms(), poll);
    let mut waiting: Option<Waiting> = None;
    let mut patient = true;
    // Who does not wait looks for himself.
    let mut look = poll.is_zero();
    if let Some(shared) = &engine.shared {
        shared.saw_turn_lock(lock);
        shared::poll_first(engine, &Want::Turn(window.clone())).await;
    }
    loop {
        // If the clock is put back, the wait does not become longer by that.
        deadline_ms = deadline_ms.min(deadline(engine.clock.now_ms(), poll));
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
            if !std::mem::take(&mut look) || !shared::poll_now(engine, &Want::Turn(window.clone())).await {
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
pub struct ClaimGuard {
    engine: Arc<Engine>,
    pub claim: ClaimId,
    pub instance: Arc<str>,
    pub queued_messages: Vec<(Order, QueuedMessage)>,
    /// The claim that was made in advance, on a store that many share.
    pub reserved: Option<Reservation>,
    kept: bool,
}

/// Why messages are set aside.
pub enum Aside {
    /// Their instance does not exist.
    Orphaned,
    /// Something cannot be read.
    Damaged,
}

impl ClaimGuard {
    pub fn orders(&self) -> Vec<Order> {
        self.queued_messages.iter().map(|(order, _)| *order).collect()
    }

    pub fn handed(&self) -> Vec<Handed> {
        let handed = |(order, queued): &(Order, QueuedMessage)| Handed {
            order: *order,
            id: queued.id.clone(),
            version: queued.version.clone(),
            inline: queued.inline,
            sort: queued.sort,
            origin: queued.from.clone(),
        };
        self.queued_messages.iter().map(handed).collect()
    }

    /// Takes the messages out of everybody's way.
    pub fn set_aside(&mut self, why: Aside) {
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
    pub fn put_off(&mut self, for_ms: u64) {
        let orders = self.orders();
        let (mut board, now_ms) = self.engine.board.lock();
        board.uncount(&self.instance, &orders);
        if board.hold_again(&self.instance, self.claim) {
            board.extend(self.claim, now_ms + for_ms);
        }
        self.kept = true;
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if !self.kept {
            let orders = self.orders();
            let (mut board, now_ms) = self.engine.board.lock();
            board.uncount(&self.instance, &orders);
            board.drop_claim(self.claim);
            mutant!(DropClaimed, {}, board.let_go(&self.instance, self.claim, now_ms));
        }
    }
}

fn take(
    engine: &Arc<Engine>,
    window: &Window,
    lock: Duration,
    at_once: bool,
    waiting: Option<&Waiting>,
) -> Option<ClaimGuard> {
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
    let claim = board.make_claim(subject, now_ms, lock);
    let most = messages_per_turn(engine.store.limits().ops_per_commit);
    let queued_messages = board.hold(&instance, claim, most);
    let reserved = board.take_reservation(&instance);
    drop(board);
    if let Some((order, queued)) = queued_messages.first() {
        let waited = waited(*order, queued.due_ms, now_ms);
        engine.meters.turn_wait.record(waited);
        engine.meters.oldest_turn.set(waited);
    }
    Some(ClaimGuard {
        engine: Arc::clone(engine),
        claim,
        instance,
        queued_messages,
        reserved,
        kept: false,
    })
}

/// Reads what the turn needs and hands it out. `None` if it turns out that there is none.
async fn prepare(
    engine: &Arc<Engine>,
    mut taken: ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Option<Fetched>, Error> {
    match prepare::prepare(engine, &mut taken, window, lock).await {
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
    taken: ClaimGuard,
    window: &Window,
    lock: Duration,
) -> Result<Option<Fetched>, Error> {
    let give_back =
        |engine: Arc<Engine>, token: String| async move { super::abandon(&engine, &token, None, true).await }.boxed();
    let (owned, window) = (Arc::clone(engine), window.clone());
    let fetch = async move { prepare(&owned, taken, &window, lock).await };
    shared::see_through(engine, fetch, give_back).await
}

fn hand_out(
    engine: &Engine,
    mut taken: ClaimGuard,
    prepared: Prepared,
    window: &Window,
    lock: Duration,
) -> Option<Fetched> {
    let handed = taken.handed();
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    // Reading may have taken longer than the lease. Whoever took the instance meanwhile has it.
    let is_ours = board.hold_again(&taken.instance, taken.claim);
    if !mutant!(HandOutLapsed, true, is_ours) {
        drop(board);
        return None;
    }
    mutant!(LeaseFromFetchStart, {}, board.extend(taken.claim, later(now_ms, lock)));
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

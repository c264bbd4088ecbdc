//! Handing out a turn.

use super::prepare::Prepared;
use crate::board::{ClaimId, Handed, Pin, QueuedMessage, Reservation, Subject, Waiting, Want, Window, waited};
use crate::engine::{Engine, deadline, later};
use crate::instance::Snapshot;
use crate::long_poll::{Fetch, long_poll};
use crate::mutation::mutant;
use crate::redo::messages_per_turn;
use crate::tuning::DELIVERY_WAIT;
use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, ProviderError, WorkItem};
use perennial_store::{Error, Order};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, trace};

/// A turn as the runtime takes it: the item, the token, and how often it was handed out.
pub type Fetched = (OrchestrationItem, String, u32);

/// A dispatcher that has come for a turn.
struct Dispatcher {
    window: Window,
    lock: Duration,
    /// Whether it does not wait for new work.
    at_once: bool,
    /// Whether it may still wait for what is on its way from other instances.
    patient: bool,
}

impl Fetch for Dispatcher {
    type Guard = ClaimGuard;
    type Fetched = Fetched;

    const OPERATION: &'static str = "fetch_orchestration_item";

    fn want(&self) -> Want {
        Want::Turn(self.window.clone())
    }

    fn take(&self, engine: &Arc<Engine>, waiting: Option<&Waiting>) -> Option<ClaimGuard> {
        take(engine, &self.window, self.lock, self.at_once, waiting)
    }

    async fn acquire(&self, engine: &Arc<Engine>, guard: ClaimGuard) -> Result<Option<Fetched>, Error> {
        engine.mode.acquire_turn(engine, guard, &self.window, self.lock).await
    }

    /// A dispatcher that does not wait gets what was sent before it came, all the same.
    async fn linger(&mut self, engine: &Arc<Engine>) -> bool {
        if !self.at_once || !std::mem::take(&mut self.patient) || !engine.outbox.is_busy() {
            return false;
        }
        tokio::select! {
            () = engine.outbox.idle() => {}
            () = engine.clock.sleep(DELIVERY_WAIT) => {}
        }
        true
    }

    /// Completions that became durable together should be one turn: let their senders post them first.
    async fn woken(&self) {
        tokio::task::yield_now().await;
    }
}

/// Hands out the oldest turn that the filter admits, waiting for one until `poll` has passed.
pub async fn fetch(
    engine: &Arc<Engine>,
    lock: Duration,
    poll: Duration,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Option<Fetched>, ProviderError> {
    let mut dispatcher = Dispatcher {
        window: Window::of(filter),
        lock,
        at_once: poll.is_zero(),
        patient: true,
    };
    let deadline_ms = deadline(engine.clock.now_ms(), poll);
    engine.mode.begin_turns(engine, &dispatcher.want(), lock).await;
    long_poll(engine, &mut dispatcher, poll, deadline_ms).await
}

/// A claim on an instance that has not been handed out yet; if it is dropped, the claim is undone.
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

    /// Takes the messages off the queue, so that they block nothing.
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

    /// Keeps the claim for a moment, until it is clear what another task or process is doing to the messages.
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

/// Hands out a turn that was read. `None` if there is none, or something of it cannot be read.
pub fn hand_out(
    engine: &Engine,
    mut guard: ClaimGuard,
    prepared: Result<Option<Prepared>, Error>,
    window: &Window,
    lock: Duration,
) -> Result<Option<Fetched>, Error> {
    match prepared {
        Ok(Some(prepared)) => Ok(start_lease(engine, guard, prepared, window, lock)),
        Ok(None) => Ok(None),
        Err(Error::Corrupt(why)) => {
            error!(instance = %guard.instance, why, "something of an instance cannot be read: it is set aside");
            guard.set_aside(Aside::Damaged);
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

fn start_lease(
    engine: &Engine,
    mut guard: ClaimGuard,
    prepared: Prepared,
    window: &Window,
    lock: Duration,
) -> Option<Fetched> {
    let handed = guard.handed();
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    // Reading may have taken longer than the lease. A dispatcher that took the instance meanwhile has it.
    let is_ours = board.hold_again(&guard.instance, guard.claim);
    if !mutant!(HandOutLapsed, true, is_ours) {
        drop(board);
        return None;
    }
    mutant!(LeaseFromFetchStart, {}, board.extend(guard.claim, later(now_ms, lock)));
    if let Some(claim) = board.claim(guard.claim) {
        claim.subject = Subject::Turn {
            instance: Arc::clone(&guard.instance),
            handed,
            snapshot: Some(Arc::clone(&prepared.snapshot)),
            window: window.clone(),
        };
    }
    guard.kept = true;
    drop(board);
    let token = engine.board.token(guard.claim);
    let Prepared {
        snapshot,
        messages,
        name,
        version,
        attempt,
    } = prepared;
    trace!(instance = %guard.instance, messages = messages.len(), attempt, "turn handed out");
    Some((
        item(&guard.instance, &snapshot, name, version, messages),
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

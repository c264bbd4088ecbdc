//! Finishing a turn: one commit, fenced by the version of the instance's head.

use super::ordered;
use super::plan::{DuplicateEvent, Plan, TurnContext, check_events, plan};
use crate::board::{ClaimId, Inner, Mark, Pin, Reservation, Subject};
use crate::engine::Engine;
use crate::error::{dead_token, from_store};
use crate::instance::{self, Snapshot};
use crate::mutation::mutant;
use crate::outbox;
use crate::queued::{NewActivity, NewMessage, written};
use crate::read::Freshness;
use crate::records::{message, partition};
use crate::redo::{self, Outcome};
use crate::send::slot_of;
use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem};
use perennial_store::{Committed, Error, Order};
use std::collections::BTreeSet;
use std::sync::Arc;
use tracing::{Instrument, debug, debug_span};

pub(super) const OPERATION: &str = "ack_orchestration_item";

/// What a turn wants to become durable.
#[derive(Default)]
pub struct Turn {
    /// The execution that it belongs to.
    pub execution: u64,
    /// What happened.
    pub events: Vec<Event>,
    /// Activities to queue.
    pub activities: Vec<WorkItem>,
    /// Messages to send, to this instance or others.
    pub messages: Vec<WorkItem>,
    /// Activities to cancel: instance, execution, id.
    pub cancelled: BTreeSet<(String, u64, u64)>,
    /// The state of the execution, if it changes.
    pub status: Option<String>,
    /// Its output.
    pub output: Option<String>,
    /// The workflow's name.
    pub name: Option<String>,
    /// The workflow's version.
    pub version: Option<String>,
    /// The instance's parent.
    pub parent: Option<String>,
    /// The runtime version that the execution is bound to.
    pub pinned: Option<semver::Version>,
}

impl Turn {
    /// A turn as the runtime gives it.
    pub fn new(
        execution: u64,
        events: Vec<Event>,
        activities: Vec<WorkItem>,
        messages: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled: Vec<ScheduledActivityIdentifier>,
    ) -> Self {
        let cancelled = cancelled
            .into_iter()
            .map(|one| (one.instance, one.execution_id, one.activity_id))
            .collect();
        Self {
            execution,
            events,
            activities,
            messages,
            cancelled,
            status: metadata.status,
            output: metadata.output,
            name: metadata.orchestration_name,
            version: metadata.orchestration_version,
            parent: metadata.parent_instance_id,
            pinned: metadata.pinned_duroxide_version,
        }
    }
}

/// Makes a turn durable and ends its claim.
pub async fn ack(engine: &Arc<Engine>, token: &str, turn: Turn) -> Result<(), ProviderError> {
    let id = engine.board.claim_of(token).ok_or_else(|| dead_token(OPERATION))?;
    let gate = engine
        .mode
        .enter(engine, id)
        .await
        .ok_or_else(|| dead_token(OPERATION))?;
    let context = begin(engine, id, &turn).ok_or_else(|| dead_token(OPERATION))?;
    let span = debug_span!("turn", instance = %context.instance, execution = turn.execution,
        turn = context.snapshot.head().map_or(0, |head| head.turns));
    let (engine, spawner) = (Arc::clone(engine), engine.spawner);
    let finish = async move {
        let _gate = gate;
        finish(&engine, id, context, turn).await
    };
    spawner.shield(finish.instrument(span)).await
}

/// Checks the claim, and keeps it from running out while the commit is under way.
fn begin(engine: &Engine, id: ClaimId, turn: &Turn) -> Option<TurnContext> {
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    let claim = board.live_claim(id, now_ms)?;
    let Subject::Turn {
        instance,
        handed,
        snapshot: Some(snapshot),
        ..
    } = claim.subject.clone()
    else {
        return None;
    };
    claim.committing = mutant!(SkipFence, false, true);
    // Where there is no head, nothing fences the turn: the deletion that took the head may have taken the messages, too.
    if snapshot.head.is_none() && board.is_deleting(&instance) {
        board.end_commit(id, now_ms);
        return None;
    }
    let mut cancelled = Vec::new();
    for (instance, execution, activity) in &turn.cancelled {
        mutant!(IgnoreCancelled, break);
        for order in board
            .work()
            .of_activity(&Arc::from(instance.as_str()), *execution, *activity)
        {
            cancelled.extend(board.work().activity(*order).map(|queued| (*order, queued.key.clone())));
        }
    }
    let lease = engine.mode.next_lease(now_ms, || {
        let here = |item: &WorkItem| message::target(item) == Some(&*instance) && message::due_ms(item) <= now_ms;
        turn.messages.iter().any(here) || board.has_more(&instance, &handed)
    });
    Some(TurnContext {
        instance,
        snapshot,
        handed,
        cancelled,
        ended: None,
        deliveries: u32::from(lease.is_some()),
        lease,
        overtaken: false,
    })
}

async fn finish(engine: &Arc<Engine>, id: ClaimId, mut context: TurnContext, turn: Turn) -> Result<(), ProviderError> {
    let planned = match plan_turn(engine, &mut context, turn).await {
        Ok(planned) if engine.mode.orders(engine, &planned.plan.commit) => {
            return ordered::finish(engine, id, context, planned).await;
        }
        planned => planned,
    };
    let done = match planned {
        Ok(planned) => commit(engine, &mut context, planned).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(done) => {
            engine.meters.turns.increment(1);
            conclude(engine, context, done, Some(id));
            debug!("turn committed");
            Ok(())
        }
        Err(error) => {
            engine
                .mode
                .turn_failed(engine, id, &context.instance, context.overtaken);
            Err(error)
        }
    }
}

/// A turn that is durable, and the messages that it sends until the board knows of them.
type Done = (Plan, Outcome, Mark);

/// A turn that is ready to be committed.
pub struct Planned {
    pub plan: Plan,
    /// The instances that it sends messages to, until the board has them.
    pub arriving: Mark,
}

/// Draws up the commit of a turn.
async fn plan_turn(engine: &Engine, context: &mut TurnContext, turn: Turn) -> Result<Planned, ProviderError> {
    let failed = |e: Error| from_store(OPERATION, &e);
    context.ended = other_execution(engine, context, turn.execution).await.map_err(failed)?;
    if let Some(cancelled) = engine.mode.find_cancelled(engine, &turn).await.map_err(failed)? {
        context.cancelled = cancelled;
    }
    check_events(context, &turn).map_err(|DuplicateEvent(event)| {
        let message = format!(
            "Duplicate event: execution {} already has an event {event}",
            turn.execution
        );
        ProviderError::permanent(OPERATION, message)
    })?;
    outbox::await_intents(
        engine,
        context.handed.iter().filter_map(|handed| handed.origin.as_deref()),
    )
    .await;
    let plan = plan(engine, context, turn).map_err(failed)?;
    mutant!(PublishBeforeCommit, {
        let (mut board, now_ms) = engine.board.lock();
        for new_activity in &plan.new_activities {
            let queued = new_activity.queued(perennial_store::Version::number(0));
            board.offer(new_activity.order, queued, now_ms);
        }
    });
    let others = plan.new_messages.iter().map(|new_message| &new_message.instance);
    let others = others.filter(|other| **other != context.instance).cloned().collect();
    let arriving = engine.board.announce(others);
    Ok(Planned { plan, arriving })
}

/// Makes a turn durable.
async fn commit(engine: &Engine, context: &mut TurnContext, planned: Planned) -> Result<Done, ProviderError> {
    let Planned { mut plan, arriving } = planned;
    let commit = std::mem::take(&mut plan.commit);
    let outcome = redo::commit(engine, &plan.head, commit).await;
    context.overtaken = matches!(outcome, Err(Error::Conflict { .. }));
    let outcome = outcome.map_err(|e| from_store(OPERATION, &e))?;
    Ok((plan, outcome, arriving))
}

/// Makes memory agree with a turn that is durable, when all of it is stored.
fn conclude(engine: &Arc<Engine>, context: TurnContext, (plan, outcome, arriving): Done, claim: Option<ClaimId>) {
    let rest = match outcome {
        Outcome::Done(committed) => return publish(engine, &context, plan, &committed, claim),
        Outcome::Pending(rest) => rest,
    };
    // What is cached of the instance is old by now; the next read finishes the turn.
    engine.cache.forget(&context.instance, slot_of(&context.instance));
    let owned = Arc::clone(engine);
    engine.spawner.spawn(async move {
        if let Some(committed) = rest.roll_on(&owned).await {
            publish(&owned, &context, plan, &committed, claim);
        }
        drop(arriving);
    });
}

/// The record of an execution that the plan needs beside the current one; usually there is none.
async fn other_execution(
    engine: &Engine,
    context: &TurnContext,
    execution: u64,
) -> Result<Option<crate::records::execution::Ended>, Error> {
    let Some(current) = context.snapshot.head().map(|head| &head.execution) else {
        return Ok(None);
    };
    let wanted = match execution.cmp(&current.id) {
        std::cmp::Ordering::Less => Some(execution),
        std::cmp::Ordering::Greater => (current.recorded && !current.fresh).then_some(current.id),
        std::cmp::Ordering::Equal => None,
    };
    match wanted {
        None => Ok(None),
        Some(wanted) => instance::ended(&*engine.store, &partition(&context.instance), wanted).await,
    }
}

/// Makes memory agree with what was committed, in this order:
///
/// 1. the cache, so that a dispatcher or client which the board wakes finds the instance as it is now;
/// 2. the board, in one step under its lock: what was consumed is gone before the claim ends, and what is new is there, so
///    that no dispatcher takes the instance with messages of a turn that is over;
/// 3. what makes requests of its own: they may do so only for what is known here by now.
pub(super) fn publish(
    engine: &Arc<Engine>,
    context: &TurnContext,
    plan: Plan,
    committed: &Committed,
    claim: Option<ClaimId>,
) {
    let instance = &context.instance;
    let Plan {
        head,
        history,
        kv,
        custom,
        new_messages,
        new_activities,
        withdrawn,
        intents,
        tombs,
        commit: _,
    } = plan;
    let pin = Pin::of(head.execution.pinned.as_ref());
    let began_ms = head.updated_ms;
    let snapshot = committed.version(0).cloned().map(|version| {
        Arc::new(Snapshot {
            head: Some((head, version)),
            history,
            kv,
            custom,
        })
    });
    cache(engine, instance, snapshot.as_ref(), began_ms);
    let ahead = new_activities.iter().any(|activity| activity.reserved_ms > 0);
    let left = new_activities.iter().any(|activity| activity.reserved_ms == 0);
    let pins: Vec<Pin> = new_messages
        .iter()
        .map(|new_message| engine.known_pin(&new_message.instance))
        .collect();
    {
        let (mut board, now_ms) = engine.board.lock();
        let consumed: Vec<Order> = context.handed.iter().map(|handed| handed.order).collect();
        board.consume(instance, &consumed);
        for order in withdrawn {
            board.withdraw(order);
        }
        bring_activities(&mut board, new_activities, committed, now_ms);
        let made = bring_messages(
            &mut board,
            instance,
            new_messages.into_iter().zip(pins),
            committed,
            now_ms,
        );
        board.pin(instance, pin);
        if let (Some(lease), Some(snapshot), Some(_)) = (&context.lease, snapshot, claim) {
            let reservation = Reservation {
                snapshot,
                until_ms: lease.until_ms,
                over: None,
            };
            board.reserve(instance, reservation, &made);
        }
        let before = context.snapshot.head.as_ref().map(|(_, version)| version);
        board.wrote_head(instance, before, committed.version(0));
        if let Some(claim) = claim {
            board.drop_claim(claim);
            board.let_go(instance, claim, now_ms);
        }
    }
    engine.mode.scheduled(engine, ahead, left);
    outbox::dispatch(engine, &partition(instance), intents, committed);
    if tombs > 0 {
        engine.meters.tombs.increment(tombs as u64);
        engine.housekeeper.call(engine);
    }
}

/// Keeps the instance as a turn has made it; forgets it if something has happened to it since.
fn cache(engine: &Engine, instance: &Arc<str>, snapshot: Option<&Arc<Snapshot>>, began_ms: u64) {
    let slot = slot_of(instance);
    match snapshot {
        Some(snapshot) => mutant!(
            StaleSnapshot,
            {},
            engine.cache.put(instance, slot, Arc::clone(snapshot), began_ms)
        ),
        None => engine.cache.forget(instance, slot),
    }
}

/// Puts the activities on the board that a commit has brought and that are still as it wrote them.
fn bring_activities(board: &mut Inner, activities: Vec<NewActivity>, committed: &Committed, now_ms: u64) {
    for activity in activities {
        if let Some(version) = written(committed, activity.op) {
            board.bring_activity(activity.order, activity.queued(version), now_ms);
        }
    }
}

/// Puts the messages on the board that a commit has brought and that are still as it wrote them; returns those of its own
/// instance.
fn bring_messages(
    board: &mut Inner,
    instance: &Arc<str>,
    messages: impl Iterator<Item = (NewMessage, Pin)>,
    committed: &Committed,
    now_ms: u64,
) -> Vec<Order> {
    let mut own = Vec::new();
    for (message, pin) in messages {
        let Some(version) = written(committed, message.op) else {
            continue;
        };
        let queued = message.queued(version);
        let there = board.bring_message(&message.instance, message.order, queued, pin, now_ms);
        own.extend((there && message.instance == *instance).then_some(message.order));
    }
    own
}

/// Adds events to an execution outside any turn.
pub async fn append(
    engine: &Arc<Engine>,
    instance: &str,
    execution: u64,
    events: Vec<Event>,
) -> Result<(), ProviderError> {
    let instance: Arc<str> = Arc::from(instance);
    engine.outstanding.of(&instance).await;
    let snapshot = engine
        .read(&instance, Freshness::Latest)
        .await
        .map_err(|e| from_store("append_with_execution", &e))?;
    let raw = snapshot.head.as_ref().map(|(head, _)| head);
    let mut context = TurnContext {
        lease: raw.and_then(|head| head.lease.clone()),
        deliveries: raw.map_or(0, |head| head.deliveries),
        instance,
        snapshot,
        handed: Vec::new(),
        cancelled: Vec::new(),
        ended: None,
        overtaken: false,
    };
    let turn = Turn {
        execution,
        events,
        ..Turn::default()
    };
    let engine = Arc::clone(engine);
    engine
        .spawner
        .shield(async move {
            let planned = plan_turn(&engine, &mut context, turn).await?;
            let done = commit(&engine, &mut context, planned).await?;
            conclude(&engine, context, done, None);
            Ok(())
        })
        .await
}

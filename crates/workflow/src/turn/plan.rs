//! What a turn changes, as one commit.

use super::ack::Turn;
use super::commit_builder::CommitBuilder;
use crate::board::Handed;
use crate::engine::Engine;
use crate::instance::{History, Snapshot};
use crate::outbox::Intent;
use crate::queued::{NewActivity, NewMessage};
use crate::records::custom_status::CustomStatus;
use crate::records::execution::Ended;
use crate::records::head::{Head, Lease};
use crate::records::kv::Entries;
use perennial_store::{Commit, Key, Order, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// What is known before a turn is committed.
pub struct TurnContext {
    pub instance: Arc<str>,
    pub snapshot: Arc<Snapshot>,
    /// The messages that the turn consumes.
    pub handed: Vec<Handed>,
    /// Queued activities that the turn cancels.
    pub cancelled: Vec<(Order, Key)>,
    /// The record of the execution that the turn is of, if that is not the current one; or of the current one,
    /// if the turn is of a later one and the current one's record must be written again.
    pub ended: Option<Ended>,
    /// The lease that the head holds once the turn is committed, where many processes share the store.
    pub lease: Option<Lease>,
    /// How often its messages were handed out then.
    pub deliveries: u32,
    /// Whether another process has taken over: the commit met a version that it did not expect.
    pub overtaken: bool,
}

/// The commit of a turn and what it means for memory.
pub struct Plan {
    pub commit: Commit,
    /// The instance after the turn; its head's version is that of operation 0.
    pub head: Head,
    pub history: History,
    pub kv: Arc<Entries>,
    pub custom: Option<Arc<CustomStatus>>,
    pub new_messages: Vec<NewMessage>,
    pub new_activities: Vec<NewActivity>,
    pub withdrawn: Vec<Order>,
    /// Messages to other instances that the commit only intends.
    pub intents: Vec<Intent>,
    /// How many tombstones the commit leaves.
    pub tombs: usize,
}

/// The turn repeats an event.
#[derive(Debug)]
pub struct DuplicateEvent(pub u64);

/// Refuses a turn that repeats an event of its execution or of itself.
pub fn check_events(context: &TurnContext, turn: &Turn) -> Result<(), DuplicateEvent> {
    let current = context.snapshot.head().map(|head| &head.execution);
    let target = match current {
        Some(current) if current.id == turn.execution => Some(current),
        _ => context
            .ended
            .as_ref()
            .map(|ended| &ended.execution)
            .filter(|ended| ended.id == turn.execution),
    };
    let mut last = target.map_or(0, |execution| execution.last_event_id);
    let rising = turn
        .events
        .iter()
        .all(|event| event.event_id > std::mem::replace(&mut last, event.event_id));
    if rising {
        return Ok(());
    }
    let mut seen = HashSet::new();
    for event in &turn.events {
        let known = target.is_some_and(|target| event.event_id <= target.last_event_id)
            && (current.is_some_and(|current| current.id != turn.execution)
                || context.snapshot.history.damage().is_some()
                || context.snapshot.history.contains(event.event_id));
        if known || !seen.insert(event.event_id) {
            return Err(DuplicateEvent(event.event_id));
        }
    }
    Ok(())
}

/// Draws up the commit of a turn. Operation 0 is the head, which fences all the rest.
pub fn plan(engine: &Engine, context: &TurnContext, mut turn: Turn) -> Result<Plan> {
    let mut builder = CommitBuilder::new(engine, context, turn.execution);
    builder.consume()?;
    builder.advance(turn.execution)?;
    builder.identify(&turn);
    let page = builder.append(&mut turn)?;
    builder.key_values(&page.events)?;
    if matches!(turn.status.as_deref(), Some("Completed" | "Failed" | "ContinuedAsNew")) {
        builder.promote();
    }
    builder.custom_status(&page.events)?;
    builder.schedule(turn.activities, &turn.cancelled)?;
    builder.send(turn.messages)?;
    builder.seal(page.events.len() as u64)
}

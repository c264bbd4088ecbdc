//! What a turn needs before it is handed out.

use super::fetch::ClaimGuard;
use crate::board::Body;
use crate::engine::Engine;
use crate::instance::Snapshot;
use crate::records::message;
use duroxide::providers::WorkItem;
use perennial_store::{Error, Order};
use std::collections::HashSet;
use std::sync::Arc;
use tracing::error;

/// A turn that can be handed out.
pub struct Prepared {
    pub snapshot: Arc<Snapshot>,
    pub messages: Vec<WorkItem>,
    pub name: String,
    pub version: String,
    pub attempt: u32,
}

/// Name and version of the workflow: from its head, its history, or the message that starts it.
pub fn workflow_name(snapshot: &Snapshot, messages: &[WorkItem]) -> Option<(String, String)> {
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

/// Messages whose bodies were read.
pub struct Opened {
    pub items: Vec<WorkItem>,
    /// Messages that the store did not have, and that are not taken.
    pub missing: Vec<Order>,
}

/// The messages themselves. What is not in memory is read from the store; what is not there is not taken. A message that
/// cannot be read leaves the board, so that it harms only itself; the next opening of the store tries it again.
pub async fn open(engine: &Engine, guard: &mut ClaimGuard) -> Result<Opened, Error> {
    let mut items = Vec::with_capacity(guard.queued_messages.len());
    let (mut missing, mut damaged) = (Vec::new(), Vec::new());
    for (order, queued) in &guard.queued_messages {
        match &queued.body {
            Body::Held(item, _) => items.push(WorkItem::clone(item)),
            Body::Stored => match message::read(&*engine.store, &guard.instance, &queued.id).await {
                Ok(Some(envelope)) => items.push(envelope.item),
                Ok(None) => missing.push(*order),
                Err(Error::Corrupt(why)) => {
                    error!(instance = %guard.instance, id = %queued.id, why, "a message cannot be read: it is set aside");
                    engine.meters.quarantined.increment(1);
                    damaged.push(*order);
                }
                Err(other) => return Err(other),
            },
        }
    }
    engine.board.lock().0.forget_messages(&guard.instance, &damaged);
    let gone: HashSet<&Order> = missing.iter().chain(&damaged).collect();
    guard.queued_messages.retain(|(order, _)| !gone.contains(order));
    Ok(Opened { items, missing })
}

//! What a turn changes, as one commit.

use super::ack::Turn;
use super::{dedup, inline_message};
use crate::admin::totals;
use crate::board::Handed;
use crate::engine::Engine;
use crate::instance::{History, Snapshot};
use crate::mutation::mutant;
use crate::names;
use crate::outbox::{self, Intent};
use crate::queued::{NewActivity, NewMessage};
use crate::records::custom_status::CustomStatus;
use crate::records::execution::{Ended, Execution};
use crate::records::head::{Head, Lease};
use crate::records::kv::{Entries, Value};
use crate::records::page::Page;
use crate::records::work::Activity;
use crate::records::{message, partition};
use crate::shared;
use duroxide::{Event, EventKind};
use perennial_store::{Commit, Op, Order, Partition, Result};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// What is known before a turn is committed.
pub struct TurnContext {
    pub instance: Arc<str>,
    pub snapshot: Arc<Snapshot>,
    /// The messages that the turn consumes.
    pub handed: Vec<Handed>,
    /// Queued activities that the turn cancels.
    pub cancelled: Vec<(Order, perennial_store::Key)>,
    /// The record of the execution that the turn is of, if that is not the current one; or of the current one,
    /// if the turn is of a later one and the current one's record must be written again.
    pub ended: Option<Ended>,
    /// Who works on the instance once the turn is committed, where many processes share the store.
    pub lease: Option<Lease>,
    /// How often its messages were handed out then.
    pub deliveries: u32,
    /// Whether somebody else has taken over: the commit met a version that it did not expect.
    pub lost: bool,
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

struct CommitBuilder {
    partition: Partition,
    ops: Vec<Op>,
    now_ms: u64,
}

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

/// Draws up the commit of a turn.
pub fn plan(engine: &Engine, context: &TurnContext, turn: Turn) -> Result<Plan> {
    let now_ms = engine.clock.now_ms();
    let partition = partition(&context.instance);
    let mut draft = CommitBuilder {
        partition,
        ops: Vec::new(),
        now_ms,
    };
    let before = context.snapshot.head();
    let mut head = before.cloned().unwrap_or_else(|| Head::new(turn.execution, now_ms));
    let mut kv = Arc::clone(&context.snapshot.kv);
    let mut history = context.snapshot.history.clone();
    let mut custom = context.snapshot.custom.clone();
    let mut opened = u64::from(before.is_none());

    // Operation 0 is the head, filled in when everything else is known.
    let head_key = Head::key_in(draft.partition.clone());
    draft.ops.push(Op::Remove(head_key.clone()));
    for handed in context.handed.iter().filter(|handed| !handed.inline) {
        draft
            .ops
            .push(outbox::consumption(engine, &context.instance, handed, now_ms)?);
    }
    let raw = context.snapshot.head.as_ref();
    head.inline = raw.and_then(|(head, _)| inline_message::left(head, &context.handed));
    dedup::remember(engine, &mut head, &context.handed, now_ms);
    let tombs = draft.ops.iter().filter(|op| op.draft().is_some()).count();

    if turn.execution > head.execution.id {
        draft.archive(&head.execution, context.ended.as_ref())?;
        head.execution = Execution::new(turn.execution, now_ms);
        history = History::default();
        opened += 1;
    }
    identify(&mut head, &turn);
    let page = Arc::new(Page {
        events: turn.events,
        by: engine.shared.as_ref().map(|shared| Arc::clone(&shared.owner)),
    });
    let bytes = draft.page(&page, turn.execution, head.turns)?;
    head.turns += 1;
    head.updated_ms = now_ms;
    head.last_runner.clone_from(&page.by);
    if turn.execution == head.execution.id {
        extend(&mut head.execution, &page.events, bytes);
        draft.end(&mut head.execution, &turn.status, &turn.output, turn.pinned)?;
        if !page.events.is_empty() {
            history = history.with(Arc::clone(&page));
        }
    } else {
        opened += u64::from(context.ended.is_none());
        let mut ended = context.ended.clone().unwrap_or_else(|| Ended {
            execution: Execution::new(turn.execution, now_ms),
            output: None,
        });
        extend(&mut ended.execution, &page.events, bytes);
        let output = turn.output.clone().or_else(|| ended.output.clone());
        draft.end(&mut ended.execution, &turn.status, &output, turn.pinned)?;
        if turn.status.is_none() {
            draft.ops.push(Op::Put(ended.draft(&draft.partition)?));
        }
    }
    draft.key_values(&mut kv, &mut head, &page.events)?;
    if matches!(turn.status.as_deref(), Some("Completed" | "Failed" | "ContinuedAsNew")) {
        draft.promote(&mut kv, &mut head);
    }
    head.kv_keys = kv.0.len() as u64;
    if let Some(status) = last_custom_status(&page.events) {
        head.custom_version += 1;
        let status = CustomStatus {
            status,
            version: head.custom_version,
        };
        draft.ops.push(Op::Put(status.draft(&draft.partition)?));
        custom = Some(Arc::new(status));
    }

    let (new_activities, withdrawn) = draft.activities(engine, turn.activities, &turn.cancelled, &context.cancelled)?;
    let (new_messages, intents) = draft.messages(engine, turn.messages)?;

    (head.lease, head.deliveries) = (context.lease.clone(), context.deliveries);
    let written = head.draft(head_key)?;
    let fenced = mutant!(
        SkipFence,
        Op::Put(written),
        match &context.snapshot.head {
            None => Op::Create(written),
            Some((_, version)) => Op::Replace(written, version.clone()),
        }
    );
    if let Some(first) = draft.ops.first_mut() {
        *first = fenced;
    }
    let mut commit = Commit::new(draft.ops);
    totals::count_turn(&mut commit, before, &head, opened, page.events.len() as u64);
    Ok(Plan {
        commit,
        head,
        history,
        kv,
        custom,
        new_messages,
        new_activities,
        withdrawn,
        intents,
        tombs,
    })
}

/// A turn that tells both name and version names the instance; its parent is told only once.
fn identify(head: &mut Head, turn: &Turn) {
    if let (Some(name), Some(version)) = (&turn.name, &turn.version) {
        if head.name.is_none() {
            head.parent.clone_from(&turn.parent);
        }
        head.name = Some(name.clone());
        head.version = Some(version.clone());
    }
}

fn extend(execution: &mut Execution, events: &[Event], bytes: usize) {
    execution.events += events.len() as u64;
    execution.bytes += bytes as u64;
    let last = events.iter().map(|event| event.event_id).max().unwrap_or_default();
    execution.last_event_id = execution.last_event_id.max(last);
    execution.fresh &= events.is_empty();
}

fn last_custom_status(events: &[Event]) -> Option<Option<String>> {
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::CustomStatusUpdated { status } => Some(status.clone()),
        _ => None,
    })
}

/// For each item until when it is claimed for a worker of this process that waits for it; 0 if it is not.
fn reserved(engine: &Engine, items: &[duroxide::providers::WorkItem], now_ms: u64) -> Vec<u64> {
    let Some(shared) = engine.shared.as_ref().filter(|shared| !shared.work_lock().is_zero()) else {
        return vec![0; items.len()];
    };
    let activities: Vec<Option<Activity>> = items.iter().map(Activity::of).collect();
    let mut wanted = engine
        .board
        .lock()
        .0
        .wanted(activities.iter().flatten(), now_ms)
        .into_iter();
    let until_ms = shared::until(now_ms, shared.work_lock());
    let reserve = |activity: &Option<Activity>| match activity.as_ref().and_then(|_| wanted.next()) {
        Some(true) => until_ms,
        _ => 0,
    };
    activities.iter().map(reserve).collect()
}

impl CommitBuilder {
    /// The record of an execution that another one follows, unless it was written when the execution ended.
    fn archive(&mut self, execution: &Execution, ended: Option<&Ended>) -> Result<()> {
        if execution.fresh {
            return Ok(());
        }
        let output = ended
            .filter(|ended| ended.execution.id == execution.id)
            .and_then(|ended| ended.output.clone());
        let ended = Ended {
            execution: execution.clone(),
            output,
        };
        self.ops.push(Op::Put(ended.draft(&self.partition)?));
        Ok(())
    }

    fn page(&mut self, page: &Page, execution: u64, turn: u64) -> Result<usize> {
        if page.events.is_empty() {
            return Ok(0);
        }
        let draft = page.draft(Page::key(&self.partition, execution, turn))?;
        let bytes = draft.body.len();
        self.ops.push(Op::Create(draft));
        Ok(bytes)
    }

    /// Takes over what the turn says of its execution's end, and writes the execution's record if it says so.
    fn end(
        &mut self,
        execution: &mut Execution,
        status: &Option<String>,
        output: &Option<String>,
        pinned: Option<semver::Version>,
    ) -> Result<()> {
        if pinned.is_some() {
            execution.pinned = pinned;
        }
        let Some(status) = status else { return Ok(()) };
        execution.status.clone_from(status);
        execution.completed_ms = if execution.is_running() {
            None
        } else {
            Some(self.now_ms)
        };
        (execution.recorded, execution.fresh) = (true, true);
        let ended = Ended {
            execution: execution.clone(),
            output: output.clone(),
        };
        self.ops.push(Op::Put(ended.draft(&self.partition)?));
        Ok(())
    }

    fn key_values(&mut self, kv: &mut Arc<Entries>, head: &mut Head, events: &[Event]) -> Result<()> {
        let mut touched = BTreeSet::new();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet {
                    key,
                    value,
                    last_updated_at_ms,
                } => {
                    let value = Value {
                        value: value.clone(),
                        updated_ms: *last_updated_at_ms,
                    };
                    Arc::make_mut(kv).write(key, Some(value), head.kv_epoch);
                    touched.insert(key.clone());
                }
                EventKind::KeyValueCleared { key } => {
                    Arc::make_mut(kv).write(key, None, head.kv_epoch);
                    touched.insert(key.clone());
                }
                EventKind::KeyValuesCleared => {
                    let keys: Vec<String> = kv.0.keys().cloned().collect();
                    for key in keys {
                        Arc::make_mut(kv).write(&key, None, head.kv_epoch);
                        touched.insert(key);
                    }
                }
                _ => {}
            }
        }
        for key in touched {
            self.ops.push(match kv.draft(&self.partition, &key)? {
                Some(draft) => Op::Put(draft),
                None => Op::Remove(Entries::key(&self.partition, &key)),
            });
        }
        Ok(())
    }

    /// Pending values become final; records of keys that were cleared go.
    fn promote(&mut self, kv: &mut Arc<Entries>, head: &mut Head) {
        head.kv_epoch += 1;
        if kv.0.values().all(|entry| entry.newest.is_some()) {
            return;
        }
        for key in Arc::make_mut(kv).promote() {
            let key = Entries::key(&self.partition, &key);
            self.ops.retain(|op| *op.key() != key);
            self.ops.push(Op::Remove(key));
        }
    }

    /// LaneLayout the turn's activities, less those that it cancels itself, and removes queued ones that it cancels.
    fn activities(
        &mut self,
        engine: &Engine,
        items: Vec<duroxide::providers::WorkItem>,
        cancelled: &BTreeSet<(String, u64, u64)>,
        queued: &[(Order, perennial_store::Key)],
    ) -> Result<(Vec<NewActivity>, Vec<Order>)> {
        let mut new_activities = Vec::with_capacity(items.len());
        let reserved = reserved(engine, &items, self.now_ms);
        for (item, reserved_ms) in items.into_iter().zip(reserved) {
            let Some((new_activity, create)) = NewActivity::new(engine, item, self.ops.len(), reserved_ms)? else {
                continue;
            };
            let activity = &new_activity.activity;
            if !cancelled.is_empty()
                && cancelled.contains(&(activity.instance.to_string(), activity.execution, activity.id))
            {
                continue;
            }
            self.ops.push(create);
            new_activities.push(new_activity);
        }
        self.ops.extend(queued.iter().map(|(_, key)| Op::Remove(key.clone())));
        Ok((new_activities, queued.iter().map(|(order, _)| *order).collect()))
    }

    fn messages(
        &mut self,
        engine: &Engine,
        items: Vec<duroxide::providers::WorkItem>,
    ) -> Result<(Vec<NewMessage>, Vec<Intent>)> {
        let mut new_messages = Vec::with_capacity(items.len());
        let mut intents = Vec::new();
        for item in items {
            let due_ms = message::due_ms(&item);
            let item = names::possible(&engine.store.limits(), item)?;
            let Some((new_message, create)) = NewMessage::new(engine, item, due_ms, self.ops.len())? else {
                continue;
            };
            match outbox::detour(engine, &self.partition, &new_message, &create) {
                Some((intent, create)) => {
                    self.ops.push(create);
                    intents.push(intent);
                }
                None => {
                    self.ops.push(create);
                    new_messages.push(new_message);
                }
            }
        }
        Ok((new_messages, intents))
    }
}

//! Drawing up the commit of a turn, step by step.

use super::ack::Turn;
use super::plan::{Plan, TurnContext};
use crate::admin::totals;
use crate::engine::Engine;
use crate::instance::History;
use crate::mutation::mutant;
use crate::names;
use crate::outbox::{self, Intent, Outgoing};
use crate::queued::{NewActivity, NewMessage};
use crate::records::custom_status::CustomStatus;
use crate::records::execution::{Ended, Execution};
use crate::records::head::Head;
use crate::records::kv::{Entries, Value};
use crate::records::page::Page;
use crate::records::{message, partition};
use crate::shared::turn::inline_left;
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};
use perennial_store::{Commit, Op, Order, Partition, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The commit of a turn as far as it is drawn up, and the instance as it will be.
pub struct CommitBuilder<'a> {
    engine: &'a Engine,
    context: &'a TurnContext,
    partition: Partition,
    now_ms: u64,
    ops: Vec<Op>,
    head: Head,
    history: History,
    kv: Arc<Entries>,
    custom: Option<Arc<CustomStatus>>,
    /// How many executions begin.
    opened: u64,
    tombs: usize,
    new_messages: Vec<NewMessage>,
    new_activities: Vec<NewActivity>,
    withdrawn: Vec<Order>,
    intents: Vec<Intent>,
}

impl<'a> CommitBuilder<'a> {
    /// An empty commit of a turn of this execution.
    pub fn new(engine: &'a Engine, context: &'a TurnContext, execution: u64) -> Self {
        let now_ms = engine.clock.now_ms();
        let partition = partition(&context.instance);
        let before = context.snapshot.head();
        // The head is filled in when everything else is known.
        let head = Op::Remove(Head::key_in(partition.clone()));
        Self {
            engine,
            context,
            partition,
            now_ms,
            ops: vec![head],
            head: before.cloned().unwrap_or_else(|| Head::new(execution, now_ms)),
            history: context.snapshot.history.clone(),
            kv: Arc::clone(&context.snapshot.kv),
            custom: context.snapshot.custom.clone(),
            opened: u64::from(before.is_none()),
            tombs: 0,
            new_messages: Vec::new(),
            new_activities: Vec::new(),
            withdrawn: Vec::new(),
            intents: Vec::new(),
        }
    }

    /// The messages of the turn go, by their records or out of the head.
    pub fn consume(&mut self) -> Result<()> {
        let context = self.context;
        for handed in context.handed.iter().filter(|handed| !handed.inline) {
            let consume = outbox::consumption(self.engine, &context.instance, handed, self.now_ms)?;
            self.tombs += usize::from(consume.draft().is_some());
            self.ops.push(consume);
        }
        let stored = context.snapshot.head.as_ref();
        self.head.inline = stored.and_then(|(head, _)| inline_left(head, &context.handed));
        self.engine
            .mode
            .note_consumed(&mut self.head, &context.handed, self.now_ms);
        Ok(())
    }

    /// If the turn is of a later execution, that one becomes the current one.
    pub fn advance(&mut self, execution: u64) -> Result<()> {
        if execution <= self.head.execution.id {
            return Ok(());
        }
        self.archive()?;
        self.head.execution = Execution::new(execution, self.now_ms);
        self.history = History::default();
        self.opened += 1;
        Ok(())
    }

    /// Writes the record of the current execution, unless it was written when the execution ended.
    fn archive(&mut self) -> Result<()> {
        let execution = &self.head.execution;
        if execution.fresh {
            return Ok(());
        }
        let ended = self.context.ended.as_ref();
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

    /// A turn that gives both name and version names the instance; its parent is taken only once.
    pub fn identify(&mut self, turn: &Turn) {
        let head = &mut self.head;
        if let (Some(name), Some(version)) = (&turn.name, &turn.version) {
            if head.name.is_none() {
                head.parent.clone_from(&turn.parent);
            }
            head.name = Some(name.clone());
            head.version = Some(version.clone());
        }
    }

    /// Writes the turn's page and what it says of its execution; returns the page.
    pub fn append(&mut self, turn: &mut Turn) -> Result<Arc<Page>> {
        let page = Arc::new(Page {
            events: std::mem::take(&mut turn.events),
            by: self.engine.mode.process_id().cloned(),
        });
        let bytes = self.page(&page, turn.execution)?;
        self.head.turns += 1;
        self.head.updated_ms = self.now_ms;
        self.head.last_runner.clone_from(&page.by);
        if turn.execution == self.head.execution.id {
            let execution = &mut self.head.execution;
            extend(execution, &page.events, bytes);
            let output = turn.output.clone();
            let end = end(execution, turn, output, &self.partition, self.now_ms)?;
            self.ops.extend(end);
            if !page.events.is_empty() {
                self.history = self.history.with(Arc::clone(&page));
            }
        } else {
            self.append_to_ended(turn, &page.events, bytes)?;
        }
        Ok(page)
    }

    /// The turn is of an earlier execution: its record is written again.
    fn append_to_ended(&mut self, turn: &mut Turn, events: &[Event], bytes: usize) -> Result<()> {
        self.opened += u64::from(self.context.ended.is_none());
        let mut ended = self.context.ended.clone().unwrap_or_else(|| Ended {
            execution: Execution::new(turn.execution, self.now_ms),
            output: None,
        });
        extend(&mut ended.execution, events, bytes);
        let output = turn.output.clone().or_else(|| ended.output.clone());
        let op = match end(&mut ended.execution, turn, output, &self.partition, self.now_ms)? {
            Some(end) => end,
            None => Op::Put(ended.draft(&self.partition)?),
        };
        self.ops.push(op);
        Ok(())
    }

    /// Writes a page of history, if there is anything in it; returns how large it is.
    fn page(&mut self, page: &Page, execution: u64) -> Result<usize> {
        if page.events.is_empty() {
            return Ok(0);
        }
        let draft = page.draft(Page::key(&self.partition, execution, self.head.turns))?;
        let bytes = draft.body.len();
        self.ops.push(Op::Create(draft));
        Ok(bytes)
    }

    /// Writes the keys that the turn's events have set or cleared.
    pub fn key_values(&mut self, events: &[Event]) -> Result<()> {
        let mut touched = BTreeSet::new();
        let (kv, epoch) = (&mut self.kv, self.head.kv_epoch);
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
                    Arc::make_mut(kv).write(key, Some(value), epoch);
                    touched.insert(key.clone());
                }
                EventKind::KeyValueCleared { key } => {
                    Arc::make_mut(kv).write(key, None, epoch);
                    touched.insert(key.clone());
                }
                EventKind::KeyValuesCleared => {
                    let keys: Vec<String> = kv.0.keys().cloned().collect();
                    for key in keys {
                        Arc::make_mut(kv).write(&key, None, epoch);
                        touched.insert(key);
                    }
                }
                _ => {}
            }
        }
        for key in touched {
            self.ops.push(match self.kv.draft(&self.partition, &key)? {
                Some(draft) => Op::Put(draft),
                None => Op::Remove(Entries::key(&self.partition, &key)),
            });
        }
        Ok(())
    }

    /// The execution has ended: pending values become final, and records of keys that were cleared go.
    pub fn promote(&mut self) {
        self.head.kv_epoch += 1;
        if self.kv.0.values().all(|entry| entry.newest.is_some()) {
            return;
        }
        for key in Arc::make_mut(&mut self.kv).promote() {
            let key = Entries::key(&self.partition, &key);
            self.ops.retain(|op| *op.key() != key);
            self.ops.push(Op::Remove(key));
        }
    }

    /// Writes the custom status that the turn has set last.
    pub fn custom_status(&mut self, events: &[Event]) -> Result<()> {
        let last = events.iter().rev().find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(status.clone()),
            _ => None,
        });
        let Some(status) = last else { return Ok(()) };
        self.head.custom_version += 1;
        let status = CustomStatus {
            status,
            version: self.head.custom_version,
        };
        self.ops.push(Op::Put(status.draft(&self.partition)?));
        self.custom = Some(Arc::new(status));
        Ok(())
    }

    /// Queues the turn's activities, less those that it cancels itself, and removes queued ones that it cancels.
    pub fn schedule(&mut self, items: Vec<WorkItem>, cancelled: &BTreeSet<(String, u64, u64)>) -> Result<()> {
        let engine = self.engine;
        let ahead = engine.mode.claim_ahead(engine, &items, self.now_ms);
        self.new_activities.reserve_exact(items.len());
        for (item, reserved_ms) in items.into_iter().zip(ahead) {
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
            self.new_activities.push(new_activity);
        }
        let queued = &self.context.cancelled;
        self.ops.extend(queued.iter().map(|(_, key)| Op::Remove(key.clone())));
        self.withdrawn = queued.iter().map(|(order, _)| *order).collect();
        Ok(())
    }

    /// Sends the turn's messages: to its own instance, or wherever the commit reaches, as they are; further, by the outbox.
    pub fn send(&mut self, items: Vec<WorkItem>) -> Result<()> {
        self.new_messages.reserve_exact(items.len());
        for item in items {
            let due_ms = message::due_ms(&item);
            let item = names::possible(&self.engine.store.limits(), item)?;
            let sent = outbox::outgoing(self.engine, &self.partition, item, due_ms, self.ops.len())?;
            let Some((outgoing, create)) = sent else { continue };
            self.ops.push(create);
            match outgoing {
                Outgoing::Intent(intent) => self.intents.push(*intent),
                Outgoing::Message(new_message) => self.new_messages.push(new_message),
            }
        }
        Ok(())
    }

    /// Fills the head in, conditional on the version that the turn was built on.
    pub fn seal(mut self, events: u64) -> Result<Plan> {
        let context = self.context;
        self.head.kv_keys = self.kv.0.len() as u64;
        (self.head.lease, self.head.deliveries) = (context.lease.clone(), context.deliveries);
        let written = self.head.draft(Head::key_in(self.partition))?;
        let fenced = mutant!(
            SkipFence,
            Op::Put(written),
            match &context.snapshot.head {
                None => Op::Create(written),
                Some((_, version)) => Op::Replace(written, version.clone()),
            }
        );
        if let Some(first) = self.ops.first_mut() {
            *first = fenced;
        }
        let mut commit = Commit::new(self.ops);
        totals::count_turn(&mut commit, context.snapshot.head(), &self.head, self.opened, events);
        Ok(Plan {
            commit,
            head: self.head,
            history: self.history,
            kv: self.kv,
            custom: self.custom,
            new_messages: self.new_messages,
            new_activities: self.new_activities,
            withdrawn: self.withdrawn,
            intents: self.intents,
            tombs: self.tombs,
        })
    }
}

/// Adds events to an execution.
fn extend(execution: &mut Execution, events: &[Event], bytes: usize) {
    execution.events += events.len() as u64;
    execution.bytes += bytes as u64;
    let last = events.iter().map(|event| event.event_id).max().unwrap_or_default();
    execution.last_event_id = execution.last_event_id.max(last);
    execution.fresh &= events.is_empty();
}

/// Takes over what a turn says of its execution's end; the operation that writes the execution's record, if it says so.
fn end(
    execution: &mut Execution,
    turn: &mut Turn,
    output: Option<String>,
    partition: &Partition,
    now_ms: u64,
) -> Result<Option<Op>> {
    if let Some(pinned) = turn.pinned.take() {
        execution.pinned = Some(pinned);
    }
    let Some(status) = &turn.status else { return Ok(None) };
    execution.status.clone_from(status);
    execution.completed_ms = if execution.is_running() { None } else { Some(now_ms) };
    (execution.recorded, execution.fresh) = (true, true);
    let ended = Ended {
        execution: execution.clone(),
        output,
    };
    Ok(Some(Op::Put(ended.draft(partition)?)))
}

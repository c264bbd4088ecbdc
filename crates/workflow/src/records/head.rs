//! The head: the one record that every turn of an instance replaces, and so its fence.

use super::chore::{self, Topic};
use super::lanes::LaneLayout;
use super::{encode, execution::Execution, partition};
use crate::tuning::PHANTOM_LEASE_LINGER_MS;
use duroxide::providers::WorkItem;
use perennial_store::{Draft, Key, Listing, Order, Partition, Place, RecordId, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// The kind under which named instances are listed.
pub const KIND: &str = "instance";

/// A lease on an instance that other processes see: only on shared stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The process that works on the instance.
    pub owner: Arc<str>,
    /// When it ends; from then on any process may take over.
    pub until_ms: u64,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// What is always known of an instance. Small, whatever the instance does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The workflow's name; `None` until a turn has given it.
    pub name: Option<String>,
    /// The workflow's version.
    pub version: Option<String>,
    /// The instance that started this one as a sub-workflow.
    pub parent: Option<String>,
    /// When the first turn was committed.
    pub created_ms: u64,
    /// When the last turn was committed.
    pub updated_ms: u64,
    /// The current execution.
    pub execution: Execution,
    /// How many turns were committed; names the next page.
    pub turns: u64,
    /// How often pending values of the key-value store were made final, see [`super::kv`].
    pub kv_epoch: u64,
    /// How many `kv` records there are.
    pub kv_keys: u64,
    /// How often the custom status was changed.
    pub custom_version: u64,
    /// The process that committed the last turn, on a shared store.
    #[serde(rename = "home", default, skip_serializing_if = "Option::is_none")]
    pub last_runner: Option<Arc<str>>,
    /// The process that works on the instance, on a shared store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// How often its messages were handed out since the last turn was committed, on a shared store.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deliveries: u32,
    /// Whether messages wait for a start in the lane `parked`, on a shared store: a claim on the instance must read them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub parked: bool,
    /// Messages of clients that the last turns consumed, on a shared store: a message whose reply was lost is looked up here.
    #[serde(rename = "heard", default, skip_serializing_if = "Vec::is_empty")]
    pub recently_consumed: Vec<String>,
    /// Set while a claim that relies on a hint holds what may not be an instance at all: removed if its process dies.
    #[serde(rename = "stray", default, skip_serializing_if = "Option::is_none")]
    pub phantom: Option<PhantomLease>,
    /// The message that came with the claim, on a shared store, if it is small: it needs no record of its own.
    #[serde(rename = "enclosed", default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<Arc<InlineMessage>>,
    /// What remains to be done of the last turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// The deletion that the instance is part of.
    #[serde(rename = "condemned", default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Deletion>,
}

/// A message in a head, see [`crate::shared::turn`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InlineMessage {
    /// The id that its record would have.
    pub id: String,
    /// Its order of arrival.
    pub order: u64,
    /// What it says.
    pub item: Arc<WorkItem>,
}

/// A deletion that is under way, see [`crate::admin::two_phase_delete`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// Which deletion.
    pub by: String,
    /// The instance whose head says whether it is decided.
    pub coordinator: String,
    /// In the coordinator, when it is decided: every other instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// In the coordinator: whether it is decided.
    pub decided: bool,
    /// The order of the chore.
    pub order: u64,
    /// When another process may finish or cancel it.
    pub due_ms: u64,
}

/// A lease on an instance that may not exist, see [`crate::shared::turn`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhantomLease {
    /// The order of the chore.
    pub order: u64,
    /// When another process may remove it.
    pub due_ms: u64,
}

/// A turn that is durable and not yet complete: the rest is in its [`super::redo::Redo`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The turn.
    pub turn: u64,
    /// How many of the remaining operations have happened.
    pub done: u64,
    /// How many remained at first.
    pub total: u64,
    /// The order of the chore.
    pub order: u64,
    /// When another process may finish it.
    pub due_ms: u64,
}

impl Head {
    /// The head of an instance that has had no turn.
    pub fn new(execution: u64, now_ms: u64) -> Self {
        Self {
            name: None,
            version: None,
            parent: None,
            created_ms: now_ms,
            updated_ms: now_ms,
            last_runner: None,
            execution: Execution::new(execution, now_ms),
            turns: 0,
            kv_epoch: 0,
            kv_keys: 0,
            custom_version: 0,
            lease: None,
            deliveries: 0,
            parked: false,
            recently_consumed: Vec::new(),
            phantom: None,
            inline: None,
            pending: None,
            deletion: None,
        }
    }

    /// Where the head of an instance is.
    pub fn key(instance: &str) -> Key {
        Self::key_in(partition(instance))
    }

    /// Where the head of a partition is.
    pub fn key_in(partition: Partition) -> Key {
        Key::new(partition, Self::id())
    }

    /// The id of every head.
    pub fn id() -> RecordId {
        RecordId::of("head")
    }

    /// The state of the instance for clients: one that continued as new is running.
    pub fn status(&self) -> &str {
        if self.is_terminal() {
            &self.execution.status
        } else {
            "Running"
        }
    }

    /// Whether it only holds a lease: no turn was ever committed, so there is no instance yet.
    pub fn is_blank(&self) -> bool {
        self.turns == 0
    }

    /// Whether the instance has ended for good.
    pub fn is_terminal(&self) -> bool {
        matches!(self.execution.status.as_str(), "Completed" | "Failed")
    }

    /// Leases the instance to a process.
    pub fn lease_to(&mut self, lease: Lease) {
        if let Some(phantom) = &mut self.phantom {
            phantom.due_ms = lease.until_ms.saturating_add(PHANTOM_LEASE_LINGER_MS);
        }
        self.lease = Some(lease);
    }

    /// Whether the record can be removed without loss: no turn was committed, and nothing that it knows of waits for one.
    pub fn is_nothing(&self) -> bool {
        self.is_blank() && !self.parked && self.deliveries == 0 && self.inline.is_none()
    }

    /// The place of the head, if anything is to be done: among the chores, or among the messages if it holds one that no process
    /// works on.
    fn place(&self) -> Option<Place> {
        let pending = self.pending.as_ref();
        let pending = pending.map(|pending| (Topic::Redo, pending.order, pending.due_ms));
        let deletion = self.deletion.as_ref();
        let deletion = deletion.map(|deletion| (Topic::Deletion, deletion.order, deletion.due_ms));
        let phantom = self.phantom.as_ref();
        let phantom = phantom.map(|phantom| (Topic::PhantomLeases, phantom.order, phantom.due_ms));
        if let (None, Some(inline)) = (pending.or(deletion), &self.inline) {
            return Some(Place {
                lane: LaneLayout::Combined.turn(),
                order: Order(inline.order),
                due_ms: self.lease.as_ref().map_or(0, |lease| lease.until_ms),
            });
        }
        let (topic, order, due_ms) = pending.or(deletion).or(phantom)?;
        Some(chore::place(topic, Order(order), due_ms))
    }

    /// The record to write. Only instances that have a name are listed.
    pub fn draft(&self, key: Key) -> Result<Draft> {
        let mut draft = Draft::new(key, encode(self)?);
        draft.place = self.place();
        Ok(match &self.name {
            None => draft,
            Some(name) => draft.listed(Listing {
                kind: Cow::Borrowed(KIND),
                status: Cow::Owned(self.status().to_string()),
                name: name.clone(),
                parent: self.parent.clone(),
                created_ms: self.created_ms,
                completed_ms: if self.is_terminal() {
                    self.execution.completed_ms
                } else {
                    None
                },
            }),
        })
    }
}

//! The messages of one instance.

use super::alarms::AlarmKey;
use super::{ClaimId, Pin};
use crate::budget::Share;
use crate::outbox::Origin;
use crate::records::message;
use duroxide::providers::WorkItem;
use perennial_store::{Order, RecordId, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The content of a queued record: kept if it is small and there is room, else read again when the work is handed out.
#[derive(Clone, Debug)]
pub enum Body {
    /// In memory, with its share of the memory for bodies; a body that is about to be handed out needs none.
    Held(
        Arc<WorkItem>,
        #[expect(dead_code, reason = "dropping it gives the memory back")] Option<Arc<Share>>,
    ),
    /// Only in the store.
    Stored,
}

/// A message that waits.
#[derive(Clone, Debug)]
pub struct QueuedMessage {
    /// The id of its record.
    pub id: RecordId,
    /// The version of its record.
    pub version: Version,
    /// When it becomes visible.
    pub due_ms: u64,
    /// How often it was handed out.
    pub attempts: u32,
    /// The number of deliveries that its record says.
    pub noted: u32,
    /// Whether it was there when the store was opened.
    pub old: bool,
    /// Whether it surely exists, on a shared store: this process has held a lease on the instance ever since it was sent.
    pub certain: bool,
    /// The version of the instance's head when this process sent the message: while the head is at it, no other process has
    /// taken the message.
    pub since: Option<Version>,
    /// Whether it is in the head of its instance and has no record.
    pub inline: bool,
    /// What it is.
    pub sort: MessageKind,
    /// What it says.
    pub body: Body,
    /// The intent that it came from, if it came through an outbox.
    pub from: Option<Arc<Origin>>,
}

/// What a message means for an instance that does not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// It brings the instance into being.
    Start,
    /// It is for a persistent queue: without an instance it is dropped.
    Queue,
    /// It is the result of an activity: one of many, perhaps.
    Result,
    /// It is an external event.
    Event,
    /// Anything else: without an instance it waits for a start.
    Other,
}

impl MessageKind {
    /// The kind of a message.
    pub fn of(item: &WorkItem) -> Self {
        match item {
            item if message::starts(item) => Self::Start,
            WorkItem::QueueMessage { .. } => Self::Queue,
            WorkItem::ExternalRaised { .. } => Self::Event,
            WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. } => Self::Result,
            _ => Self::Other,
        }
    }
}

/// The holder of a mailbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Holder {
    /// Any dispatcher may take it.
    Nobody,
    /// It is given to a claim.
    Claim(ClaimId),
    /// Messages that wait for a start.
    Parked,
    /// Something of the instance cannot be read: its messages wait until the store is opened again.
    Damaged,
}

/// The messages of one instance. Most have one, and a node of a map has room for eleven: so the messages are boxed.
pub struct Mailbox {
    /// Those that may be handed out.
    pub visible: BTreeMap<Order, Box<QueuedMessage>>,
    /// Those that become visible later.
    pub hidden: BTreeMap<Order, (Box<QueuedMessage>, AlarmKey)>,
    /// Its holder.
    pub holder: Holder,
    /// The claim that has lapsed: until another one takes the mailbox, it can be restored.
    pub lapsed: Option<ClaimId>,
    /// Which runtime version the instance is bound to.
    pub pin: Pin,
    /// The claim made by the commit that brought its messages.
    pub reserved: Option<super::Reservation>,
    /// The version of the head when this process last wrote it.
    pub head: Option<Version>,
    /// Whether there are more messages in the store than were read when the instance was last claimed.
    pub partial: bool,
    /// The pin and order under which it is among the ready ones.
    pub ready: Option<(Pin, Order)>,
    /// Set while more results are expected at any moment, see [`coalesce`](super::coalesce).
    pub coalescing: Option<AlarmKey>,
}

impl QueuedMessage {
    /// Takes the version that a write made. The replies to two writes may come in any order: the later write counts.
    pub fn take_version(&mut self, version: Version) {
        if !version.is_older_than(&self.version) {
            self.version = version;
        }
    }
}

impl Mailbox {
    /// An empty one.
    pub fn new(pin: Pin) -> Self {
        Self {
            visible: BTreeMap::new(),
            hidden: BTreeMap::new(),
            holder: Holder::Nobody,
            lapsed: None,
            pin,
            reserved: None,
            head: None,
            partial: false,
            ready: None,
            coalescing: None,
        }
    }

    /// Whether it has no holder.
    pub fn is_free(&self) -> bool {
        self.holder == Holder::Nobody
    }

    /// Whether this process works on the instance, or is about to.
    pub fn is_ours(&self) -> bool {
        matches!(self.holder, Holder::Claim(_)) || self.reserved.is_some()
    }

    /// A start has become visible.
    pub fn unpark(&mut self) {
        if self.holder == Holder::Parked {
            self.holder = Holder::Nobody;
        }
    }

    /// This process has replaced the head: no other process had taken these messages before.
    pub fn follow(&mut self, old: Option<&Version>, new: &Version) {
        let hidden = self.hidden.values_mut().map(|(queued, _)| queued);
        for queued in self.visible.values_mut().chain(hidden) {
            if old.is_some() && queued.since.as_ref() == old {
                queued.since = Some(new.clone());
            }
        }
        self.head = Some(new.clone());
    }

    /// Messages that this process sent while the head was at this version surely exist: the head still was at it.
    pub fn certify(&mut self, over: Option<&Version>) {
        let hidden = self.hidden.values_mut().map(|(queued, _)| queued);
        for queued in self.visible.values_mut().chain(hidden) {
            queued.certain |= over.is_some() && queued.since.as_ref() == over;
        }
    }

    /// Any process may take its messages from now on.
    pub fn doubt(&mut self) {
        let hidden = self.hidden.values_mut().map(|(queued, _)| queued);
        for queued in self.visible.values_mut().chain(hidden) {
            if std::mem::take(&mut queued.certain) {
                queued.since.clone_from(&self.head);
            }
        }
    }

    /// A message, visible or not.
    pub fn find(&self, order: Order) -> Option<&QueuedMessage> {
        let hidden = || self.hidden.get(&order).map(|(queued, _)| queued);
        self.visible.get(&order).or_else(hidden).map(Box::as_ref)
    }

    /// The same, to change it.
    pub fn message(&mut self, order: Order) -> Option<&mut QueuedMessage> {
        let hidden = self.hidden.get_mut(&order).map(|(queued, _)| queued);
        hidden.or_else(|| self.visible.get_mut(&order)).map(Box::as_mut)
    }

    /// The orders of all messages, visible or not.
    pub fn orders(&self) -> impl Iterator<Item = Order> {
        self.visible.keys().chain(self.hidden.keys()).copied()
    }

    /// Whether it is empty and has no holder.
    pub fn is_idle(&self) -> bool {
        self.visible.is_empty() && self.hidden.is_empty() && !matches!(self.holder, Holder::Claim(_))
    }
}

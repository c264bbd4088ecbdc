//! The memory of a store, all of it behind one mutex.

use crate::due::{DueIndex, Item};
use crate::known::{Known, Recent};
use crate::line::Line;
use crate::meta::{self, Totals};
use crate::submit::Request;
use crate::{EngineError, Settings, Span, Table, Write};
use bytes::Bytes;
use perennial_store::{
    Clock, Committed, Counter, Error, Health, Lane, OnDurable, Outage, Result, SystemClock, call_on_durable,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where it is told that the committer has finished.
pub(crate) type Ticket = oneshot::Sender<Result<()>>;

/// What happens when a commit is durable, or has failed.
pub(crate) enum Reply {
    /// Nothing: no caller waits.
    None,
    /// The caller returns.
    Ticket(Ticket),
    /// A call is made, with the result.
    Call(OnDurable, Committed),
}

impl Reply {
    /// Whether the commit should not be kept waiting.
    pub(crate) fn is_awaited(&self) -> bool {
        !matches!(self, Self::None)
    }

    pub(crate) fn send(self, outcome: Result<()>) {
        match self {
            Self::None => {}
            // A caller that no longer waits needs no reply.
            Self::Ticket(ticket) => drop(ticket.send(outcome)),
            Self::Call(on_durable, committed) => call_on_durable(on_durable, outcome.map(|()| committed)),
        }
    }
}

/// A change of a record, as readers will see it.
pub(crate) struct Change {
    pub(crate) key: Bytes,
    /// The record after the change.
    pub(crate) known: Option<Arc<Known>>,
    /// Its place in a queue after the change.
    pub(crate) item: Option<Arc<Item>>,
}

/// A commit whose conditions hold and whose place in the order is fixed.
pub(crate) struct Accepted {
    /// Its number: grows from commit to commit, and is at least as high as every version it assigned.
    pub(crate) seq: u64,
    pub(crate) writes: Vec<Write>,
    pub(crate) changes: Vec<Change>,
    pub(crate) counters: Vec<(Counter, i64)>,
    pub(crate) durable: bool,
    /// Whether readers see it already.
    pub(crate) published: bool,
    pub(crate) reply: Reply,
    pub(crate) bytes: usize,
}

/// The newest state of a record that is accepted and not yet written.
pub(crate) struct Unwritten {
    pub(crate) seq: u64,
    pub(crate) known: Option<Arc<Known>>,
}

/// A relaxed change that readers see before it is written.
#[derive(Clone)]
pub(crate) struct Relaxed {
    pub(crate) seq: u64,
    /// The value; `None` if the record was deleted.
    pub(crate) value: Option<Bytes>,
}

/// Why commits are refused.
#[derive(Clone)]
pub(crate) enum Closed {
    /// The store was closed.
    ByOwner,
    /// A write failed.
    Broken(String),
    /// Another handle has taken over.
    Fenced(String),
}

impl Closed {
    pub(crate) fn error(&self) -> Error {
        match self {
            Self::ByOwner => Error::Closed("it was closed; open the store again".to_owned()),
            Self::Broken(why) => Error::Closed(format!(
                "an earlier write failed ({why}); mend the cause (a full disk, a failing device) and open the store again"
            )),
            Self::Fenced(why) => Error::Fenced(why.clone()),
        }
    }

    /// The health that the store reports.
    pub(crate) fn health(&self) -> Health {
        let outage = |why: &String| Outage {
            why: why.clone(),
            since_ms: SystemClock.now_ms(),
        };
        match self {
            Self::ByOwner => Health::Closed,
            Self::Broken(why) => Health::Broken(outage(why)),
            Self::Fenced(why) => Health::Fenced(outage(why)),
        }
    }

    pub(crate) fn after(error: &EngineError) -> Self {
        match error {
            EngineError::Fenced(why) => Self::Fenced(why.clone()),
            EngineError::Io(_, why) | EngineError::Corrupt(why) => Self::Broken(why.clone()),
        }
    }
}

pub(crate) struct State {
    pub(crate) last_version: u64,
    pub(crate) due: DueIndex,
    /// Records of the queue table that could not be decoded, so are not in `due`.
    pub(crate) damaged: HashSet<Bytes>,
    /// The totals that readers see.
    pub(crate) totals: Totals,
    pub(crate) unwritten: HashMap<Bytes, Unwritten>,
    pub(crate) relaxed: BTreeMap<Bytes, Relaxed>,
    pub(crate) recent: Recent,
    /// The commits that read records before they are accepted, and those that wait for them.
    pub(crate) line: Line<Request>,
    pub(crate) waiting: Vec<Accepted>,
    pub(crate) waiting_bytes: usize,
    pub(crate) waiting_urgent: bool,
    /// How many commits the committer waits for, while it does.
    pub(crate) expected: usize,
    /// Why commits are refused, if they are.
    pub(crate) closed: Option<Closed>,
    /// Whether the committer is to finish.
    pub(crate) stopping: bool,
    /// How the committer finished and the engine was released, once that is so.
    pub(crate) ended: Option<Result<()>>,
    /// The callers that wait for the committer to finish.
    pub(crate) closers: Vec<Ticket>,
}

impl State {
    pub(crate) fn new(epoch: u64, totals: Totals, settings: &Settings) -> Self {
        Self {
            last_version: epoch << 40,
            due: DueIndex::default(),
            damaged: HashSet::new(),
            totals,
            unwritten: HashMap::new(),
            relaxed: BTreeMap::new(),
            recent: Recent::new(settings.recent_records),
            line: Line::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            waiting_urgent: false,
            expected: usize::MAX,
            closed: None,
            stopping: false,
            ended: None,
            closers: Vec::new(),
        }
    }

    /// Adds a commit to the group that is written next.
    pub(crate) fn enqueue(&mut self, accepted: Accepted) {
        for change in &accepted.changes {
            let unwritten = Unwritten {
                seq: accepted.seq,
                known: change.known.clone(),
            };
            self.unwritten.insert(change.key.clone(), unwritten);
        }
        self.waiting_bytes += accepted.bytes;
        self.waiting_urgent |= accepted.reply.is_awaited();
        self.waiting.push(accepted);
    }

    /// Whether the group that the committer waits for is there, or as large as it may become.
    pub(crate) fn is_group_complete(&self, settings: &Settings) -> bool {
        self.waiting.len() >= self.expected || self.waiting_bytes > settings.max_waiting_bytes
    }

    /// Takes the group that is to be written now.
    pub(crate) fn take_group(&mut self) -> Vec<Accepted> {
        self.waiting_bytes = 0;
        self.waiting_urgent = false;
        std::mem::take(&mut self.waiting)
    }

    /// Makes a relaxed commit visible before it is written.
    pub(crate) fn publish_early(&mut self, accepted: &mut Accepted) -> Vec<Lane> {
        let mut lanes = Vec::new();
        let mut values: HashMap<&Bytes, &Bytes> = HashMap::new();
        for write in &accepted.writes {
            match write {
                Write::Put { table, key, value } if *table != Table::Index => values.insert(key, value),
                _ => None,
            };
        }
        for change in &accepted.changes {
            let relaxed = Relaxed {
                seq: accepted.seq,
                value: values.get(&change.key).map(|value| (*value).clone()),
            };
            self.relaxed.insert(change.key.clone(), relaxed);
            publish_place(&mut self.due, &mut self.damaged, change, &mut lanes);
        }
        meta::add(&mut self.totals, &accepted.counters);
        accepted.published = true;
        lanes
    }

    /// Makes a written commit visible.
    pub(crate) fn publish(&mut self, accepted: &Accepted, lanes: &mut Vec<Lane>) {
        for change in &accepted.changes {
            if self.unwritten.get(&change.key).is_some_and(|u| u.seq == accepted.seq) {
                self.unwritten.remove(&change.key);
            }
            match &change.known {
                // The queue index knows its records itself.
                Some(known) if known.table != Table::Queue => self.recent.insert(change.key.clone(), known.clone()),
                _ => self.recent.remove(&change.key),
            }
            let relaxed_seq = self.relaxed.get(&change.key).map_or(0, |relaxed| relaxed.seq);
            if relaxed_seq == accepted.seq {
                self.relaxed.remove(&change.key);
            }
            // A later relaxed change of this record is visible already and must stay.
            if !accepted.published && relaxed_seq < accepted.seq {
                publish_place(&mut self.due, &mut self.damaged, change, lanes);
            }
        }
        if !accepted.published {
            meta::add(&mut self.totals, &accepted.counters);
        }
    }

    /// The table that holds a record, if memory has an idea of it.
    pub(crate) fn likely_table(&self, key: &Bytes) -> Option<Table> {
        match self.due.get(key) {
            Some(_) => Some(Table::Queue),
            None => self.recent.get(key).map(|known| known.table),
        }
    }

    /// The relaxed changes in a span.
    pub(crate) fn relaxed_in(&self, span: &Span) -> Vec<(Bytes, Relaxed)> {
        if self.relaxed.is_empty() {
            return Vec::new();
        }
        let to = match &span.to {
            Some(to) => Bound::Excluded(to.as_slice()),
            None => Bound::Unbounded,
        };
        self.relaxed
            .range::<[u8], _>((Bound::Included(span.from.as_slice()), to))
            .map(|(key, relaxed)| (key.clone(), relaxed.clone()))
            .collect()
    }
}

fn publish_place(due: &mut DueIndex, damaged: &mut HashSet<Bytes>, change: &Change, lanes: &mut Vec<Lane>) {
    if !damaged.is_empty() {
        damaged.remove(&change.key);
    }
    match &change.item {
        Some(item) => {
            if !lanes.contains(&item.place.lane) {
                lanes.push(item.place.lane.clone());
            }
            due.insert(item.clone());
        }
        None => due.remove(&change.key),
    }
}

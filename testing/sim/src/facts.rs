//! What was observed in a run, kept apart from the store: processes die, this remains.

use crate::clock::WallClock;
use crate::life::Life;
use perennial_store::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An activity: instance, execution, and the event that scheduled it.
pub type Activity = (String, u64, u64);

/// A turn or an activity that is held.
#[derive(Clone)]
pub struct Held {
    /// The token that names the claim.
    pub token: String,
    /// The process that holds it.
    pub holder: Arc<Life>,
    /// When its lease began, by its holder's wall clock.
    pub from_ms: u64,
    /// When its lease expires, by its holder's wall clock.
    pub until_ms: u64,
    /// Whether its holder waits for the result of its ack.
    pub acking: bool,
}

/// A lease on an instance as in its head: its owner, and its end.
pub type Leased = (String, u64);

/// How often something was handed out.
#[derive(Clone, Default)]
pub struct Delivered {
    /// The least number of deliveries.
    pub attempt: u32,
    /// The process of the last one.
    pub process: u32,
    /// The clock of that process.
    pub wall: Option<Arc<WallClock>>,
    /// In how many processes.
    pub processes: u32,
    /// Whether it was released as if it had not been handed out.
    pub forgiven: bool,
}

/// Identifies and orders the turns of an instance: the execution, and how many events it had before.
pub type TurnNumber = (u64, usize);

/// An acknowledged turn: instance, execution, and its events as they were given.
pub type Turn = (String, u64, Vec<String>);

/// What was observed.
#[derive(Default)]
pub struct Facts {
    trace: Option<Vec<String>>,
    /// Violations of what must hold.
    pub violations: Vec<String>,
    /// How many processes have begun.
    pub process: u32,
    /// Turns that were acknowledged.
    pub turns: Vec<Turn>,
    /// Where each of them began: instance, execution, and the id of its first event.
    pub first_events: BTreeSet<(String, u64, u64)>,
    /// Activities that were ever stored.
    pub scheduled: BTreeSet<Activity>,
    /// Intents whose messages were delivered.
    pub delivered: BTreeSet<Key>,
    /// Activities whose result was acknowledged, and the clock of the process that it was acknowledged to.
    pub results: BTreeMap<Activity, Arc<WallClock>>,
    /// Activities that began, by their purpose: flaky ones fail by their position in this order.
    pub begun: BTreeMap<(String, u64, String), BTreeSet<u64>>,
    /// Claims on instances.
    pub turn_claims: BTreeMap<String, Held>,
    /// The lease that each process last wrote into the head of an instance, and its end.
    pub leases: BTreeMap<(String, u32), Option<Leased>>,
    /// The process whose lease is in the head of an instance, and its clock.
    pub leaseholders: BTreeMap<String, (u32, Arc<WallClock>)>,
    /// Instances and processes whose lease another process has ended, by a clock that disagrees, until they write a new one.
    pub overtaken: BTreeSet<(String, u32)>,
    /// The process that acknowledged the last turn of an instance.
    pub turned_by: BTreeMap<String, u32>,
    /// The clock of the process that last extended the history of an instance.
    pub turned_at: BTreeMap<String, Arc<WallClock>>,
    /// Claims on activities.
    pub work_claims: BTreeMap<Activity, Held>,
    /// The latest turn of each instance that was handed out, or the least that the next one can be.
    pub reached: BTreeMap<String, TurnNumber>,
    /// Deliveries of turns that were not acknowledged since, and which turn it is.
    pub turn_deliveries: BTreeMap<String, (TurnNumber, Delivered)>,
    /// Deliveries of activities.
    pub work_deliveries: BTreeMap<Activity, Delivered>,
    /// Calls of clients that were acknowledged.
    pub acked: BTreeSet<(String, String)>,
    /// How often each call of a client was made.
    pub tried: BTreeMap<(String, String), u32>,
    /// Workflows that have ended with the expected result.
    pub finished: BTreeSet<String>,
    /// Instances that were deleted.
    pub deleted: BTreeSet<String>,
}

impl Facts {
    /// Nothing was observed yet.
    pub fn new(trace: bool) -> Self {
        Self {
            trace: trace.then(Vec::new),
            ..Self::default()
        }
    }

    /// Whether a trace is kept.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Adds a line to the trace.
    pub fn trace(&mut self, line: String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line);
        }
    }

    /// The latest turn of an instance that was handed out is in its history: the next one is a later one.
    pub fn go_beyond(&mut self, instance: &str) {
        if let Some((_, events)) = self.reached.get_mut(instance) {
            *events += 1;
        }
    }

    /// The trace.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    /// A process begins and gets its number. On a store of one process, claims died with the process before.
    pub fn begin_process(&mut self, is_shared: bool) -> u32 {
        self.process += 1;
        if !is_shared {
            self.turn_claims.clear();
            self.work_claims.clear();
            // A later process may make a turn of other messages.
            self.turn_deliveries.clear();
        }
        self.process
    }
}

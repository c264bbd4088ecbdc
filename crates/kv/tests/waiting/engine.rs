//! An engine whose reads wait: for a gate that a test opens, or for a random time.

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, RwLock};
use perennial_kv::memory::MemoryEngine;
use perennial_kv::{Batch, EngineError, Entry, MemoryDisk, OrderedKv, Span, Table, View};
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

/// The name of the threads on which this engine may be read.
const THREAD: &str = "engine";

/// Memory that is read from far away.
pub struct Remote {
    memory: MemoryEngine,
    control: Arc<Control>,
    runtime: Handle,
}

impl Remote {
    /// An engine on a disk. It may be read on any thread until [`Control::begin`] is called.
    pub fn new(disk: &MemoryDisk, control: &Arc<Control>) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(THREAD)
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let mut state = control.state.lock();
        state.is_open = false;
        state.runtime = Some(runtime);
        Self {
            memory: disk.engine(),
            control: Arc::clone(control),
            runtime: handle,
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.control.end_runtime();
        self.control.ended.send_replace(true);
    }
}

/// What a test does to an engine, and learns of it.
pub struct Control {
    disk: MemoryDisk,
    state: Mutex<State>,
    changed: Condvar,
    /// Held to write, and to look at all tables at once.
    writing: RwLock<()>,
    /// How many reads wait at the gate.
    waiting: watch::Sender<usize>,
    /// Whether an engine was dropped.
    ended: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// Reads of keys that end so wait at the gate.
    held: HashSet<Vec<u8>>,
    are_writes_held: bool,
    /// The next read fails so.
    failure: Option<Failure>,
    /// The longest time that a read takes.
    delay_us: u64,
    /// A state of random numbers.
    random: u64,
    rounds: usize,
    running: usize,
    most_running: usize,
    is_open: bool,
    runtime: Option<Runtime>,
}

/// How a read fails.
pub enum Failure {
    Error(EngineError),
    Panic,
}

impl Control {
    pub fn new(disk: &MemoryDisk) -> Arc<Self> {
        Arc::new(Self {
            disk: disk.clone(),
            state: Mutex::default(),
            changed: Condvar::new(),
            writing: RwLock::default(),
            waiting: watch::Sender::new(0),
            ended: watch::Sender::new(false),
        })
    }

    /// The engine is open: from now on it is read on its own threads only.
    pub fn begin(&self) {
        self.state.lock().is_open = true;
    }

    /// From now on reads of records with this id wait.
    pub fn hold(&self, id: &str) {
        self.state.lock().held.insert(id.as_bytes().to_vec());
    }

    pub fn release(&self, id: &str) {
        self.state.lock().held.remove(id.as_bytes());
        self.changed.notify_all();
    }

    pub fn hold_writes(&self, is_held: bool) {
        self.state.lock().are_writes_held = is_held;
        self.changed.notify_all();
    }

    /// The next read fails.
    pub fn fail_read(&self, failure: Failure) {
        self.state.lock().failure = Some(failure);
    }

    /// From now on reads take a random time.
    pub fn delay(&self, most_us: u64, seed: u64) {
        let mut state = self.state.lock();
        state.delay_us = most_us;
        state.random = seed;
    }

    /// Waits until this many reads wait at the gate.
    pub async fn until_waiting(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        waiting.wait_for(|now| *now == count).await.unwrap();
    }

    /// Waits until an engine was dropped.
    pub async fn until_ended(&self) {
        self.ended.subscribe().wait_for(|ended| *ended).await.unwrap();
    }

    /// How many rounds of reads were made since the last call.
    pub fn take_rounds(&self) -> usize {
        std::mem::take(&mut self.state.lock().rounds)
    }

    /// How many reads ran at the same time, at most.
    pub fn most_running(&self) -> usize {
        self.state.lock().most_running
    }

    /// The runtime ends, as if the engine had lost it.
    pub fn end_runtime(&self) {
        let runtime = self.state.lock().runtime.take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }

    /// One round of reads of these keys.
    fn round<'a>(&self, keys: impl Iterator<Item = &'a [u8]> + Clone) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        if state.is_open {
            let name = std::thread::current().name().map(str::to_owned);
            assert_eq!(name.as_deref(), Some(THREAD), "a read on a thread of the caller's");
        }
        state.rounds += 1;
        state.running += 1;
        state.most_running = state.most_running.max(state.running);
        let is_held = |state: &State| {
            let mut held = state.held.iter();
            held.any(|id| keys.clone().any(|key| key.ends_with(id)))
        };
        if is_held(&state) {
            self.waiting.send_modify(|waiting| *waiting += 1);
            self.changed.wait_while(&mut state, |state| is_held(state));
            self.waiting.send_modify(|waiting| *waiting -= 1);
        }
        state.running -= 1;
        state.random = next(state.random);
        let delay = match state.delay_us {
            0 => 0,
            most => state.random % most,
        };
        let failure = state.failure.take();
        drop(state);
        if delay > 0 {
            std::thread::sleep(Duration::from_micros(delay));
        }
        match failure {
            None => Ok(()),
            Some(Failure::Error(error)) => Err(error),
            Some(Failure::Panic) => panic!("a read of the engine panics"),
        }
    }
}

/// The next of a sequence of random numbers.
pub fn next(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl OrderedKv for Remote {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.view().get(table, key)
    }

    fn view(&self) -> Box<dyn View + '_> {
        let _still = self.control.writing.read();
        let entries = |table| self.control.disk.entries(table).into_iter().collect();
        Box::new(RemoteView {
            engine: self,
            tables: Table::ALL.into_iter().map(|table| (table, entries(table))).collect(),
        })
    }

    fn write(&self, batch: Batch, sync: bool) -> Result<(), EngineError> {
        let mut state = self.control.state.lock();
        self.control
            .changed
            .wait_while(&mut state, |state| state.are_writes_held);
        drop(state);
        let _alone = self.control.writing.write();
        self.memory.write(batch, sync)
    }

    fn blocking(&self) -> Option<&Handle> {
        Some(&self.runtime)
    }
}

/// All entries, as they were when the view was made: what is read later may be old by then.
struct RemoteView<'a> {
    engine: &'a Remote,
    tables: BTreeMap<Table, BTreeMap<Bytes, Bytes>>,
}

impl RemoteView<'_> {
    fn check(&self) -> Result<(), EngineError> {
        self.engine.memory.get(Table::Meta, b"any").map(drop)
    }
}

impl View for RemoteView<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.engine.control.round([key].into_iter())?;
        self.check()?;
        Ok(self.tables[&table].get(key).cloned())
    }

    fn get_many(&self, keys: &[(Table, Bytes)]) -> Vec<Result<Option<Bytes>, EngineError>> {
        let outcome = self.engine.control.round(keys.iter().map(|(_, key)| key.as_ref()));
        let outcome = outcome.and_then(|()| self.check());
        let value = |(table, key): &(Table, Bytes)| outcome.clone().map(|()| self.tables[table].get(key).cloned());
        keys.iter().map(value).collect()
    }

    fn scan(&self, table: Table, span: &Span, limit: usize) -> Result<Vec<Entry>, EngineError> {
        let mut found = self.scan_many(&[(table, span)], limit)?;
        Ok(found.remove(0))
    }

    fn scan_many(&self, spans: &[(Table, &Span)], limit: usize) -> Result<Vec<Vec<Entry>>, EngineError> {
        self.engine
            .control
            .round(spans.iter().map(|(_, span)| span.from.as_slice()))?;
        self.check()?;
        let entries = |(table, span): &(Table, &Span)| {
            let to = match &span.to {
                Some(to) if *to <= span.from => return Vec::new(),
                Some(to) => Bound::Excluded(to.as_slice()),
                None => Bound::Unbounded,
            };
            let entries = self.tables[table].range::<[u8], _>((Bound::Included(span.from.as_slice()), to));
            entries
                .take(limit)
                .map(|(key, value)| (key.clone(), Ok(value.clone())))
                .collect()
        };
        Ok(spans.iter().map(entries).collect())
    }
}

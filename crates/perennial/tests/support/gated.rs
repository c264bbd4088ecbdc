//! A disk in memory whose syncs wait for the test.
#![allow(dead_code, clippy::unwrap_used)]

use bytes::Bytes;
use perennial_kv::memory::MemoryEngine;
use perennial_kv::{Batch, EngineError, KvStore, MemoryDisk, OrderedKv, Settings, Table, View};
use perennial_store::{Error, Store};
use std::sync::{Arc, Condvar, Mutex};
use tokio::sync::watch;

/// Memory that a committer thread writes, one batch at a time through a gate.
#[derive(Clone, Default)]
pub struct GatedDisk {
    /// The memory itself: it can fail, and lose what was not synced.
    pub memory: MemoryDisk,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    /// How many batches have come to the gate since it was shut.
    arrived: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    is_shut: bool,
    /// How many batches may pass though it is shut.
    passes: usize,
}

impl Gate {
    fn pass(&self) {
        let state = self.state.lock().unwrap();
        if !state.is_shut {
            return;
        }
        self.arrived.send_modify(|arrived| *arrived += 1);
        let is_stopped = |state: &mut State| state.is_shut && state.passes == 0;
        let mut state = self.changed.wait_while(state, is_stopped).unwrap();
        state.passes = state.passes.saturating_sub(1);
    }
}

impl GatedDisk {
    /// The store on the disk.
    pub fn open(&self) -> Result<Arc<dyn Store>, Error> {
        let engine = GatedEngine {
            memory: self.memory.engine(),
            gate: Arc::clone(&self.gate),
        };
        match KvStore::with_engine(engine, Settings::default()) {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => Err(Error::Unavailable(error.to_string())),
        }
    }

    /// Lets nothing be written from now on.
    pub fn hold(&self) -> Held {
        *self.gate.state.lock().unwrap() = State {
            is_shut: true,
            passes: 0,
        };
        self.gate.arrived.send_replace(0);
        Held(Arc::clone(&self.gate))
    }
}

/// Nothing is written until this is dropped.
pub struct Held(Arc<Gate>);

impl Held {
    /// Waits until this many batches have come to be written and synced. One is written at a time: when the second one comes,
    /// all that follows the first one has happened.
    pub async fn reached(&self, count: usize) {
        let mut arrived = self.0.arrived.subscribe();
        arrived.wait_for(|arrived| *arrived >= count).await.unwrap();
    }

    /// Lets one batch be written and synced.
    pub fn let_one_through(&self) {
        self.0.state.lock().unwrap().passes += 1;
        self.0.changed.notify_all();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().is_shut = false;
        self.0.changed.notify_all();
    }
}

struct GatedEngine {
    memory: MemoryEngine,
    gate: Arc<Gate>,
}

impl OrderedKv for GatedEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.memory.get(table, key)
    }

    fn view(&self) -> Box<dyn View + '_> {
        self.memory.view()
    }

    fn write(&self, batch: Batch, sync: bool) -> Result<(), EngineError> {
        self.gate.pass();
        self.memory.write(batch, sync)
    }
}

//! The network between a process and a shared database: signals that are lost, replicas that lag.

use crate::clock::pause;
use crate::life::Life;
use crate::scene::Scene;
use crate::view::{Past, View};
use perennial_kv::MemoryStore;
use perennial_store::{Commit, Key, Lane, Op, SignalSender, Signals};
use std::sync::Arc;

/// The connection of one process to the database.
pub struct Network {
    raw: Arc<MemoryStore>,
    past: Arc<Past>,
    view: Option<View>,
    signals: SignalSender,
}

/// The lanes that a commit puts records into.
pub fn lanes(commit: &Commit) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for place in commit.ops.iter().filter_map(|op| Op::draft(op)?.place.as_ref()) {
        if !lanes.contains(&place.lane) {
            lanes.push(place.lane.clone());
        }
    }
    lanes
}

/// How many signals may wait: few, so that some are missed.
const SIGNALS: usize = 16;

impl Network {
    /// The connection of a process that has just begun.
    pub fn new(scene: &Scene, raw: &Arc<MemoryStore>, past: &Arc<Past>) -> Self {
        let lags = scene.config.lag_ms > 0;
        Self {
            raw: Arc::clone(raw),
            past: Arc::clone(past),
            view: lags.then(|| View::new(Arc::clone(past))),
            signals: SignalSender::new(SIGNALS),
        }
    }

    /// What the process sees, where replicas lag.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// The true time up to which a call sees other processes' commits; `None` if it sees everything.
    pub fn sees_until_ms(&self, scene: &Scene, call: u64) -> Option<u64> {
        if scene.config.lag_ms == 0 || scene.is_calm() {
            return None;
        }
        let lag_ms = scene.chance(call ^ 0x1A6).u64(0..=scene.config.lag_ms);
        Some(scene.time.now_ms().saturating_sub(lag_ms))
    }

    /// A commit was decided; if it took effect, with these lanes.
    pub fn committed(self: &Arc<Self>, life: &Life, call: u64, keys: &[Key], lanes: Option<Vec<Lane>>) {
        let scene = &life.scene;
        if scene.config.lag_ms > 0 && lanes.is_some() {
            self.past.note(scene, &self.raw, keys);
        }
        for lane in lanes.unwrap_or_default() {
            self.signal(scene, call, lane);
        }
    }

    /// The process has received the outcome of a commit.
    pub fn received(&self, keys: &[Key]) {
        if let Some(view) = &self.view {
            view.received(keys.iter().map(|key| key.partition.clone()));
        }
    }

    /// Signals new work: once, twice, late, or never.
    fn signal(self: &Arc<Self>, scene: &Scene, call: u64, lane: Lane) {
        let rate = scene.config.signal_faults;
        let mut chance = scene.chance(call ^ 0x516_0A15);
        if rate == 0 || scene.is_calm() || chance.u32(0..1_000_000) >= rate {
            self.signals.placed(&lane);
            return;
        }
        match chance.u8(0..3) {
            0 => {}
            1 => {
                self.signals.placed(&lane);
                self.signals.placed(&lane);
            }
            _ => {
                let network = Arc::clone(self);
                let late_ms = chance.u64(1..10_000);
                tokio::spawn(async move {
                    pause(late_ms).await;
                    network.signals.placed(&lane);
                });
            }
        }
    }

    /// Signals of new work.
    pub fn signals(&self) -> Signals {
        self.signals.subscribe()
    }
}

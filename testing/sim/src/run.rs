//! A run from its configuration to its verdict.

use crate::clock::WallClock;
use crate::config::Config;
use crate::fault::{Counters, Fault, Operation};
use crate::life::Life;
use crate::process::{End, live};
use crate::scene::Scene;
use crate::world::World;
use perennial_kv::MemoryDisk;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};
use tokio::runtime::Runtime;

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Violations of what must hold.
    pub violations: Vec<String>,
    /// Everything that happened, if requested.
    pub trace: Vec<String>,
    /// The faults that were injected, by the number of the call.
    pub faults: BTreeMap<u64, Fault>,
    /// The same, counted.
    pub counters: Counters,
    /// How many calls the store had.
    pub calls: u64,
    /// What they were, before the final checks began.
    pub operations: Vec<Operation>,
    /// How many processes there were.
    pub processes: u32,
}

/// More processes than this mean that the store can never be opened.
const PROCESSES: u32 = 60;

/// Runs a configuration.
pub fn run(config: &Config, trace: bool) -> Outcome {
    quiet();
    let scene = Scene::new(config.clone(), trace);
    let played = catch_unwind(AssertUnwindSafe(|| play(&scene)));
    if played.is_err() {
        scene.blame("something panicked".to_owned());
    }
    let mut facts = scene.facts.lock();
    Outcome {
        violations: std::mem::take(&mut facts.violations),
        trace: facts.take_trace(),
        faults: scene.done(),
        counters: scene.counters(),
        calls: scene.calls(),
        operations: scene.operations(),
        processes: facts.process,
    }
}

fn play(scene: &Arc<Scene>) {
    let played = match scene.config.is_shared() {
        true => play_together(scene),
        false => play_in_turn(scene),
    };
    if let Err(why) = played {
        scene.blame(format!("there is no runtime: {why}"));
    }
}

/// A runtime whose time has just begun, and stands still until all tasks wait.
fn runtime() -> std::io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build()
}

/// Runs all processes at once.
fn play_together(scene: &Arc<Scene>) -> std::io::Result<()> {
    let runtime = runtime()?;
    if runtime.block_on(World::play(scene)) == End::Stuck {
        blame_open(scene);
    }
    Ok(())
}

/// Blames the workflows that are not done.
fn blame_open(scene: &Scene) {
    let facts = scene.facts.lock();
    let flows = scene.config.flows.iter().map(|flow| flow.name.clone());
    let open: Vec<String> = flows.filter(|name| !facts.finished.contains(name)).collect();
    drop(facts);
    scene.blame(format!("{open:?} do not come to their end"));
}

/// Runs one process after another.
fn play_in_turn(scene: &Arc<Scene>) -> std::io::Result<()> {
    let disk = MemoryDisk::default();
    let wall = Arc::new(WallClock::default());
    for _ in 0..PROCESSES {
        let runtime = runtime()?;
        let (life, end) = runtime.block_on(async {
            scene.time.begin();
            let life = Life::begin(scene, &wall);
            let end = live(scene, &life, &disk).await;
            // The next process begins when this one has ended.
            scene.time.now_ms();
            (life, end)
        });
        // What destructors and dropped tasks still do is not observed.
        life.end();
        drop(runtime);
        scene.trace(|| format!("process ends: {end:?}"));
        match end {
            End::Done => return Ok(()),
            End::Stuck => {
                blame_open(scene);
                return Ok(());
            }
            End::Killed | End::NotOpened => disk.crash(),
        }
        if !scene.facts.lock().violations.is_empty() {
            return Ok(());
        }
    }
    scene.blame(format!("not done after {PROCESSES} processes"));
    Ok(())
}

/// The runtime would write to the console.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default()).ok();
    });
}

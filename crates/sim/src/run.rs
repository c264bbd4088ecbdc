//! A run from its configuration to its verdict.

use crate::config::Config;
use crate::fault::{Fault, Tally};
use crate::process::{End, live};
use crate::scene::{Life, Scene};
use perennial_kv::MemoryDisk;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What must not have happened.
    pub violations: Vec<String>,
    /// Everything that happened, if asked for.
    pub trace: Vec<String>,
    /// What went wrong by design, by the number of the call.
    pub faults: BTreeMap<u64, Fault>,
    /// The same, counted.
    pub tally: Tally,
    /// How many calls the store had.
    pub calls: u64,
    /// How many of them before the final checks began.
    pub calls_before_check: u64,
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
        tally: scene.tally(),
        calls: scene.calls(),
        calls_before_check: scene.calls_before_check(),
        processes: facts.process,
    }
}

fn play(scene: &Arc<Scene>) {
    let disk = MemoryDisk::default();
    for _ in 0..PROCESSES {
        let life = Arc::new(Life::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(why) => return scene.blame(format!("no runtime: {why}")),
        };
        let end = runtime.block_on(live(scene, &life, &disk));
        // What destructors and dropped tasks still do is not seen.
        life.end();
        drop(runtime);
        scene.trace(|| format!("process ends: {end:?}"));
        match end {
            End::Done => return,
            End::Stuck => {
                let facts = scene.facts.lock();
                let flows = scene.config.flows.iter().map(|flow| flow.name.clone());
                let open: Vec<String> = flows.filter(|name| !facts.finished.contains(name)).collect();
                drop(facts);
                return scene.blame(format!("{open:?} do not come to their end"));
            }
            End::Killed | End::NotOpened => disk.crash(),
        }
        if !scene.facts.lock().violations.is_empty() {
            return;
        }
    }
    scene.blame(format!("not done after {PROCESSES} processes"));
}

/// The runtime would write to the console.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::default()).ok();
    });
}

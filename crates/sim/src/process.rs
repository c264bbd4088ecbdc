//! One process: it opens the store, runs the runtime and the clients on it, and dies or ends.

use crate::check;
use crate::clock::pause;
use crate::driver::Driver;
use crate::scene::{Life, Scene};
use crate::store::SimStore;
use crate::witness::{Watched, Witness};
use crate::workflow;
use duroxide::providers::TagFilter;
use duroxide::runtime::{ObservabilityConfig, Runtime, RuntimeOptions};
use perennial_kv::{MemoryDisk, MemoryStore};
use perennial_store::Clock;
use perennial_workflow::{Settings, Workflows};
use std::sync::Arc;
use std::time::Duration;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was killed.
    Killed,
    /// It could not open the store.
    NotOpened,
    /// Everything is done, and was checked.
    Done,
    /// Nothing comes to an end any more.
    Stuck,
}

/// Work that is not done after so much time without anything going wrong is stuck.
const STUCK_MS: u64 = 4 * 3_600_000;

/// Lives one process.
pub async fn live(scene: &Arc<Scene>, life: &Arc<Life>, disk: &MemoryDisk) -> End {
    scene.clock.begin();
    scene.facts.lock().begin_process();
    scene.trace(|| "process begins".to_owned());
    tokio::select! {
        biased;
        () = life.ended() => End::Killed,
        () = killer(scene, life) => End::Killed,
        () = pause(STUCK_MS) => End::Stuck,
        end = work(scene, life, disk) => end,
    }
}

/// Kills the process when its time has come, and puts its clock forward and back.
async fn killer(scene: &Scene, life: &Life) {
    let config = &scene.config;
    let now_ms = scene.clock.true_ms();
    let kill = config.kills_ms.iter().find(|at| **at > now_ms).map(|at| at - now_ms);
    let jumps = config.jumps.iter().filter(|(at, _)| *at > now_ms);
    let jumping = async {
        for (at, by_ms) in jumps {
            pause(at.saturating_sub(scene.clock.true_ms())).await;
            scene.trace(|| format!("the clock jumps by {by_ms} ms"));
            scene.clock.jump(*by_ms);
        }
        std::future::pending::<()>().await;
    };
    match kill {
        None => jumping.await,
        Some(ms) => tokio::select! {
            biased;
            () = pause(ms) => {}
            () = jumping => {}
        },
    }
    scene.trace(|| "the process is killed".to_owned());
    scene.clock.true_ms();
    life.end();
}

async fn work(scene: &Arc<Scene>, life: &Arc<Life>, disk: &MemoryDisk) -> End {
    let Ok(raw) = MemoryStore::open_disk(disk, perennial_kv::Settings::default()) else {
        return End::NotOpened;
    };
    let raw = Arc::new(raw);
    let store = SimStore::new(Arc::clone(&raw), Arc::clone(scene), Arc::clone(life));
    let settings = Settings {
        cache_bytes: scene.config.cache_bytes,
        held_body_bytes: scene.config.held_body_bytes,
    };
    let clock: Arc<dyn Clock> = Arc::clone(&scene.clock) as Arc<dyn Clock>;
    let workflows = match Workflows::open_with_clock(Arc::new(store), settings, clock).await {
        Ok(workflows) => workflows,
        Err(why) => {
            scene.trace(|| format!("the store could not be opened: {why}"));
            return End::NotOpened;
        }
    };
    let witness = Witness::new(workflows.clone(), Arc::clone(&raw), Arc::clone(scene), Arc::clone(life));
    let driver = Driver::new(Arc::clone(scene), witness.clone());
    let runtime = run_until_done(scene, &witness, &driver).await;
    check::settled(scene, &workflows, &raw).await;
    runtime.shutdown(None).await;
    check::at_the_end(scene, &workflows).await;
    if let Err(why) = workflows.close().await {
        scene.blame(format!("the engine could not be closed: {why}"));
    }
    drop((witness, workflows, raw));
    check::left_behind(scene, disk);
    End::Done
}

/// Runs the runtime and the clients, until the clients are done.
async fn run_until_done(scene: &Arc<Scene>, witness: &Arc<Watched>, driver: &Driver) -> Arc<Runtime> {
    let mut clients = Box::pin(driver.run());
    let mut runtime = start(scene, witness).await;
    let now_ms = scene.clock.true_ms();
    for at_ms in scene.config.bounces_ms.iter().filter(|at| **at > now_ms) {
        let wait_ms = at_ms.saturating_sub(scene.clock.true_ms());
        tokio::select! {
            biased;
            () = &mut clients => return runtime,
            () = pause(wait_ms) => {}
        }
        scene.trace(|| "the runtime is shut down and started again".to_owned());
        let stopping = Arc::clone(&runtime);
        let restarting = async {
            stopping.shutdown(Some(1_000)).await;
            scene.trace(|| "the runtime is down".to_owned());
            start(scene, witness).await
        };
        let mut restarting = Box::pin(restarting);
        runtime = tokio::select! {
            biased;
            started = &mut restarting => started,
            () = &mut clients => return restarting.await,
        };
    }
    clients.await;
    runtime
}

async fn start(scene: &Arc<Scene>, witness: &Arc<Watched>) -> Arc<Runtime> {
    let activities = workflow::activities(scene);
    Runtime::start_with_options(witness.clone(), activities, workflow::workflows(), options(scene)).await
}

fn options(scene: &Scene) -> RuntimeOptions {
    RuntimeOptions {
        // The runtime would take this from the machine's clock.
        dispatcher_min_poll_interval: Duration::ZERO,
        // Longer than anything may take: whoever is not woken is stuck.
        dispatcher_long_poll_timeout: Duration::from_secs(48 * 3_600),
        orchestration_concurrency: scene.config.turn_dispatchers,
        worker_concurrency: scene.config.work_dispatchers,
        // Whatever was in hand at a kill counts as attempted, for no fault of its own.
        max_attempts: 10_000,
        observability: ObservabilityConfig {
            // Never at the same moment as anything else: the runtime waits for it in an order of its own choosing.
            gauge_poll_interval: Duration::from_millis(597_013),
            ..ObservabilityConfig::default()
        },
        // The runtime would take this from the machine's clock.
        worker_node_id: Some("node".to_owned()),
        worker_tag_filter: TagFilter::Any,
        ..RuntimeOptions::default()
    }
}

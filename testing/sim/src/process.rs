//! One process: it opens the store, runs the runtime and the clients on it, and dies or ends.

use crate::check;
use crate::clock::pause;
use crate::driver::Driver;
use crate::hub::{Hub, Port};
use crate::life::Life;
use crate::member::Member;
use crate::scene::Scene;
use crate::start::{open, start};
use crate::store::SimStore;
use crate::witness::{Watched, Witness};
use duroxide::runtime::Runtime;
use perennial_kv::{MemoryDisk, MemoryStore};
use std::sync::Arc;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was killed.
    Killed,
    /// It could not open the store.
    NotOpened,
    /// Everything is done, and was checked.
    Done,
    /// It makes no progress any more.
    Stuck,
}

/// Work that is not done after this time without faults is stuck.
const STUCK_MS: u64 = 4 * 3_600_000;

/// Runs one process.
pub async fn live(scene: &Arc<Scene>, life: &Arc<Life>, disk: &MemoryDisk) -> End {
    scene.trace(|| "process begins".to_owned());
    tokio::select! {
        biased;
        () = life.ended() => End::Killed,
        () = killer(scene, life) => End::Killed,
        () = pause(STUCK_MS) => End::Stuck,
        end = work(scene, life, disk) => end,
    }
}

/// Kills the process at its time, and makes its clock jump.
async fn killer(scene: &Scene, life: &Life) {
    let config = &scene.config;
    let now_ms = scene.time.now_ms();
    let kill = config.kills_ms.iter().find(|at| **at > now_ms).map(|at| at - now_ms);
    let jumps = config.jumps.iter().filter(|(at, _)| *at > now_ms);
    let jumping = async {
        for (at, by_ms) in jumps {
            pause(at.saturating_sub(scene.time.now_ms())).await;
            scene.trace(|| format!("the clock jumps by {by_ms} ms"));
            life.wall.jump(*by_ms);
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
    life.end();
}

async fn work(scene: &Arc<Scene>, life: &Arc<Life>, disk: &MemoryDisk) -> End {
    let Ok(raw) = MemoryStore::open_stepped(disk, perennial_kv::Settings::default()) else {
        return End::NotOpened;
    };
    let raw = Arc::new(raw);
    let store = SimStore::alone(&raw, Arc::clone(life));
    let workflows = match open(life, store).await {
        Ok(workflows) => workflows,
        Err(why) => {
            scene.trace(|| format!("the store could not be opened: {why}"));
            return End::NotOpened;
        }
    };
    let witness = Witness::new(workflows.clone(), Arc::clone(&raw) as _, life, None);
    let hub = Hub::new(1);
    hub.open(0, Port::new(life, witness.clone()));
    let driver = Driver::new(Arc::clone(scene), hub);
    let runtime = run_until_done(life, &witness, &driver).await;
    check::when_idle(scene, &workflows, &raw).await;
    runtime.shutdown(None).await;
    check::at_the_end(scene, &workflows).await;
    if let Err(why) = workflows.close().await {
        scene.blame(format!("the engine could not be closed: {why}"));
    }
    drop((driver, witness, workflows, raw));
    check::left_behind(scene, disk);
    End::Done
}

/// Runs the runtime and the clients until the clients are done.
async fn run_until_done(life: &Arc<Life>, witness: &Arc<Watched>, driver: &Driver) -> Arc<Runtime> {
    let scene = &life.scene;
    let member = Member {
        turn_dispatchers: scene.config.turn_dispatchers,
        work_dispatchers: scene.config.work_dispatchers,
        ..Member::generalist()
    };
    let mut clients = Box::pin(driver.run());
    let mut runtime = start(life, witness, &member, "node").await;
    let now_ms = scene.time.now_ms();
    for at_ms in scene.config.bounces_ms.iter().filter(|at| **at > now_ms) {
        let wait_ms = at_ms.saturating_sub(scene.time.now_ms());
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
            start(life, witness, &member, "node").await
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

//! Several processes at once, on one shared store, in one time.

use crate::clock::{WallClock, pause};
use crate::driver::Driver;
use crate::hub::{Hub, Port};
use crate::life::Life;
use crate::member::Member;
use crate::network::Network;
use crate::process::End;
use crate::scene::Scene;
use crate::start::{open, start};
use crate::store::SimStore;
use crate::view::Past;
use crate::witness::{Watched, Witness};
use crate::{check, residue};
use duroxide::runtime::Runtime;
use futures::future::join_all;
use parking_lot::Mutex;
use perennial_kv::{Settings, SharedMemory};
use perennial_store::{ChunkedStore, Lane, Store};
use perennial_workflow::Workflows;
use std::sync::Arc;

/// Work that is not done after this time is stuck.
const STUCK_MS: u64 = 2 * 3_600_000;

/// Processes that have not left after this time never will. Longer than any housekeeping.
const STALLED_MS: u64 = 24 * 3_600_000;

/// A process that runs.
struct Running {
    member: usize,
    life: Arc<Life>,
    workflows: Workflows,
    witness: Arc<Watched>,
    /// The current runtime, and earlier ones on the same engine.
    runtimes: Vec<Arc<Runtime>>,
    /// Whether the last of them is being shut down, to be followed by another.
    bounces: bool,
}

impl Running {
    /// Whether it serves everything, and has started to.
    fn can_finish(&self) -> bool {
        self.member == 0 && !self.runtimes.is_empty() && !self.bounces
    }
}

/// The processes and what they share.
pub struct World {
    scene: Arc<Scene>,
    database: SharedMemory,
    past: Arc<Past>,
    hub: Arc<Hub>,
    walls: Vec<Arc<WallClock>>,
    running: Vec<Mutex<Option<Running>>>,
}

impl World {
    /// Runs the configuration from its beginning to its verdict.
    pub async fn play(scene: &Arc<Scene>) -> End {
        scene.time.begin();
        let members = &scene.config.members;
        let database = match SharedMemory::new(Settings::CLOUD_LIMITS) {
            Ok(database) => database,
            Err(why) => {
                scene.blame(format!("there is no database: {why}"));
                return End::NotOpened;
            }
        };
        let wall = |member: &Member| Arc::new(WallClock::skewed(member.skew_ms));
        let world = Self {
            scene: Arc::clone(scene),
            database,
            past: Arc::default(),
            hub: Hub::new(members.len()),
            walls: members.iter().map(wall).collect(),
            running: members.iter().map(|_| Mutex::default()).collect(),
        };
        let driver = Driver::new(Arc::clone(scene), Arc::clone(&world.hub));
        let living = members.iter().enumerate();
        let living = join_all(living.map(|(n, member)| world.live_on(n, member)));
        let end = tokio::select! {
            biased;
            () = pause(STUCK_MS) => End::Stuck,
            () = driver.run() => End::Done,
            _ = living => End::Stuck,
        };
        scene.trace(|| format!("the clients are done: {end:?}"));
        match end {
            End::Done => world.finish_in_time().await,
            _ => residue::trace_queued(scene, &world.database),
        }
        end
    }

    /// A process lives, dies, and is started again.
    async fn live_on(&self, n: usize, member: &Member) {
        pause(member.start_ms).await;
        let Some(wall) = self.walls.get(n) else { return };
        loop {
            let life = Life::begin(&self.scene, wall);
            life.trace(|| format!("process begins as member {n}"));
            tokio::select! {
                biased;
                () = life.ended() => {}
                () = disturb(&life, member) => {}
                () = self.serve(n, member, &life) => {}
            }
            life.trace(|| "process ends".to_owned());
            self.bury(n, &life).await;
            pause(self.scene.chance(u64::from(life.number) ^ 0xB0F).u64(0..20_000)).await;
        }
    }

    /// What a process does until it dies.
    async fn serve(&self, n: usize, member: &Member, life: &Arc<Life>) {
        let Some(witness) = self.begin(n, member, life).await else {
            return;
        };
        let node = format!("node{n}");
        for at_ms in &member.bounces_ms {
            let wait_ms = at_ms.saturating_sub(self.scene.time.now_ms());
            if wait_ms == 0 {
                continue;
            }
            life.pause(wait_ms).await;
            life.trace(|| "the runtime is shut down and started again".to_owned());
            if let Some(runtime) = self.bounce(n) {
                runtime.shutdown(Some(1_000)).await;
            }
            let runtime = start(life, &witness, member, &node).await;
            self.keep(n, runtime);
        }
        std::future::pending().await
    }

    /// Opens the store and starts the runtime; `None` if that is impossible now.
    async fn begin(&self, n: usize, member: &Member, life: &Arc<Life>) -> Option<Arc<Watched>> {
        let raw = self.database.raw();
        let network = Network::new(&self.scene, raw, &self.past);
        let store = SimStore::shared(self.database.open(), Arc::clone(life), network);
        let workflows = match open(life, store).await {
            Ok(workflows) => workflows,
            Err(why) => {
                life.trace(|| format!("the store could not be opened: {why}"));
                return None;
            }
        };
        let witness = Witness::new(workflows.clone(), self.glass(life), life, member.replays());
        let running = Running {
            member: n,
            life: Arc::clone(life),
            workflows,
            witness: Arc::clone(&witness),
            runtimes: Vec::new(),
            bounces: false,
        };
        *self.running.get(n)?.lock() = Some(running);
        let runtime = start(life, &witness, member, &format!("node{n}")).await;
        self.keep(n, runtime);
        self.hub.open(n, Port::new(life, witness.clone()));
        Some(witness)
    }

    /// A view of the database without faults, with large bodies assembled.
    fn glass(&self, life: &Arc<Life>) -> Arc<dyn Store> {
        let raw: Arc<dyn Store> = Arc::clone(self.database.raw()) as _;
        // It only reads: nothing is ever put into its lane.
        Arc::new(ChunkedStore::new(raw, Arc::clone(life) as _, Lane::new("glass"), 0))
    }

    fn keep(&self, n: usize, runtime: Arc<Runtime>) {
        let Some(place) = self.running.get(n) else { return };
        if let Some(running) = place.lock().as_mut() {
            running.runtimes.push(runtime);
            running.bounces = false;
        }
    }

    /// The runtime of a process, which is about to be shut down and followed by another.
    fn bounce(&self, n: usize) -> Option<Arc<Runtime>> {
        let mut place = self.running.get(n)?.lock();
        let running = place.as_mut()?;
        running.bounces = true;
        running.runtimes.last().cloned()
    }

    /// Drops what a dead process had in memory. What its tasks still do has no effect.
    async fn bury(&self, n: usize, life: &Life) {
        life.end();
        let running = self.running.get(n).and_then(|place| place.lock().take());
        for runtime in running.into_iter().flat_map(|running| running.runtimes) {
            runtime.shutdown(Some(0)).await;
        }
    }

    /// Finishes the run. A process that waits for ever has no timer set: without this one, the simulator would wait with it.
    async fn finish_in_time(&self) {
        tokio::select! {
            biased;
            () = self.finish() => {}
            () = pause(STALLED_MS) => {
                self.scene.blame("the run stalls: its processes do not come to their end".to_owned());
                residue::trace_queued(&self.scene, &self.database);
            }
        }
    }

    /// Everything is done: all processes but one leave, and that one finishes the housekeeping.
    async fn finish(&self) {
        self.scene.calm_down();
        let mut running: Vec<Running> = self.running.iter().filter_map(|place| place.lock().take()).collect();
        running.iter().for_each(|running| running.life.thaw());
        running.retain(|running| !running.life.is_over());
        let last = match self.scene.config.seed % 2 {
            0 if running.first().is_some_and(Running::can_finish) => Some(running.remove(0)),
            _ => None,
        };
        for running in running {
            leave_or_die(&self.scene, running).await;
        }
        if let Some(last) = last {
            let life = Arc::clone(&last.life);
            tokio::select! {
                biased;
                () = self.keep_house(last) => return,
                // A fault that was under way when the faults ended.
                () = life.ended() => life.trace(|| "process ends while it does the housekeeping".to_owned()),
            }
        }
        match self.begin_last().await {
            Some(last) => self.keep_house(last).await,
            None => self
                .scene
                .blame("the store cannot be opened although nothing goes wrong".to_owned()),
        }
    }

    /// The last process finishes the housekeeping and leaves.
    async fn keep_house(&self, last: Running) {
        let glass = self.glass(&last.life);
        residue::await_housekeeping(&self.scene, &last.workflows, &self.database, &*glass).await;
        for runtime in &last.runtimes {
            Arc::clone(runtime).shutdown(None).await;
        }
        check::at_the_end(&self.scene, &last.workflows).await;
        leave(&self.scene, last).await;
        residue::check(&self.scene, &self.database);
    }

    /// A new process, to finish the housekeeping.
    async fn begin_last(&self) -> Option<Running> {
        let (wall, member) = (self.walls.first()?, self.scene.config.members.first()?);
        let life = Life::begin(&self.scene, wall);
        life.trace(|| "process begins, to do the housekeeping".to_owned());
        self.begin(0, member, &life).await?;
        self.running.first()?.lock().take()
    }
}

/// A process leaves in order.
async fn leave(scene: &Scene, running: Running) {
    for runtime in running.runtimes {
        runtime.shutdown(None).await;
    }
    drop(running.witness);
    if let Err(why) = running.workflows.close().await {
        scene.blame(format!("the engine could not be closed: {why}"));
    }
}

/// A process leaves in order, unless a fault that was under way when the faults ended kills it: the calls of a dead process
/// never return.
async fn leave_or_die(scene: &Scene, running: Running) {
    let life = Arc::clone(&running.life);
    tokio::select! {
        biased;
        () = leave(scene, running) => {}
        () = life.ended() => life.trace(|| "process ends while it leaves".to_owned()),
    }
}

/// Kills a process at its time; makes its clock jump, and freezes it for a while.
async fn disturb(life: &Arc<Life>, member: &Member) {
    let now_ms = life.scene.time.now_ms();
    let until = |at_ms: u64| pause(at_ms.saturating_sub(life.scene.time.now_ms()));
    let jumping = async {
        for (at_ms, by_ms) in member.jumps.iter().filter(|(at_ms, _)| *at_ms > now_ms) {
            until(*at_ms).await;
            life.trace(|| format!("the clock jumps by {by_ms} ms"));
            life.wall.jump(*by_ms);
        }
        std::future::pending::<()>().await;
    };
    let freezing = async {
        for (at_ms, for_ms) in member.freezes.iter().filter(|(at_ms, _)| *at_ms > now_ms) {
            until(*at_ms).await;
            life.trace(|| format!("the process stops for {for_ms} ms"));
            life.freeze();
            pause(*for_ms).await;
            life.trace(|| "the process goes on".to_owned());
            life.thaw();
        }
        std::future::pending::<()>().await;
    };
    let killing = async {
        match member.kills_ms.iter().find(|at_ms| **at_ms > now_ms) {
            Some(at_ms) => until(*at_ms).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = killing => life.trace(|| "the process is killed".to_owned()),
        () = jumping => {}
        () = freezing => {}
    }
}

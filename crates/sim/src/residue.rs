//! What may be left when everything is done: what instances own, and nothing else.

use crate::check::root_of;
use crate::clock::pause;
use crate::effect::instance_of;
use crate::scene::Scene;
use duroxide::providers::ProviderAdmin;
use futures::FutureExt;
use perennial_kv::SharedMemory;
use perennial_store::{Key, Store};
use perennial_workflow::{Workflows, testing};

/// The kinds of records that stay when all work is done, by the beginning of their ids.
pub const ALLOWED: [&str; 5] = ["head", "page", "exec", "kv", "status"];

/// Marks that a record of an instance bears while somebody works on it.
const MARKS: [&str; 4] = ["claim", "lease", "pending", "condemned"];

/// Longer than any lease and any session.
const LEASES_MS: u64 = 20 * 60_000;

/// Housekeeping that takes longer than this is not done at all.
const HOUSEKEEPING_MS: u64 = 4 * 3_600_000;

/// Lets time pass until housekeeping has put everything in order, and looks whether it has.
pub async fn settle(scene: &Scene, workflows: &Workflows, database: &SharedMemory) {
    pause(LEASES_MS).await;
    let until_ms = scene.time.now_ms() + HOUSEKEEPING_MS;
    while scene.time.now_ms() < until_ms && !left(database).is_empty() {
        pause(LEASES_MS / 4).await;
    }
    let instances = workflows.list_instances().await.unwrap_or_default();
    for instance in &instances {
        if let Err(why) = testing::compare_cached(workflows, &**database.raw(), instance, true).await {
            scene.blame(why);
        }
    }
    let residue = testing::residue(workflows);
    if residue != testing::Residue::default() {
        scene.blame(format!("when all was done there were {residue:?}"));
    }
    match workflows.get_queue_depths().await {
        Ok(depths) if depths.orchestrator_queue + depths.worker_queue + depths.timer_queue == 0 => {}
        other => scene.blame(format!("the queues are not empty: {other:?}")),
    }
}

/// Nothing is left that housekeeping should have taken away.
pub fn check(scene: &Scene, database: &SharedMemory) {
    for what in left(database) {
        scene.blame(format!("{what} was left behind"));
    }
    let deleted = scene.facts.lock().deleted.clone();
    for key in database.disk().keys() {
        let instance = instance_of(&key).map(root_of);
        if instance.is_some_and(|instance| deleted.contains(instance)) {
            scene.blame(format!("{key} of a deleted instance was left behind"));
        }
    }
}

/// What is stored and should not be, when all work is done.
fn left(database: &SharedMemory) -> Vec<String> {
    let keys = database.disk().keys().into_iter();
    keys.filter_map(|key| out_of_place(database, &key)).collect()
}

/// Why a record should not be there, if it should not.
fn out_of_place(database: &SharedMemory, key: &Key) -> Option<String> {
    let kind = key.id.as_str().split('/').next().unwrap_or_default();
    if instance_of(key).is_none() || !ALLOWED.contains(&kind) {
        return Some(format!("{key}"));
    }
    // Memory answers at once.
    let record = database.raw().get(key).now_or_never()?.ok()??;
    if let Some(place) = record.place {
        return Some(format!("{key} in the queue {}", place.lane.name));
    }
    let body: serde_json::Value = serde_json::from_slice(&record.body).ok()?;
    let mark = MARKS
        .iter()
        .find(|mark| body.get(mark).is_some_and(|mark| !mark.is_null()))?;
    Some(format!("{key} with its {mark}"))
}

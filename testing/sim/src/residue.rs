//! What may remain when everything is done: what instances own, and nothing else.

use crate::check::root_of;
use crate::clock::{BEGINNING_MS, pause};
use crate::effect::instance_of;
use crate::scene::Scene;
use duroxide::providers::ProviderAdmin;
use futures::FutureExt;
use perennial_kv::SharedMemory;
use perennial_store::{Key, Partition, Record, Store};
use perennial_workflow::{Workflows, testing};
use std::collections::BTreeSet;

/// The kinds of records that remain when all work is done, by the beginning of their ids. Parts of bodies that were too large
/// for one record remain, too, as long as there is such a record.
pub const ALLOWED: [&str; 5] = ["head", "page", "exec", "kv", "status"];

/// Marks in the head of an instance while it is worked on.
const MARKS: [&str; 2] = ["pending", "condemned"];

/// Longer than any lease and any session.
const LEASES_MS: u64 = 20 * 60_000;

/// Housekeeping that takes longer than this does not work.
const HOUSEKEEPING_MS: u64 = 4 * 3_600_000;

/// Waits until housekeeping has finished, and checks that it has.
pub async fn await_housekeeping(scene: &Scene, workflows: &Workflows, database: &SharedMemory, raw: &dyn Store) {
    pause(LEASES_MS).await;
    let until_ms = scene.time.now_ms() + HOUSEKEEPING_MS;
    while scene.time.now_ms() < until_ms && !left(database).is_empty() {
        pause(LEASES_MS / 4).await;
    }
    let instances = workflows.list_instances().await.unwrap_or_default();
    for instance in &instances {
        if let Err(why) = testing::compare_cached(workflows, raw, instance, false).await {
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

/// Checks that nothing remains that housekeeping should have removed.
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

/// Traces what is still queued: a run that is stuck waits for some of it.
pub fn trace_queued(scene: &Scene, database: &SharedMemory) {
    for key in database.disk().keys() {
        let record = database.raw().get(&key).now_or_never().and_then(Result::ok).flatten();
        if let Some(place) = record.and_then(|record| record.place) {
            let due_ms = i128::from(place.due_ms) - i128::from(BEGINNING_MS);
            scene.trace(|| {
                format!(
                    "queued in {} {:?} at {due_ms}: {key}",
                    place.lane.name, place.lane.topic
                )
            });
        }
    }
}

/// What is stored and should not be, when all work is done.
fn left(database: &SharedMemory) -> Vec<String> {
    // Memory returns at once.
    let read = |key: &Key| database.raw().get(key).now_or_never()?.ok()?;
    let keys = database.disk().keys();
    let records: Vec<Record> = keys.iter().filter_map(read).collect();
    let parts: BTreeSet<(&Partition, String)> = records.iter().filter_map(parts_of).collect();
    let is_part = |key: &Key| {
        let nonce = key
            .id
            .as_str()
            .strip_prefix("part/")
            .and_then(|rest| rest.split('/').next());
        nonce.is_some_and(|nonce| parts.contains(&(&key.partition, nonce.to_owned())))
    };
    let others = records
        .iter()
        .filter(|record| !is_part(&record.key) && !is_member(&record.key));
    let mut left: Vec<String> = others.filter_map(out_of_place).collect();
    // The process that did the housekeeping still lives.
    let members = records.iter().filter(|record| is_member(&record.key));
    left.extend(members.skip(1).map(|record| record.key.to_string()));
    left
}

/// Whether this is the record by which a process announces itself.
fn is_member(key: &Key) -> bool {
    key.partition.as_str().starts_with("mem:")
}

/// The parts that a record's body is stored in, if any.
fn parts_of(record: &Record) -> Option<(&Partition, String)> {
    // A manifest is short.
    let body: serde_json::Value = serde_json::from_slice(record.body.get(..).filter(|body| body.len() < 200)?).ok()?;
    let nonce = body.get("$parts")?.get("nonce")?.as_str()?;
    Some((&record.key.partition, nonce.to_owned()))
}

/// Why a record should not be there, if so.
fn out_of_place(record: &Record) -> Option<String> {
    let key = &record.key;
    let kind = key.id.as_str().split('/').next().unwrap_or_default();
    if instance_of(key).is_none() || !ALLOWED.contains(&kind) {
        return Some(format!("{key}"));
    }
    if let Some(place) = &record.place {
        return Some(format!("{key} in the queue {}", place.lane.name));
    }
    if key.id.as_str() != "head" {
        return None;
    }
    let body: serde_json::Value = serde_json::from_slice(&record.body).ok()?;
    // An expired lease is like none. But a head without an instance must be gone.
    if body.get("name").is_none_or(serde_json::Value::is_null) {
        return Some(format!("{key} of an instance that is not"));
    }
    let is_set = |mark: &&&str| body.get(mark).is_some_and(|mark| !mark.is_null());
    let mark = MARKS.iter().find(is_set)?;
    Some(format!("{key} with its {mark}"))
}

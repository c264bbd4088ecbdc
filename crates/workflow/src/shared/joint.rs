//! Commits to one partition that wait at the same time are made as one.
//!
//! A database that serves one commit of a partition after the other answers a hundred results of a fan-out in a hundred
//! round trips. So while one commit is under way, those that come for the same partition gather, and go together.

use crate::engine::Engine;
use parking_lot::Mutex;
use perennial_store::{Commit, Committed, Error, Key, Op, Partition, Result, Version};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::oneshot;

/// What a part of a joint commit made.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// For each of its operations the version that it wrote.
    pub versions: Committed,
    /// For each of its chances the version that it wrote, if it was taken.
    pub taken: Vec<Option<Version>>,
}

struct Part {
    ops: Vec<Op>,
    /// Operations each of which is made if it can be, and left out if not.
    chances: Vec<Option<Op>>,
    answer: oneshot::Sender<Result<Joined>>,
}

/// Partitions with a commit under way, and what waits for it to end.
#[derive(Default)]
pub struct Joint {
    waiting: Mutex<HashMap<Partition, Vec<Part>>>,
}

/// Commits `ops`, perhaps together with others of the same partition, each of which happens or fails for itself. The
/// `chances` are operations of which each is made too if its condition holds.
pub async fn commit(engine: &Arc<Engine>, ops: Vec<Op>, chances: Vec<Op>) -> Result<Joined> {
    let (Some(shared), Some(first)) = (&engine.shared, ops.first()) else {
        return Err(Error::Invalid("a joint commit is not empty".to_string()));
    };
    let partition = first.key().partition.clone();
    let (answer, outcome) = oneshot::channel();
    let chances = chances.into_iter().map(Some).collect();
    let part = Part { ops, chances, answer };
    let alone = {
        let mut waiting = shared.joint.waiting.lock();
        match waiting.get_mut(&partition) {
            Some(line) => {
                line.push(part);
                None
            }
            None => {
                waiting.insert(partition.clone(), Vec::new());
                Some(part)
            }
        }
    };
    if let Some(part) = alone {
        tokio::spawn(drain(Arc::clone(engine), partition, part));
    }
    let gone = |_| Err(Error::Closed("the process is shutting down".to_string()));
    outcome.await.unwrap_or_else(gone)
}

/// Commits a part, and then whatever came for the same partition meanwhile.
async fn drain(engine: Arc<Engine>, partition: Partition, first: Part) {
    let mut batch = vec![first];
    while !batch.is_empty() {
        together(&engine, batch).await;
        batch = next(&engine, &partition);
    }
}

/// Takes as many parts as fit into one commit, oldest first. The partition is free again when there are none.
fn next(engine: &Engine, partition: &Partition) -> Vec<Part> {
    let Some(shared) = &engine.shared else {
        return Vec::new();
    };
    let limits = engine.store.limits();
    let mut waiting = shared.joint.waiting.lock();
    let Some(line) = waiting.get_mut(partition) else {
        return Vec::new();
    };
    let (mut ops, mut bytes, mut keys, mut count) = (0, 0, HashSet::new(), 0);
    for part in line.iter() {
        ops += part.ops.len();
        bytes += part
            .ops
            .iter()
            .filter_map(Op::draft)
            .map(|draft| draft.body.len())
            .sum::<usize>();
        let apart = part.ops.iter().all(|op| keys.insert(op.key().clone()));
        if count > 0 && (ops > limits.ops_per_commit || bytes > limits.bytes_per_commit / 2 || !apart) {
            break;
        }
        count += 1;
    }
    if count == 0 {
        waiting.remove(partition);
        return Vec::new();
    }
    line.drain(..count).collect()
}

/// Makes parts one commit. A part that fails is answered, and the others are tried again.
async fn together(engine: &Engine, mut parts: Vec<Part>) {
    let limit = engine.store.limits().ops_per_commit;
    while !parts.is_empty() {
        let mut ops: Vec<Op> = parts.iter().flat_map(|part| part.ops.iter().cloned()).collect();
        let own = ops.len();
        let taken = choose(&parts, limit.saturating_sub(own));
        ops.extend(
            taken
                .iter()
                .filter_map(|(part, chance)| parts.get(*part)?.chances.get(*chance)?.clone()),
        );
        match engine.commit(Commit::new(ops)).await {
            Ok(committed) => return answer(parts, &taken, own, &committed),
            Err(Error::Conflict { op, .. }) if op >= own => {
                let Some((part, chance)) = taken.get(op - own) else {
                    return;
                };
                if let Some(chance) = parts.get_mut(*part).and_then(|part| part.chances.get_mut(*chance)) {
                    *chance = None;
                }
            }
            Err(Error::Conflict { op, reason }) => {
                let Some((at, op)) = culprit(&parts, op) else { return };
                let failed = parts.remove(at);
                // Who does not wait any more does not need the answer.
                failed.answer.send(Err(Error::Conflict { op, reason })).ok();
            }
            Err(other) => {
                for part in parts {
                    part.answer.send(Err(other.clone())).ok();
                }
                return;
            }
        }
    }
}

/// Which chances go with a commit, at most so many: part and number. No key may come twice.
fn choose(parts: &[Part], room: usize) -> Vec<(usize, usize)> {
    let mut keys: HashSet<&Key> = parts.iter().flat_map(|part| part.ops.iter().map(Op::key)).collect();
    let mut chosen = Vec::new();
    for (part, chances) in parts.iter().map(|part| &part.chances).enumerate() {
        for (number, chance) in chances.iter().enumerate() {
            let Some(chance) = chance else { continue };
            if chosen.len() < room && keys.insert(chance.key()) {
                chosen.push((part, number));
            }
        }
    }
    chosen
}

fn answer(parts: Vec<Part>, taken: &[(usize, usize)], own: usize, committed: &Committed) {
    let mut versions = committed.versions.iter().take(own).cloned();
    for (at, part) in parts.into_iter().enumerate() {
        let made = |number: usize| {
            let place = taken.iter().position(|taken| *taken == (at, number))?;
            committed.version(own + place).cloned()
        };
        let joined = Joined {
            versions: Committed {
                versions: versions.by_ref().take(part.ops.len()).collect(),
            },
            taken: (0..part.chances.len()).map(made).collect(),
        };
        part.answer.send(Ok(joined)).ok();
    }
}

/// Which part an operation of the joint commit belongs to, and which of its operations it is.
fn culprit(parts: &[Part], mut op: usize) -> Option<(usize, usize)> {
    for (at, part) in parts.iter().enumerate() {
        if op < part.ops.len() {
            return Some((at, op));
        }
        op -= part.ops.len();
    }
    None
}

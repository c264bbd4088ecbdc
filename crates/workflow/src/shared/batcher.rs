//! Batching: commits to one partition that wait at the same time become one.
//!
//! A database that serves the commits of a partition one after the other takes a hundred round trips for a hundred results
//! of a fan-out. So while one commit is under way, those that come for the same partition gather, and go together.

use super::Shared;
use crate::engine::Engine;
use parking_lot::Mutex;
use perennial_store::{Commit, Committed, Error, Key, Op, Partition, Result, Version};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::oneshot;

/// What a part of a batch has written.
#[derive(Clone, Debug, Default)]
pub struct BatchOutcome {
    /// For each of its operations the version that it wrote, if it was needed.
    pub versions: Committed,
    /// For each of its optional operations the version that it wrote, if it was taken.
    pub taken: Vec<Option<Version>>,
}

/// An operation that is made if its condition holds, and left out if not.
#[derive(Clone, Debug)]
pub struct OptionalOp {
    /// The operation.
    pub op: Op,
    /// The operation of its part that is not needed if this one is made.
    pub instead_of: Option<usize>,
}

impl From<Op> for OptionalOp {
    fn from(op: Op) -> Self {
        Self { op, instead_of: None }
    }
}

/// One caller's share of a batch.
struct Part {
    ops: Vec<Op>,
    /// `None` where its condition was found not to hold.
    optional: Vec<Option<OptionalOp>>,
    reply: oneshot::Sender<Result<BatchOutcome>>,
}

/// Partitions with a commit under way, and what waits for it to end.
#[derive(Default)]
pub struct Batcher {
    waiting: Mutex<HashMap<Partition, Vec<Part>>>,
}

/// Commits `ops`, perhaps in one commit with other parts for the same partition, each of which succeeds or fails by itself.
/// Each of the `optional` operations is made too if its condition holds.
pub async fn commit(
    engine: &Arc<Engine>,
    shared: &Arc<Shared>,
    ops: Vec<Op>,
    optional: Vec<OptionalOp>,
) -> Result<BatchOutcome> {
    let Some(first) = ops.first() else {
        return Err(Error::Invalid("a batched commit must not be empty".to_string()));
    };
    let partition = first.key().partition.clone();
    let (reply, outcome) = oneshot::channel();
    let optional = optional.into_iter().map(Some).collect();
    let part = Part { ops, optional, reply };
    let alone = {
        let mut waiting = shared.batcher.waiting.lock();
        match waiting.get_mut(&partition) {
            Some(queue) => {
                queue.push(part);
                None
            }
            None => {
                waiting.insert(partition.clone(), Vec::new());
                Some(part)
            }
        }
    };
    if let Some(part) = alone {
        // Every other writer to the partition waits for it: it must not end with the caller's runtime.
        let drain = drain(Arc::clone(engine), Arc::clone(shared), partition, part);
        engine.spawner.spawn(drain);
    }
    let gone = |_| Err(Error::Closed("the process is shutting down".to_string()));
    outcome.await.unwrap_or_else(gone)
}

/// Commits a part, and then whatever came for the same partition meanwhile.
async fn drain(engine: Arc<Engine>, shared: Arc<Shared>, partition: Partition, first: Part) {
    let mut batch = vec![first];
    while !batch.is_empty() {
        commit_together(&engine, batch).await;
        batch = next(&engine, &shared.batcher, &partition);
    }
}

/// Takes as many parts as fit into one commit, oldest first. If there are none, the partition is free again.
fn next(engine: &Engine, batcher: &Batcher, partition: &Partition) -> Vec<Part> {
    let limits = engine.store.limits();
    let mut waiting = batcher.waiting.lock();
    let Some(queue) = waiting.get_mut(partition) else {
        return Vec::new();
    };
    let (mut ops, mut bytes, mut keys, mut count) = (0, 0, HashSet::new(), 0);
    for part in queue.iter() {
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
    queue.drain(..count).collect()
}

/// Commits parts together. A part that conflicts gets its error, and the others are tried again.
async fn commit_together(engine: &Engine, mut parts: Vec<Part>) {
    let limit = engine.store.limits().ops_per_commit;
    while !parts.is_empty() {
        let steps = arrange(&parts, limit);
        let ops = steps.iter().filter_map(|step| step.op(&parts)).cloned().collect();
        match engine.commit(Commit::new(ops)).await {
            Ok(committed) => return reply(parts, &steps, &committed),
            Err(Error::Conflict { op, reason }) => match steps.get(op) {
                Some(Step::Optional(part, number)) => {
                    if let Some(optional) = parts.get_mut(*part).and_then(|part| part.optional.get_mut(*number)) {
                        *optional = None;
                    }
                }
                Some(Step::Own(part, op)) => {
                    let failed = parts.remove(*part);
                    // A caller that has gone does not need the outcome.
                    failed.reply.send(Err(Error::Conflict { op: *op, reason })).ok();
                }
                None => return,
            },
            Err(other) => {
                for part in parts {
                    part.reply.send(Err(other.clone())).ok();
                }
                return;
            }
        }
    }
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// An operation that a part needs: the part, the operation.
    Own(usize, usize),
    /// An optional operation of a part.
    Optional(usize, usize),
}

impl Step {
    fn op(self, parts: &[Part]) -> Option<&Op> {
        match self {
            Self::Own(part, op) => parts.get(part)?.ops.get(op),
            Self::Optional(part, optional) => parts
                .get(part)?
                .optional
                .get(optional)?
                .as_ref()
                .map(|optional| &optional.op),
        }
    }
}

/// The operations of a batch: all that the parts need, then the optional ones for which there is room. No key comes twice.
fn arrange(parts: &[Part], limit: usize) -> Vec<Step> {
    let all = || parts.iter().enumerate();
    let own = all().flat_map(|(at, part)| (0..part.ops.len()).map(move |op| Step::Own(at, op)));
    let mut steps: Vec<Step> = own.collect();
    let mut keys: HashSet<&Key> = parts.iter().flat_map(|part| part.ops.iter().map(Op::key)).collect();
    let mut taken = Vec::new();
    for (at, part) in all() {
        for (number, optional) in part.optional.iter().enumerate() {
            let Some(optional) = optional else { continue };
            if steps.len() + taken.len() < limit && keys.insert(optional.op.key()) {
                taken.push(Step::Optional(at, number));
                let instead_of = optional.instead_of.map(|op| Step::Own(at, op));
                steps.retain(|step| Some(*step) != instead_of);
            }
        }
    }
    steps.extend(taken);
    steps
}

/// Gives each part the versions that it wrote.
fn reply(parts: Vec<Part>, steps: &[Step], committed: &Committed) {
    let made: HashMap<Step, &Version> = steps
        .iter()
        .zip(&committed.versions)
        .filter_map(|(step, version)| Some((*step, version.as_ref()?)))
        .collect();
    for (at, part) in parts.into_iter().enumerate() {
        let version = |step: Step| made.get(&step).copied().cloned();
        let outcome = BatchOutcome {
            versions: Committed {
                versions: (0..part.ops.len()).map(|op| version(Step::Own(at, op))).collect(),
                inferred: committed.inferred,
            },
            taken: (0..part.optional.len())
                .map(|number| version(Step::Optional(at, number)))
                .collect(),
        };
        part.reply.send(Ok(outcome)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perennial_store::{Draft, RecordId};

    fn create(id: &str) -> Op {
        Op::Create(Draft::new(Key::new(Partition::new("p"), RecordId::of(id)), "{}"))
    }

    fn part(ops: &[&str], optional: &[(&str, Option<usize>)]) -> (Part, oneshot::Receiver<Result<BatchOutcome>>) {
        let (reply, outcome) = oneshot::channel();
        let optional_op = |(id, instead_of): &(&str, Option<usize>)| {
            Some(OptionalOp {
                op: create(id),
                instead_of: *instead_of,
            })
        };
        let part = Part {
            ops: ops.iter().map(|id| create(id)).collect(),
            optional: optional.iter().map(optional_op).collect(),
            reply,
        };
        (part, outcome)
    }

    #[test]
    fn what_an_optional_operation_makes_needless_is_left_out() {
        let (mut one, _reply) = part(&["work", "msg"], &[("head", Some(1)), ("next", None)]);
        let (own, optional) = (|op| Step::Own(0, op), |number| Step::Optional(0, number));
        assert_eq!(
            arrange(std::slice::from_ref(&one), 100),
            [own(0), optional(0), optional(1)]
        );
        one.optional[0] = None;
        assert_eq!(arrange(&[one], 100), [own(0), own(1), optional(1)]);
    }

    #[test]
    fn one_optional_operation_is_taken_for_a_key_and_none_beyond_the_limit() {
        let (one, _one) = part(&["a"], &[("head", Some(0))]);
        let (other, _other) = part(&["b"], &[("head", Some(0))]);
        let parts = [one, other];
        assert_eq!(arrange(&parts, 100), [Step::Own(1, 0), Step::Optional(0, 0)]);
        assert_eq!(arrange(&parts, 2), [Step::Own(0, 0), Step::Own(1, 0)]);
    }

    #[test]
    fn each_part_learns_what_it_wrote() {
        let (one, mut first) = part(&["a"], &[("head", Some(0))]);
        let (other, mut second) = part(&["b"], &[("head", Some(0))]);
        let parts = vec![one, other];
        let steps = arrange(&parts, 100);
        let versions = vec![Some(Version::number(1)), Some(Version::number(2))];
        reply(parts, &steps, &Committed::of(versions));
        let told = |outcome: &mut oneshot::Receiver<Result<BatchOutcome>>| {
            let joined = outcome.try_recv().unwrap().unwrap();
            (joined.versions.versions, joined.taken)
        };
        assert_eq!(told(&mut first), (vec![None], vec![Some(Version::number(2))]));
        assert_eq!(told(&mut second), (vec![Some(Version::number(1))], vec![None]));
    }
}

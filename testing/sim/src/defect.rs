//! Mutations that show in a commit: they are made here, between the engine and its store.

use crate::effect::lease_of;
use perennial_store::{Commit, Committed, Draft, Key, Op};
use perennial_workflow::testing::{Mutation, is_broken};

/// What is reported for a claim that is not written, see [`Mutation::SkipClaim`].
pub fn skipped_claim(commit: &Commit) -> Option<Committed> {
    match commit.ops.as_slice() {
        [Op::Replace(draft, version)] if is_broken(Mutation::SkipClaim) && is_claim(draft) => {
            Some(Committed::of(vec![Some(version.clone())]))
        }
        _ => None,
    }
}

/// A commit as a broken engine would make it, and which of its operations are left out.
pub fn mutated(mut commit: Commit) -> (Commit, Vec<usize>) {
    if is_broken(Mutation::Relaxed) {
        commit = commit.relaxed();
    }
    let turn = turn(&commit).cloned();
    let consumed = commit.ops.iter().filter(|op| is_consumption(op)).count();
    let is_left_out = |op: &Op| match &turn {
        None => false,
        Some(head) => {
            is_broken(Mutation::KeepConsumed) && consumed > 1 && is_consumption(op)
                || is_broken(Mutation::LoseMessage) && is_message_from(head, op)
        }
    };
    let (mut left_out, mut kept) = (Vec::new(), Vec::new());
    for (at, op) in std::mem::take(&mut commit.ops).into_iter().enumerate() {
        match is_left_out(&op) {
            true => left_out.push(at),
            false => kept.push(rewritten(op, turn.is_some())),
        }
    }
    commit.ops = kept;
    (commit, left_out)
}

/// One operation as a broken engine would make it; `in_turn` if it is part of a turn.
fn rewritten(op: Op, in_turn: bool) -> Op {
    match op {
        Op::Create(draft) | Op::Replace(draft, _)
            if !in_turn && is_claim(&draft) && is_broken(Mutation::IgnoreLease) =>
        {
            Op::Put(draft)
        }
        Op::Create(mut draft) if is_timer(&draft) && is_broken(Mutation::EarlyTimers) => {
            if let Some(place) = &mut draft.place {
                place.due_ms = 0;
            }
            Op::Create(draft)
        }
        op => op,
    }
}

/// The head that a turn writes, if this is the commit of one.
fn turn(commit: &Commit) -> Option<&Key> {
    let is_turn = commit.ops.iter().any(|op| is_consumption(op) || is_page(op));
    let mut heads = commit.ops.iter().filter_map(Op::draft).map(|draft| &draft.key);
    heads.find(|key| is_turn && is_head(key))
}

fn is_head(key: &Key) -> bool {
    key.id.as_str() == "head"
}

fn is_page(op: &Op) -> bool {
    op.draft().is_some() && op.key().id.as_str().starts_with("page/")
}

fn is_consumption(op: &Op) -> bool {
    matches!(op, Op::Remove(key) | Op::Delete(key, _) if key.id.as_str().starts_with("msg/"))
}

fn is_message_from(head: &Key, op: &Op) -> bool {
    matches!(op, Op::Create(draft) if draft.key.id.as_str().starts_with("msg/") && draft.key.partition != head.partition)
}

/// Whether a record holds a claim: a head with a lease, or an activity.
fn is_claim(draft: &Draft) -> bool {
    match is_head(&draft.key) {
        true => lease_of(draft).is_some(),
        false => draft.key.id.as_str().starts_with("work/"),
    }
}

fn is_timer(draft: &Draft) -> bool {
    draft.key.id.as_str().starts_with("msg/") && draft.body.windows(10).any(|part| part == b"TimerFired")
}

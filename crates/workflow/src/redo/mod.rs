//! Turns that are larger than a commit.
//!
//! The first commit has what fits, and a record of all the rest. It makes the turn durable: the head says what is
//! *pending*. Then the rest is *rolled forward*, a commit at a time, each of which replaces the head and is fenced by
//! its version: nothing happens twice, and nothing old overwrites anything new. The last commit removes the record and
//! the mark.
//!
//! A process that reads a head with something pending finishes it first, see [`finish`]; if none does, the lane `chores`
//! brings it up.

mod commit;
mod roll;

pub use commit::{Outcome, commit};
pub use roll::Rest;

use crate::engine::Engine;
use crate::mutation::mutant;
use crate::records::decode;
use crate::records::head::Head;
use crate::records::redo::Redo;
use crate::tuning::FIRST_COMMIT_ROOM;
use perennial_store::{Error, Limits, Partition, Result};

/// How many messages a turn may consume, so that its first commit can remove all of them.
pub fn messages_per_turn(ops_per_commit: usize) -> usize {
    ops_per_commit.saturating_sub(FIRST_COMMIT_ROOM).max(1)
}

/// Refuses a store whose commits are too small to be of use.
pub fn check_limits(limits: &Limits) -> Result<()> {
    if limits.ops_per_commit > FIRST_COMMIT_ROOM {
        return Ok(());
    }
    let why = format!(
        "the workflow engine needs more than {FIRST_COMMIT_ROOM} operations in a commit, and this store has {}",
        limits.ops_per_commit
    );
    Err(Error::Invalid(why))
}

/// Rolls forward what is pending of an instance, if anything is.
pub async fn finish(engine: &Engine, partition: &Partition) -> Result<()> {
    let _turn = engine.rolling.enter(partition).await;
    loop {
        let key = Head::key_in(partition.clone());
        let Some(record) = engine.store.get(&key).await? else {
            return Ok(());
        };
        let head: Head = decode(&record)?;
        let Some(pending) = head.pending.clone() else {
            return Ok(());
        };
        let Some(left) = engine.store.get(&Redo::key(partition, pending.turn)).await? else {
            // Another process has finished it since the head was read, or it is lost.
            if engine.store.get(&key).await?.map(|record| record.version) != Some(record.version) {
                continue;
            }
            let why = format!(
                "turn {} of {partition} is pending, and its record is gone",
                pending.turn
            );
            return Err(Error::Corrupt(why));
        };
        let ops = mutant!(LoseStaged, Vec::new(), Redo::open(&left)?.ops(partition));
        let mut rest = Rest::found(partition, head, record.version, ops);
        return rest.roll(engine).await;
    }
}

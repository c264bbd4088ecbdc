//! Rolling forward.

use crate::engine::Engine;
use crate::records::decode;
use crate::records::head::Head;
use crate::records::redo::Redo;
use crate::tuning::FAILURE_PAUSE;
use perennial_store::{Commit, Committed, Draft, Error, Op, Partition, Result, Version};
use tracing::warn;

/// A turn that is durable and not yet complete.
pub struct Rest {
    partition: Partition,
    /// The head as it is stored, with what is pending.
    head: Head,
    version: Option<Version>,
    ops: Vec<Op>,
    done: usize,
    /// What each operation of the whole turn wrote, the first commit's before the rest's.
    versions: Vec<Option<Version>>,
    /// Where in `versions` the rest begins.
    first: usize,
    /// Whether another process did some of it, so that not all versions are known.
    helped: bool,
}

impl Rest {
    /// A turn whose first commit is about to be made.
    pub fn staged(partition: &Partition, head: Head, ops: Vec<Op>) -> Self {
        Self {
            partition: partition.clone(),
            head,
            version: None,
            ops,
            done: 0,
            versions: Vec::new(),
            first: 0,
            helped: false,
        }
    }

    /// A turn that was found, committed by any process.
    pub fn found(partition: &Partition, head: Head, version: Version, ops: Vec<Op>) -> Self {
        let done = head.pending.as_ref().map_or(0, |pending| pending.done);
        let mut rest = Self::staged(partition, head, ops);
        rest.version = Some(version);
        rest.done = usize::try_from(done).unwrap_or(usize::MAX).min(rest.ops.len());
        rest.versions = vec![None; rest.ops.len()];
        rest
    }

    /// The partition of the instance.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The first commit is made.
    pub fn began(&mut self, committed: Committed) {
        self.version = committed.version(0).cloned();
        self.versions = committed.versions;
        // The last operation was the record of the rest.
        self.versions.pop();
        self.first = self.versions.len();
        self.versions.resize(self.first + self.ops.len(), None);
    }

    /// Makes the rest happen. After an error it may be called again.
    pub async fn roll(&mut self, engine: &Engine) -> Result<()> {
        let limit = engine.store.limits().ops_per_commit;
        loop {
            let Some(pending) = self.head.pending.clone() else {
                return Ok(());
            };
            let Some(version) = self.version.clone() else {
                // Another process has overwritten the head before the lost reply to the last commit was resolved.
                self.look_again(engine, pending.turn).await?;
                match self.version {
                    // The instance is gone, and the rest with it.
                    None if self.head.pending.is_some() => return Ok(()),
                    _ => continue,
                }
            };
            let left = self.ops.get(self.done..).unwrap_or_default();
            // The last commit replaces the head and removes the record, too.
            let is_last = left.len() + 2 <= limit;
            let take = if is_last { left.len() } else { left.len().min(limit - 1) };
            let mut head = self.head.clone();
            head.pending = if is_last { None } else { Some(pending.clone()) };
            if let Some(pending) = &mut head.pending {
                pending.done = (self.done + take) as u64;
            }
            let key = Head::key_in(self.partition.clone());
            let mut ops = vec![Op::Replace(head.draft(key)?, version)];
            ops.extend(left.iter().take(take).map(without_condition));
            if is_last {
                ops.push(Op::Remove(Redo::key(&self.partition, pending.turn)));
            }
            match engine.commit(Commit::new(ops)).await {
                Ok(committed) => {
                    let from = self.first + self.done;
                    let written = committed.versions.iter().skip(1).take(take);
                    for (slot, version) in self.versions.iter_mut().skip(from).zip(written) {
                        slot.clone_from(version);
                    }
                    self.done += take;
                    self.version = committed.version(0).cloned();
                    self.head = head;
                }
                Err(Error::Conflict { .. }) => self.look_again(engine, pending.turn).await?,
                Err(other) => return Err(other),
            }
        }
    }

    /// Another process has rolled on.
    async fn look_again(&mut self, engine: &Engine, turn: u64) -> Result<()> {
        self.helped = true;
        let found = engine.store.get(&Head::key_in(self.partition.clone())).await?;
        let Some(record) = found else {
            self.version = None;
            return Ok(());
        };
        let head: Head = decode(&record)?;
        match &head.pending {
            Some(pending) if pending.turn == turn => {
                self.done = usize::try_from(pending.done).unwrap_or(usize::MAX).min(self.ops.len());
                self.version = Some(record.version);
                self.head = head;
            }
            // It is complete. If anything has happened since, perhaps a claim, what this process knows is old.
            _ => {
                self.head.pending = None;
                self.version = (head == self.head).then_some(record.version);
            }
        }
        Ok(())
    }

    /// Completes the rest, however long the store fails, and returns what all commits have written; `None` if the store was
    /// closed.
    pub async fn roll_on(mut self, engine: &Engine) -> Option<Committed> {
        loop {
            let outcome = {
                let _turn = engine.rolling.enter(&self.partition).await;
                self.roll(engine).await
            };
            match outcome {
                Ok(()) => match self.find_versions(engine).await {
                    Ok(()) => return Some(self.committed()),
                    Err(error) => warn!(partition = %self.partition, %error, "a turn could not be looked at yet"),
                },
                Err(Error::Closed(_) | Error::Fenced(_)) => return None,
                Err(error) => warn!(partition = %self.partition, %error, "a turn could not be rolled forward yet"),
            }
            if engine.is_closed() {
                return None;
            }
            engine.clock.sleep(FAILURE_PAUSE).await;
        }
    }

    /// Reads the versions of records that another process wrote. A record that is gone again was consumed, and one that has
    /// changed was claimed: neither belongs to this turn any more.
    async fn find_versions(&mut self, engine: &Engine) -> Result<()> {
        if !self.helped {
            return Ok(());
        }
        let queued = |op: &Op| op.draft().filter(|draft| draft.place.is_some()).cloned();
        let unknown: Vec<(usize, Draft)> = self
            .ops
            .iter()
            .zip(self.first..)
            .filter(|(_, at)| self.versions.get(*at).is_some_and(Option::is_none))
            .filter_map(|(op, at)| Some((at, queued(op)?)))
            .collect();
        for (at, draft) in unknown {
            let found = engine.store.get(&draft.key).await?;
            // The process that rolled forward wrote it with a commit of its own.
            let found = found.filter(|record| draft.is_stored_alike(record));
            if let Some(slot) = self.versions.get_mut(at) {
                *slot = found.map(|record| record.version);
            }
        }
        self.helped = false;
        Ok(())
    }

    /// What the whole turn has written, as if it had been one commit.
    pub fn committed(mut self) -> Committed {
        if let Some(head) = self.versions.first_mut() {
            *head = self.version;
        }
        Committed::of(self.versions)
    }
}

/// Makes an operation depend on the head alone: rolling forward again must not fail because a record exists already.
fn without_condition(op: &Op) -> Op {
    match op {
        Op::Create(draft) => Op::Put(draft.clone()),
        other => other.clone(),
    }
}

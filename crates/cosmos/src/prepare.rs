//! What can be done for a commit before it is sent: check limits, encode, build the batch.

use crate::previous_commits::PreviousCommits;
use crate::{document, names};
use azure_core::http::Etag;
use azure_data_cosmos::TransactionalBatch;
use azure_data_cosmos::options::{BatchDeleteOptions, BatchReplaceOptions, Precondition};
use perennial_store::{Commit, ConflictReason, Counter, Error, Key, Lane, Limits, Op, Result, Version};
use serde_json::value::RawValue;
use std::collections::HashSet;

/// The service takes two million bytes and some more.
const BATCH_BYTES: usize = 2_000_000;
/// The most that the batch needs around a document.
const BYTES_PER_OP: usize = 200;

/// The limits of a store on Cosmos DB.
///
/// A batch has 100 operations and 2 MB, names and attributes included; 400 kB are reserved for those. A body that
/// cannot be nested grows by a third when it is written as base64, so three quarters of the rest are promised.
pub(crate) const LIMITS: Limits = Limits {
    ops_per_commit: 100,
    bytes_per_commit: 1_200_000,
    bytes_per_record: 1_200_000,
    partitions_per_commit: 1,
    // Names that are cut are stored in full in every document, and a batch of 100 must stay below two megabytes with
    // its bodies.
    bytes_per_key: 8 * 1024,
};

/// A tag that no document ever has.
const NO_ETAG: &str = "\"00000000-0000-0000-0000-000000000000\"";

/// What happens to one document.
pub(crate) enum Action {
    Create(Box<RawValue>),
    Put(Box<RawValue>),
    Replace(Box<RawValue>, Etag),
    Delete(Etag),
    Remove,
    /// There must be none: one is created and deleted.
    Absent(Box<RawValue>),
}

/// One operation, ready to be sent.
pub(crate) struct Step {
    /// The index of the caller's operation.
    pub(crate) op: usize,
    /// The document.
    pub(crate) id: String,
    /// The commits that had written what it replaces, as far as they are known.
    pub(crate) before: Vec<String>,
    pub(crate) action: Action,
}

impl Step {
    /// Whether it leaves a document behind.
    pub(crate) fn writes(&self) -> bool {
        matches!(self.action, Action::Create(_) | Action::Put(_) | Action::Replace(..))
    }

    /// Whether it leaves no document where there may have been one.
    pub(crate) fn deletes(&self) -> bool {
        matches!(self.action, Action::Delete(_) | Action::Remove)
    }

    /// How many operations of the batch it takes.
    pub(crate) fn width(&self) -> usize {
        if matches!(self.action, Action::Absent(_)) { 2 } else { 1 }
    }

    /// What a refusal with this status says about the record; `None` if it is not about the record.
    pub(crate) fn conflict(&self, status: u16) -> Option<ConflictReason> {
        match (&self.action, status) {
            (Action::Create(_) | Action::Absent(_), 409) => Some(ConflictReason::Exists),
            (Action::Replace(..) | Action::Delete(_), 404) => Some(ConflictReason::Missing),
            (Action::Replace(..) | Action::Delete(_), 412) => Some(ConflictReason::Changed),
            _ => None,
        }
    }
}

/// A commit within the limits, as documents.
pub(crate) struct Prepared {
    /// The operation that it is counted as.
    pub(crate) operation: &'static str,
    /// The id that its documents carry.
    pub(crate) commit: String,
    /// The partition, encoded.
    pub(crate) partition: String,
    pub(crate) steps: Vec<Step>,
    /// How many operations the caller's commit has.
    pub(crate) ops: usize,
    pub(crate) counters: Vec<(Counter, i64)>,
    /// The queues that it puts records into.
    pub(crate) lanes: Vec<Lane>,
}

/// Checks the limits and builds the documents.
pub(crate) fn prepare(commit: Commit, id: String, previous_commits: &PreviousCommits) -> Result<Prepared> {
    check(&commit)?;
    let partition = commit.ops.first().map(|op| op.key().partition.clone());
    let mut prepared = Prepared {
        operation: "commit",
        commit: id,
        partition: partition.map_or_else(String::new, |partition| names::partition(partition.as_str()).encoded),
        steps: Vec::with_capacity(commit.ops.len()),
        ops: commit.ops.len(),
        counters: commit.counters,
        lanes: Vec::new(),
    };
    let mut bytes = 0;
    for (index, op) in commit.ops.iter().enumerate() {
        let step = step(index, op, &prepared.commit, previous_commits)?;
        bytes += BYTES_PER_OP * step.width() + step.id.len() + document_len(&step.action);
        prepared.steps.push(step);
        let place = op.draft().and_then(|draft| draft.place.as_ref());
        prepared.lanes.extend(place.map(|place| place.lane.clone()));
    }
    within(
        "the number of operations in the commit",
        prepared.width(),
        LIMITS.ops_per_commit,
    )?;
    within("the size of the commit's documents in bytes", bytes, BATCH_BYTES)?;
    Ok(prepared)
}

impl Prepared {
    /// Whether any remaining step changes a document.
    pub(crate) fn changes(&self) -> bool {
        self.steps.iter().any(|step| step.writes() || step.deletes())
    }

    fn width(&self) -> usize {
        self.steps.iter().map(Step::width).sum()
    }

    /// The batch of the remaining steps.
    pub(crate) fn batch(&self) -> azure_data_cosmos::Result<TransactionalBatch> {
        let mut batch = TransactionalBatch::new(self.partition.clone());
        for step in &self.steps {
            let id = step.id.clone();
            batch = match &step.action {
                Action::Create(document) => batch.create_item(document)?,
                Action::Put(document) => batch.upsert_item(document, None)?,
                Action::Replace(document, etag) => {
                    let only = BatchReplaceOptions::default().with_precondition(Precondition::IfMatch(etag.clone()));
                    batch.replace_item(id, document, Some(only))?
                }
                Action::Delete(etag) => {
                    let only = BatchDeleteOptions::default().with_precondition(Precondition::IfMatch(etag.clone()));
                    batch.delete_item(id, Some(only))
                }
                Action::Remove => batch.delete_item(id, None),
                Action::Absent(probe) => batch.create_item(probe)?.delete_item(id, None),
            };
        }
        Ok(batch)
    }
}

fn document_len(action: &Action) -> usize {
    match action {
        Action::Create(document) | Action::Put(document) | Action::Replace(document, _) | Action::Absent(document) => {
            document.get().len()
        }
        Action::Delete(_) | Action::Remove => 0,
    }
}

fn step(index: usize, op: &Op, commit: &str, previous_commits: &PreviousCommits) -> Result<Step> {
    let before = match op {
        Op::Replace(_, version) => version
            .as_text()
            .map(|etag| previous_commits.of(etag))
            .unwrap_or_default(),
        _ => Vec::new(),
    };
    let action = match op {
        Op::Create(draft) => Action::Create(document::write(draft, commit, &[])?),
        Op::Put(draft) => Action::Put(document::write(draft, commit, &[])?),
        Op::Replace(draft, version) => Action::Replace(document::write(draft, commit, &before)?, etag(version)),
        Op::Delete(_, version) => Action::Delete(etag(version)),
        Op::Remove(_) => Action::Remove,
        Op::Absent(key) => Action::Absent(document::probe(key, commit)?),
    };
    Ok(Step {
        op: index,
        id: names::id(op.key().id.as_str()).encoded,
        before,
        action,
    })
}

/// The tag of a version. One that the service cannot have assigned is never sent to it.
fn etag(version: &Version) -> Etag {
    let is_tag = |tag: &&str| tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"') && tag.is_ascii();
    Etag::from(version.as_text().filter(is_tag).unwrap_or(NO_ETAG).to_owned())
}

fn within(what: &'static str, actual: usize, limit: usize) -> Result<()> {
    match actual > limit {
        true => Err(Error::TooLarge { what, actual, limit }),
        false => Ok(()),
    }
}

fn check(commit: &Commit) -> Result<()> {
    within(
        "the number of operations in the commit",
        commit.ops.len(),
        LIMITS.ops_per_commit,
    )?;
    let mut bytes = 0;
    let mut partitions = HashSet::new();
    let mut keys: HashSet<&Key> = HashSet::with_capacity(commit.ops.len());
    for op in &commit.ops {
        let length = op.draft().map_or(0, |draft| draft.body.len());
        within("the size of a record in bytes", length, LIMITS.bytes_per_record)?;
        bytes += length;
        partitions.insert(&op.key().partition);
        if !keys.insert(op.key()) {
            return Err(Error::Invalid(format!(
                "the commit names the record {} twice",
                op.key()
            )));
        }
    }
    within("the size of the commit in bytes", bytes, LIMITS.bytes_per_commit)?;
    within(
        "the number of partitions in the commit",
        partitions.len(),
        LIMITS.partitions_per_commit,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use perennial_store::{Draft, Partition, RecordId};

    fn draft(id: &str, body: impl Into<bytes::Bytes>) -> Draft {
        Draft::new(Key::new(Partition::new("é".repeat(500)), RecordId::of(id)), body)
    }

    #[test]
    fn whatever_the_limits_allow_fits_a_batch() {
        for unit in [&b"x"[..], b"\"", &[0], &[0xff], b"[1,2]"] {
            let each = LIMITS.bytes_per_commit / LIMITS.ops_per_commit;
            let body = unit.repeat(each / unit.len());
            let ops = (0..LIMITS.ops_per_commit).map(|n| Op::Put(draft(&format!("{n:0280}"), body.clone())));
            assert!(prepare(Commit::new(ops.collect()), String::new(), &PreviousCommits::default()).is_ok());
            let body = unit.repeat(LIMITS.bytes_per_record / unit.len());
            assert!(
                prepare(
                    Commit::new(vec![Op::Put(draft("a", body))]),
                    String::new(),
                    &PreviousCommits::default()
                )
                .is_ok()
            );
        }
    }

    #[test]
    fn absence_takes_two_operations_of_the_batch() {
        let absent = |n: usize| Op::Absent(draft(&n.to_string(), "").key);
        assert!(
            prepare(
                Commit::new((0..50).map(absent).collect()),
                String::new(),
                &PreviousCommits::default()
            )
            .is_ok()
        );
        let outcome = prepare(
            Commit::new((0..51).map(absent).collect()),
            String::new(),
            &PreviousCommits::default(),
        );
        assert!(matches!(
            outcome,
            Err(Error::TooLarge {
                actual: 102,
                limit: 100,
                ..
            })
        ));
    }

    #[test]
    fn only_tags_of_the_service_are_sent_to_it() {
        assert_eq!(etag(&Version::text("\"abc\"")), Etag::from("\"abc\""));
        for version in [Version::number(1), Version::text("abc"), Version::text("\"\u{e9}\"")] {
            assert_eq!(etag(&version), Etag::from(NO_ETAG));
        }
    }
}

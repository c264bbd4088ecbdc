//! Which bodies of a commit have to be spilled.

use super::chunks::{Manifest, is_reserved, json};
use super::pointer::{POINTER_BYTES, may_be_pointer};
use super::{BYTES, LONGEST_WAIT_MS};
use crate::{Commit, Draft, Error, Limits, Op, Result};
use std::collections::HashSet;

fn within(what: &'static str, actual: usize, limit: usize) -> Result<()> {
    match actual > limit {
        true => Err(Error::TooLarge { what, actual, limit }),
        false => Ok(()),
    }
}

/// Refuses a commit that could not succeed, so that nothing is staged for it.
pub(super) fn check(commit: &Commit, inner: &Limits) -> Result<()> {
    let ops = commit.ops.len();
    within("the number of operations in the commit", ops, inner.ops_per_commit)?;
    let mut bytes = 0_usize;
    for draft in commit.ops.iter().filter_map(Op::draft) {
        within("the size of a record in bytes", draft.body.len(), BYTES)?;
        bytes = bytes.saturating_add(draft.body.len());
        if is_reserved(&draft.key.id) {
            let key = &draft.key;
            let why = format!(
                "the record {key} cannot be written: ids under `part` are reserved for the chunks of large bodies"
            );
            return Err(Error::Invalid(why));
        }
    }
    within("the size of the commit in bytes", bytes, BYTES)?;
    if inner.partitions_per_commit < ops {
        let partitions: HashSet<_> = commit.ops.iter().map(|op| &op.key().partition).collect();
        let what = "the number of partitions in the commit";
        within(what, partitions.len(), inner.partitions_per_commit)?;
    }
    Ok(())
}

/// The bytes that a spilled body still takes in the final commit: its pointer, and the manifest that is rewritten with
/// it.
fn bytes_left(draft: &Draft) -> Result<usize> {
    let manifest = Manifest {
        owner: draft.key.id.as_str().to_owned(),
        wait_ms: LONGEST_WAIT_MS,
    };
    Ok(POINTER_BYTES + json(&manifest)?.len())
}

/// The operations whose bodies are spilled, in order: those too large for a record, those that would be taken for a
/// pointer, and of the others the largest, until the rest fits into one commit.
pub(super) fn spilling(commit: &Commit, inner: &Limits) -> Result<Vec<usize>> {
    let mut spilling = Vec::new();
    let mut inline = Vec::new();
    let mut bytes = 0_usize;
    let drafts = commit.ops.iter().enumerate();
    for (op, draft) in drafts.filter_map(|(op, one)| Some((op, one.draft()?))) {
        if draft.body.len() > inner.bytes_per_record || may_be_pointer(&draft.body) {
            spilling.push(op);
            bytes += bytes_left(draft)?;
        } else {
            inline.push((op, draft));
            bytes += draft.body.len();
        }
    }
    if bytes > inner.bytes_per_commit {
        inline.sort_by_key(|(op, draft)| (std::cmp::Reverse(draft.body.len()), *op));
        for (op, draft) in inline {
            let saved = draft.body.len().saturating_sub(bytes_left(draft)?);
            if saved > 0 {
                spilling.push(op);
                bytes -= saved;
            }
            if bytes <= inner.bytes_per_commit {
                break;
            }
        }
        spilling.sort_unstable();
    }
    let what = "the size of the commit in bytes, without its large bodies,";
    within(what, bytes, inner.bytes_per_commit)?;
    Ok(spilling)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Partition, RecordId};

    const LIMITS: Limits = Limits {
        ops_per_commit: 10,
        bytes_per_commit: 10_000,
        bytes_per_record: 4_000,
        partitions_per_commit: 1,
        bytes_per_key: usize::MAX,
    };

    fn commit(sizes: &[usize]) -> Commit {
        let draft = |(n, size): (usize, &usize)| {
            let key = Key::new(Partition::new("p"), RecordId::of("r").number(n as u64));
            Op::Put(Draft::new(key, "x".repeat(*size)))
        };
        Commit::new(sizes.iter().enumerate().map(draft).collect())
    }

    #[test]
    fn only_what_must_be_spilled_is() {
        for (sizes, expected) in [
            (&[][..], &[][..]),
            (&[4_000, 4_000], &[]),
            (&[4_001, 10], &[0]),
            (&[4_000, 4_000, 2_000], &[]),
            (&[3_000, 4_000, 3_999], &[1]),
            (&[1_000, 4_000, 3_000, 4_000, 3_000], &[1, 3]),
            (&[9_000, 4_000, 4_000, 3_000], &[0, 1]),
        ] {
            assert_eq!(spilling(&commit(sizes), &LIMITS).unwrap(), expected, "{sizes:?}");
        }
    }

    #[test]
    fn what_looks_like_a_pointer_is_spilled_however_small() {
        let key = Key::new(Partition::new("p"), RecordId::of("a"));
        let ops = vec![Op::Create(Draft::new(key, r#"{"$parts":0}"#))];
        assert_eq!(spilling(&Commit::new(ops), &LIMITS), Ok(vec![0]));
    }

    #[test]
    fn what_cannot_be_made_to_fit_is_refused() {
        let tiny = Limits {
            bytes_per_commit: 300,
            ..LIMITS
        };
        assert!(matches!(
            spilling(&commit(&[200, 200]), &tiny),
            Err(Error::TooLarge { .. })
        ));
        for (refused, what) in [(commit(&[1; 11]), "operations"), (commit(&[BYTES + 1]), "a record")] {
            let outcome = check(&refused, &LIMITS).unwrap_err().to_string();
            assert!(outcome.contains(what), "{outcome}");
        }
        let halves = check(&commit(&[BYTES / 2 + 1, BYTES / 2]), &LIMITS).unwrap_err();
        assert!(halves.to_string().contains("the size of the commit"), "{halves}");
        let key = |partition: &str, id: &str| Key::new(Partition::new(partition), RecordId::of(id));
        let two = Commit::new(vec![Op::Remove(key("p", "a")), Op::Remove(key("q", "a"))]);
        assert!(matches!(check(&two, &LIMITS), Err(Error::TooLarge { .. })));
        let reserved = Commit::new(vec![Op::Put(Draft::new(key("p", "part/1"), "1"))]);
        assert!(matches!(check(&reserved, &LIMITS), Err(Error::Invalid(_))));
        assert_eq!(
            check(&Commit::new(vec![Op::Remove(key("p", "part/1"))]), &LIMITS),
            Ok(())
        );
    }
}

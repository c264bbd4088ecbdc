//! Commits with spilled bodies: stage the chunks, then commit the pointers.

use super::ChunkedStore;
use super::chunks::{self, Manifest};
use super::pointer::{Pointer, hash};
use crate::{Commit, Committed, ConflictReason, Draft, Error, Key, Op, Order, Result, Sharing, Version};
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::HashMap;

/// One body as its manifest and chunks.
struct Spilled<'a> {
    nonce: String,
    manifest: Manifest,
    key: Key,
    order: Order,
    text: Cow<'a, str>,
    /// The lengths of its chunks.
    lengths: Vec<usize>,
}

impl Spilled<'_> {
    fn pointer(&self, body: &[u8]) -> Result<Bytes> {
        let pointer = Pointer {
            nonce: self.nonce.clone(),
            count: self.lengths.len(),
            bytes: body.len(),
            hash: hash(body),
            binary: self.text.as_bytes() != body,
        };
        pointer.encode()
    }
}

/// Writes chunks in as few commits as fit, in the order in which they are pushed. Every chunk is committed together with a
/// write of its manifest: one whose manifest was deleted meanwhile would never be found again.
struct Stager<'a> {
    chunked: &'a ChunkedStore,
    ops: Vec<Op>,
    bytes: usize,
    /// The manifests that were pushed, in order, and their versions as far as they are written.
    manifests: Vec<(Draft, Option<Version>)>,
}

impl Stager<'_> {
    async fn push_manifest(&mut self, manifest: Draft) -> Result<()> {
        self.make_room(&manifest).await?;
        self.push(Op::Create(manifest.clone()));
        self.manifests.push((manifest, None));
        Ok(())
    }

    /// Pushes a chunk of the body whose manifest was pushed last.
    async fn push_chunk(&mut self, chunk: Draft) -> Result<()> {
        self.make_room(&chunk).await?;
        if self.ops.is_empty()
            && let Some((manifest, version)) = self.manifests.last().cloned()
        {
            let version = version.ok_or_else(overtaken)?;
            self.push(Op::Replace(manifest, version));
        }
        self.push(Op::Create(chunk));
        Ok(())
    }

    async fn make_room(&mut self, draft: &Draft) -> Result<()> {
        let limits = &self.chunked.limits;
        let other_partition = |op: &Op| op.key().partition != draft.key.partition;
        let is_full = self.ops.len() >= limits.ops_per_commit
            || self.bytes + draft.body.len() > limits.bytes_per_commit
            || self.ops.first().is_some_and(other_partition);
        match is_full {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    fn push(&mut self, op: Op) {
        self.bytes += op.draft().map_or(0, |draft| draft.body.len());
        self.ops.push(op);
    }

    async fn flush(&mut self) -> Result<()> {
        let ops = std::mem::take(&mut self.ops);
        self.bytes = 0;
        let keys: Vec<Key> = ops.iter().map(|op| op.key().clone()).collect();
        // Relaxed, because whatever undoes these writes also undoes the commit that refers to them.
        let committed = self.chunked.inner.commit(Commit::new(ops).relaxed()).await?;
        let written: HashMap<Key, Option<Version>> = keys.into_iter().zip(committed.versions).collect();
        for (manifest, version) in &mut self.manifests {
            if let Some(now) = written.get(&manifest.key) {
                version.clone_from(now);
            }
        }
        Ok(())
    }
}

/// The manifest was changed right after it was written.
fn overtaken() -> Error {
    Error::Conflict {
        op: 0,
        reason: ConflictReason::Changed,
    }
}

fn draft_mut(op: &mut Op) -> Option<&mut Draft> {
    match op {
        Op::Create(draft) | Op::Put(draft) | Op::Replace(draft, _) => Some(draft),
        Op::Delete(..) | Op::Remove(_) | Op::Absent(_) => None,
    }
}

impl ChunkedStore {
    /// Makes a commit with the bodies of these operations spilled. `None` if the chunks could not be relied on at the
    /// end: then nothing happened, and the commit may be repeated.
    pub(super) async fn spill(&self, commit: &Commit, spilling: &[usize]) -> Result<Option<Committed>> {
        let staged_ms = self.clock.now_ms();
        let mut last = commit.clone();
        let mut spilled = Vec::with_capacity(spilling.len());
        for op in spilling {
            let drafts = commit.ops.get(*op).and_then(Op::draft);
            if let Some((draft, pointer)) = drafts.zip(last.ops.get_mut(*op).and_then(draft_mut)) {
                let body = self.cut(draft, staged_ms)?;
                pointer.body = body.pointer(&draft.body)?;
                spilled.push(body);
            }
        }
        spilled.sort_by(|left, right| left.key.partition.cmp(&right.key.partition));
        let Some(versions) = self.stage(&spilled, staged_ms).await? else {
            return Ok(None);
        };
        let now_ms = self.clock.now_ms();
        if now_ms.saturating_sub(staged_ms) > self.staging_ms / 2 {
            return Ok(None);
        }
        // After the caller's operations, so that their indices stay and their failures are reported first.
        let room = self.limits.ops_per_commit.saturating_sub(self.op_count(&last));
        for (body, version) in spilled.iter().zip(versions).take(room) {
            let manifest = body.manifest.draft(body.key.clone(), &self.lane, body.order, now_ms)?;
            last.ops.push(Op::Replace(manifest, version));
        }
        // The name that dashboards know: "outlined" stands for "spilled".
        metrics::counter!("perennial_store_outlined_total").increment(spilled.len() as u64);
        match self.inner.commit(last).await {
            Ok(mut committed) => {
                committed.versions.truncate(commit.ops.len());
                Ok(Some(committed))
            }
            Err(Error::Conflict { op, .. }) if op >= commit.ops.len() => Ok(None),
            // The chunks stay until they are swept, even though nothing seems to have happened: if a reply was lost on
            // the way, the conflict may be with this very commit.
            Err(error) => Err(error),
        }
    }

    /// How many operations a commit has, as the store below counts them.
    fn op_count(&self, commit: &Commit) -> usize {
        let absent = commit.ops.iter().filter(|op| matches!(op, Op::Absent(_))).count();
        match self.inner.sharing() {
            Sharing::Exclusive => commit.ops.len(),
            Sharing::Shared => commit.ops.len() + absent,
        }
    }

    fn cut<'a>(&self, draft: &'a Draft, staged_ms: u64) -> Result<Spilled<'a>> {
        let number = self.next_number();
        let nonce = chunks::nonce(self.nonce, number);
        let manifest = Manifest {
            owner: draft.key.id.as_str().to_owned(),
            wait_ms: self.staging_ms,
        };
        // The first chunk is written with its manifest, so that one small body is one commit.
        let beside = chunks::json(&manifest)?.len();
        let room = self.limits.bytes_per_commit.saturating_sub(beside);
        let room = room.min(self.limits.bytes_per_record);
        if room < chunks::LEAST_CHUNK {
            return Err(Error::TooLarge {
                what: "the least size of a chunk of a large body",
                actual: beside + chunks::LEAST_CHUNK,
                limit: self.limits.bytes_per_commit,
            });
        }
        let text = chunks::to_text(&draft.body);
        Ok(Spilled {
            key: Key::new(draft.key.partition.clone(), chunks::manifest_id(&nonce)),
            order: chunks::order(staged_ms, number),
            lengths: chunks::cut(&text, room),
            text,
            nonce,
            manifest,
        })
    }

    /// Writes all chunks, each manifest before its own, so that whatever is left behind at any moment can be found.
    /// Returns the versions of the manifests; `None` if a name was taken.
    async fn stage(&self, spilled: &[Spilled<'_>], staged_ms: u64) -> Result<Option<Vec<Version>>> {
        let mut stager = Stager {
            chunked: self,
            ops: Vec::new(),
            bytes: 0,
            manifests: Vec::with_capacity(spilled.len()),
        };
        match write(&mut stager, spilled, staged_ms).await {
            Ok(()) => Ok(stager.manifests.into_iter().map(|(_, version)| version).collect()),
            Err(Error::Conflict { .. }) => Ok(None),
            // What the caller requested has not even begun.
            Err(Error::UnknownOutcome(why)) => Err(Error::Unavailable(why)),
            Err(error) => Err(error),
        }
    }
}

async fn write(stager: &mut Stager<'_>, spilled: &[Spilled<'_>], staged_ms: u64) -> Result<()> {
    for body in spilled {
        let manifest = body
            .manifest
            .draft(body.key.clone(), &stager.chunked.lane, body.order, staged_ms)?;
        stager.push_manifest(manifest).await?;
        let mut rest: &str = &body.text;
        for (number, length) in body.lengths.iter().enumerate() {
            let (chunk, behind) = rest.split_at(*length);
            rest = behind;
            let chunk = chunks::chunk(&body.key.partition, &body.nonce, number, chunk)?;
            stager.push_chunk(chunk).await?;
        }
    }
    stager.flush().await
}

//! The proof that an object store honours conditions.

use super::version_of;
use crate::{Bucket, OpenError};
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutMode, PutOptions, PutResult, UpdateVersion};
use std::hash::{BuildHasher, RandomState};

/// How the names of the objects begin that the proof writes and deletes.
pub(super) const PROBE: &str = "perennial-probe-";

/// Tries everything on an object of its own; returns what was proven.
pub(super) async fn prove(bucket: &Bucket) -> Result<Vec<String>, OpenError> {
    let probe = Probe {
        bucket,
        path: bucket.prefix().clone().join(format!("{PROBE}{:016x}", random())),
    };
    let proven = probe.prove().await;
    let deleted = probe.delete().await;
    let proven = proven?;
    deleted?;
    Ok(proven.iter().map(|text| (*text).to_owned()).collect())
}

/// A number that no other process has: the standard library seeds its hashes by the system's randomness.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

struct Probe<'a> {
    bucket: &'a Bucket,
    path: Path,
}

impl Probe<'_> {
    async fn prove(&self) -> Result<Vec<&'static str>, OpenError> {
        let first = self
            .write("1", PutMode::Create)
            .await
            .map_err(|error| self.failed(&error))?;
        match self.write("2", PutMode::Create).await {
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
            Ok(_) => {
                return Err(self.broken("it let an object be created that existed already (If-None-Match is ignored)"));
            }
            Err(error) => return Err(self.failed(&error)),
        }
        let mut proven = vec!["a second create is refused"];
        let content = match self.bucket.is_directory() {
            // Files are not replaced conditionally; a lock of the directory takes the place of the lease.
            true => "1",
            false => {
                self.prove_updates(first.into()).await?;
                proven.extend(["an update with a stale tag is refused", "new content has a new tag"]);
                "2"
            }
        };
        let found = self.bucket.objects().get(&self.path).await;
        let found = found.map_err(|error| self.failed(&error))?;
        let bytes = found.bytes().await.map_err(|error| self.failed(&error))?;
        match bytes == content {
            true => proven.push("a read returns the last write"),
            false => return Err(self.broken("a read did not return what was written before it")),
        }
        Ok(proven)
    }

    async fn prove_updates(&self, first: UpdateVersion) -> Result<(), OpenError> {
        if first.e_tag.is_none() && first.version.is_none() {
            return Err(self.broken("it gives no tags to what it writes"));
        }
        let second: UpdateVersion = match self.write("2", PutMode::Update(first.clone())).await {
            Ok(written) => written.into(),
            Err(Error::Precondition { .. }) => {
                return Err(self.broken("it refused an update with the tag that it had given before"));
            }
            Err(error @ (Error::NotImplemented { .. } | Error::NotSupported { .. })) => {
                return Err(self.broken(&format!("it has no conditional updates ({error})")));
            }
            Err(error) => return Err(self.failed(&error)),
        };
        if second == first {
            return Err(self.broken("new content has the same tag as the old"));
        }
        match self.write("3", PutMode::Update(first)).await {
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => {}
            Ok(_) => return Err(self.broken("it took an update with a stale tag (If-Match is ignored)")),
            Err(error) => return Err(self.failed(&error)),
        }
        let head = self.bucket.objects().get(&self.path).await;
        let head = head.map_err(|error| self.failed(&error))?;
        match version_of(&head).e_tag == second.e_tag {
            true => Ok(()),
            false => Err(self.broken("a read has another tag than the write before it")),
        }
    }

    async fn write(&self, content: &'static str, mode: PutMode) -> object_store::Result<PutResult> {
        let options = PutOptions::from(mode);
        self.bucket
            .objects()
            .put_opts(&self.path, content.into(), options)
            .await
    }

    async fn delete(&self) -> Result<(), OpenError> {
        match self.bucket.objects().delete(&self.path).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(self.failed(&error)),
        }
        match self.bucket.objects().head(&self.path).await {
            Err(Error::NotFound { .. }) => Ok(()),
            Ok(_) => Err(self.broken("a deleted object is still there")),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &Error) -> OpenError {
        OpenError::from_objects(self.bucket, error)
    }

    fn broken(&self, why: &str) -> OpenError {
        OpenError::NoConditions {
            place: self.bucket.to_string(),
            why: why.to_owned(),
        }
    }
}

//! The lease object: reading it, and writing it on condition.

use super::document::{Document, MOST_BYTES_READ, Unreadable};
use super::mutation::mutant;
use super::{Error, Machine};
use crate::{Bucket, Shard};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutPayload, PutResult, UpdateVersion};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A lease object as it was read or written.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its content.
    pub document: Document,
    /// When it was written, in milliseconds since the Unix epoch by the clock of the object store.
    pub modified_ms: i64,
    pub(super) version: UpdateVersion,
}

/// What a look at the lease object showed.
#[derive(Debug)]
pub(super) enum Look {
    /// There is none.
    Absent,
    /// It still has the version that was named.
    Unchanged,
    Found(Box<Found>),
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Its condition does not hold. Or it does not hold any more, because an earlier try took effect.
    Refused(String),
    /// The bucket refuses this program.
    Denied {
        path: String,
        why: String,
    },
    /// The object store cannot do that, or there is no such bucket.
    Unsupported(String),
    NoBucket(String),
    /// The object cannot be understood.
    Unreadable(Unreadable),
    /// It may succeed later, or may even have succeeded.
    Transient(String),
}

impl Failure {
    fn of(error: object_store::Error) -> Self {
        use object_store::Error as E;
        let why = error.to_string();
        match error {
            E::Precondition { .. } | E::AlreadyExists { .. } | E::NotModified { .. } => Self::Refused(why),
            E::PermissionDenied { path, .. } | E::Unauthenticated { path, .. } => Self::Denied { path, why },
            E::NotSupported { .. }
            | E::NotImplemented { .. }
            | E::UnknownConfigurationKey { .. }
            | E::InvalidPath { .. } => Self::Unsupported(why),
            _ => Self::Transient(why),
        }
    }

    /// What happened, for people.
    pub(super) fn why(&self) -> String {
        match self {
            Self::Refused(why) | Self::Unsupported(why) | Self::NoBucket(why) | Self::Transient(why) => why.clone(),
            Self::Denied { why, .. } => why.clone(),
            Self::Unreadable(unreadable) => match unreadable {
                Unreadable::Newer(format) => format!("it has format {format}, which is newer than this program"),
                Unreadable::Damaged(why) => why.clone(),
            },
        }
    }
}

/// The lease object of a shard.
pub(super) struct LeaseObject {
    objects: Arc<dyn ObjectStore>,
    path: Path,
    probe: Path,
    bucket: String,
    machine: Machine,
    timeout: Duration,
}

impl LeaseObject {
    pub(super) fn new(bucket: &Bucket, shard: Shard, machine: Machine, timeout: Duration) -> Self {
        Self {
            objects: Arc::clone(bucket.objects()),
            path: bucket.lease(shard),
            probe: bucket.lease_probe(shard),
            bucket: bucket.to_string(),
            machine,
            timeout,
        }
    }

    /// The name of the store, for people.
    pub(super) fn bucket(&self) -> String {
        self.bucket.clone()
    }

    /// Reads the object, unless it still has a version that is known.
    pub(super) async fn read(&self, known: Option<&UpdateVersion>) -> Result<Look, Failure> {
        use object_store::Error as E;
        let options = GetOptions::new().with_if_none_match(known.and_then(|known| known.e_tag.clone()));
        let read = async {
            let result = self.objects.get_opts(&self.path, options).await?;
            let meta = result.meta.clone();
            match meta.size {
                size if size > MOST_BYTES_READ => Ok((meta, None)),
                _ => Ok((meta, Some(result.bytes().await?))),
            }
        };
        let (meta, bytes) = match self.within(read).await? {
            Ok(read) => read,
            Err(E::NotFound { .. }) => return Ok(Look::Absent),
            Err(E::NotModified { .. }) if known.is_some() => return Ok(Look::Unchanged),
            Err(error) => return Err(Failure::of(error)),
        };
        let bytes = bytes.ok_or_else(|| {
            let why = format!("it has {} bytes, at most {MOST_BYTES_READ} are sensible", meta.size);
            Failure::Unreadable(Unreadable::Damaged(why))
        })?;
        Ok(Look::Found(Box::new(Found {
            document: Document::decode(&bytes).map_err(Failure::Unreadable)?,
            modified_ms: meta.last_modified.timestamp_millis(),
            version: UpdateVersion {
                e_tag: meta.e_tag,
                version: meta.version,
            },
        })))
    }

    /// Writes the object if it has the given version, or if there is none and no version is given.
    pub(super) async fn write(
        &self,
        document: &Document,
        replaced: Option<&UpdateVersion>,
    ) -> Result<UpdateVersion, Failure> {
        use object_store::Error as E;
        let bytes = document
            .encode()
            .map_err(|error| Failure::Unsupported(error.to_string()))?;
        let mode = mutant!(
            SkipVersion,
            PutMode::Overwrite,
            replaced.map_or(PutMode::Create, |version| PutMode::Update(version.clone()))
        );
        let write = self
            .objects
            .put_opts(&self.path, PutPayload::from_bytes(bytes), mode.into());
        match self.within(write).await? {
            Ok(PutResult { e_tag, version, .. }) if e_tag.is_some() || version.is_some() => {
                Ok(UpdateVersion { e_tag, version })
            }
            // Without its version it cannot be replaced. Reading it gives the version.
            Ok(_) => Err(Failure::Transient("the object store named no version".to_owned())),
            Err(error @ E::NotFound { .. }) => Err(Failure::NoBucket(error.to_string())),
            Err(error) => Err(Failure::of(error)),
        }
    }

    /// The time now by the clock of the object store, in milliseconds: that of an object that is written now.
    pub(super) async fn bucket_time(&self) -> Result<i64, Failure> {
        let content = format!("Tells the time. Nothing else depends on it. {}\n", self.machine.fresh());
        let probe = async {
            self.objects.put(&self.probe, content.into()).await?;
            self.objects.head(&self.probe).await
        };
        let meta = self.within(probe).await?.map_err(Failure::of)?;
        Ok(mutant!(
            TrustWallClock,
            i64::try_from(self.machine.clock.now_ms()).unwrap_or(i64::MAX),
            meta.last_modified.timestamp_millis()
        ))
    }

    async fn within<T>(&self, request: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            result = request => Ok(result),
            () = self.machine.clock.sleep(self.timeout) => {
                Err(Failure::Transient(format!("no reply within {:?}", self.timeout)))
            }
        }
    }

    /// The error for a failure that no waiting mends.
    pub(super) fn error(&self, failure: Failure) -> Error {
        let (bucket, lease) = (self.bucket(), self.path.to_string());
        match failure {
            Failure::Denied { path, why } => Error::Denied { bucket, path, why },
            Failure::NoBucket(why) => Error::NoBucket { bucket, why },
            Failure::Unsupported(why) => Error::Unsupported { bucket, why },
            Failure::Unreadable(Unreadable::Newer(found)) => Error::NewerFormat {
                bucket,
                path: lease,
                found,
            },
            Failure::Unreadable(Unreadable::Damaged(why)) => Error::Damaged {
                bucket,
                path: lease,
                why,
            },
            Failure::Transient(why) | Failure::Refused(why) => Error::Unavailable { bucket, why },
        }
    }
}

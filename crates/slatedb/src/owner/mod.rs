//! Owning a store in a bucket: the lease or the lock, the database, and the store over it.
//!
//! An opening takes three steps, in this order: the lease (or, in a directory, the file lock), the database with an epoch of
//! its own, the queues in memory. A store that has lost any of them is broken, and its [`Ownership`] opens it again.

mod runtime;
mod store;

pub use store::SlateStore;

use crate::lease::{Candidate, Held, Machine, Shown, Wait};
use crate::{Bucket, Deadline, Description, DirectoryLock, Location, OpenError, Opening, Requests, Settings, Shard};
use perennial_kv::{EngineError, KvStore};
use perennial_store::Clock;
use runtime::BucketRuntime;
use std::path::PathBuf;
use std::sync::Arc;

/// A process that owns a store in a bucket, or wants to: opens the store, and opens it again after it was lost. Cheap to clone.
#[derive(Clone)]
pub struct Ownership(Arc<Inner>);

struct Inner {
    bucket: Bucket,
    requests: Requests,
    settings: Settings,
    claim: Claim,
    clock: Arc<dyn Clock>,
    runtime: Arc<BucketRuntime>,
}

/// How other processes are kept out.
enum Claim {
    /// By a lease in the bucket.
    Lease(Candidate),
    /// By the lock of a directory.
    Lock(PathBuf),
}

impl Ownership {
    /// A process that wants to own the store at a location. Sends no request.
    pub fn new(location: &Location, settings: Settings) -> Result<Self, OpenError> {
        let bucket = location.connect()?;
        match location {
            Location::Directory(path) => Self::with(bucket, settings, Machine::this(), Some(path.clone())),
            _ => Self::of(bucket, settings, Machine::this()),
        }
    }

    /// A process that wants to own the store in a bucket, on a machine of the caller's description.
    pub fn of(bucket: Bucket, settings: Settings, machine: Machine) -> Result<Self, OpenError> {
        Self::with(bucket, settings, machine, None)
    }

    fn with(bucket: Bucket, settings: Settings, machine: Machine, lock: Option<PathBuf>) -> Result<Self, OpenError> {
        let runtime = Arc::new(BucketRuntime::start()?);
        let (bucket, requests) = bucket.metered();
        let clock = Arc::clone(&machine.clock);
        let claim = match lock {
            Some(path) => Claim::Lock(path),
            None => {
                let (lease, handle) = (settings.lease.clone(), runtime.handle().clone());
                Claim::Lease(Candidate::new(&bucket, Shard::default(), lease, machine, handle)?)
            }
        };
        Ok(Self(Arc::new(Inner {
            bucket,
            requests,
            settings,
            claim,
            clock,
            runtime,
        })))
    }

    /// The bucket, through a client that counts.
    pub fn bucket(&self) -> &Bucket {
        &self.0.bucket
    }

    /// The requests that this process has made.
    pub fn requests(&self) -> &Requests {
        &self.0.requests
    }

    /// The runtime on which requests are made, whatever becomes of the caller's. It ends with the last clone of this and with
    /// the stores that it has opened.
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        self.0.runtime.handle()
    }

    /// Waits for the lease's length, which is enough to take over from a process that has died.
    pub fn default_wait(&self) -> Wait {
        Wait::For(self.0.settings.lease.length + self.0.settings.lease.renew_every)
    }

    /// Opens the store as soon as this process owns it. An opening that is dropped is given up.
    pub async fn open(&self, wait: Wait) -> Result<SlateStore, OpenError> {
        let inner = Arc::clone(&self.0);
        let opening = runtime::Aborting(self.runtime().spawn(async move { inner.open(wait).await }));
        opening.await.unwrap_or_else(|error| {
            Err(OpenError::Unavailable {
                place: self.0.bucket.to_string(),
                why: format!("the opening was interrupted ({error})"),
            })
        })
    }
}

impl Inner {
    async fn open(&self, wait: Wait) -> Result<SlateStore, OpenError> {
        // Before anything else is in the directory or the bucket, and before the lock file is.
        Description::prepare(&self.bucket, &self.settings, &self.clock).await?;
        let opening = Opening::new(self.settings.clone()).clock(Arc::clone(&self.clock));
        let (opening, held) = self.claim(opening, wait).await?;
        let engine = opening.open(&self.bucket, Shard::default()).await?;
        let (epoch, failure, closing) = (engine.epoch(), engine.watch(), engine.closing());
        let settings = self.settings.store.clone();
        let reading = self
            .runtime
            .handle()
            .spawn_blocking(move || KvStore::with_engine(engine, settings));
        let store = match reading.await {
            Ok(store) => store.map_err(|error| self.refused(error))?,
            Err(error) => return Err(self.refused(EngineError::Io(std::io::ErrorKind::Other, error.to_string()))),
        };
        if let Some(held) = &held {
            let shown = Shown {
                writer_epoch: Some(epoch),
                ..Shown::default()
            };
            // It is for people; what counts is that the lease is held.
            if let Err(error) = held.show(shown).await {
                tracing::debug!(%error, "the epoch of the database could not be shown in the lease");
            }
        }
        Ok(SlateStore::new(store, held, failure, closing, &self.runtime))
    }

    /// Keeps other processes out: by a lease, or by a lock that the database holds until it is closed.
    async fn claim(&self, opening: Opening, wait: Wait) -> Result<(Opening, Option<Held>), OpenError> {
        match &self.claim {
            Claim::Lease(candidate) => {
                let held = candidate.acquire(wait).await?;
                let (lease, ours) = (held.handle(), held.handle());
                let opening = opening
                    .deadline(Deadline::new(move || lease.remaining()))
                    .still_ours(move || ours.is_valid());
                Ok((opening, Some(held)))
            }
            Claim::Lock(path) => {
                let path = path.clone();
                let locking = self
                    .runtime
                    .handle()
                    .spawn_blocking(move || DirectoryLock::acquire(&path));
                let locked = locking.await.map_err(|error| OpenError::Unavailable {
                    place: self.bucket.to_string(),
                    why: error.to_string(),
                })?;
                Ok((opening.guard(locked?), None))
            }
        }
    }

    fn refused(&self, error: EngineError) -> OpenError {
        let place = self.bucket.to_string();
        match error {
            EngineError::Corrupt(why) => OpenError::Damaged { place, why },
            EngineError::Fenced(_) => OpenError::Fenced { place },
            error => OpenError::Unavailable {
                place,
                why: error.to_string(),
            },
        }
    }
}

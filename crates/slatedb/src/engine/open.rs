//! Opening a database.

use super::close::Closing;
use super::failure::Failures;
use super::threads::Threads;
use super::upkeep::{Place, Upkeep};
use super::{SlateEngine, config, keys};
use crate::bounded::{BoundedStore, Bounds, Deadline};
use crate::clock::FlooredClock;
use crate::{Bucket, OpenError, Settings, Shard};
use object_store::ObjectStore;
use object_store::path::Path;
use perennial_store::{Clock, SystemClock};
use slatedb::admin::Admin;
use slatedb::{CloseReason, Db, ErrorKind, VersionedManifest};
use std::any::Any;
use std::sync::Arc;

/// How often an opening is tried when the epoch moves while the database is still this process's own.
const ATTEMPTS: u32 = 4;

/// How a database is opened.
pub struct Opening {
    settings: Settings,
    clock: Arc<dyn Clock>,
    deadline: Deadline,
    still_ours: Box<dyn Fn() -> bool + Send + Sync>,
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl Opening {
    /// An opening by the machine's clock, without a deadline, by a process that owns the database for sure.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            clock: SystemClock::shared(),
            deadline: Deadline::none(),
            still_ours: Box::new(|| true),
            guard: None,
        }
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sets until when the engine may send requests and try them again.
    #[must_use]
    pub fn deadline(self, deadline: Deadline) -> Self {
        Self { deadline, ..self }
    }

    /// Sets how to find out whether the database still belongs to this process. If its epoch moves while it is opened, an
    /// earlier opening of this process, or one that was given up, may have moved it; or another process owns it now.
    #[must_use]
    pub fn still_ours(self, still_ours: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let still_ours = Box::new(still_ours);
        Self { still_ours, ..self }
    }

    /// Has the engine hold something until its database is closed, as the lock of a directory.
    #[must_use]
    pub fn guard(self, guard: impl Any + Send + Sync) -> Self {
        let guard: Option<Box<dyn Any + Send + Sync>> = Some(Box::new(guard));
        Self { guard, ..self }
    }

    /// Opens the database of a shard, or creates it. All earlier openings are fenced off: they write nothing more.
    ///
    /// The database runs on threads of its own, so the caller's runtime may end. If the future is dropped, the opening ends.
    pub async fn open(self, bucket: &Bucket, shard: Shard) -> Result<SlateEngine, OpenError> {
        let threads = Threads::start()?;
        let failures = Failures::new(bucket);
        let bounds = Arc::new(Bounds::opening(
            self.clock.clone(),
            self.settings.request_timeout,
            self.deadline,
            self.settings.open_timeout,
        ));
        let attempt = Attempt {
            path: bucket.database(shard),
            objects: Arc::new(BoundedStore::new(bucket.objects().clone(), bounds.clone())),
            clock: Arc::new(FlooredClock::new(self.clock.clone())),
            machine_clock: self.clock.clone(),
            bucket: bucket.clone(),
            settings: self.settings.clone(),
            guard: self.guard,
        };
        let still_ours = self.still_ours;
        let opened = threads.handle().spawn(async move { attempt.open(&*still_ours).await });
        let opened = match opened.await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                return Err(match bounds.take_denied() {
                    Some(denied) => OpenError::from_objects(bucket, &denied),
                    None => failures.open_error(&error),
                });
            }
            Err(error) => {
                return Err(OpenError::Unavailable {
                    place: bucket.to_string(),
                    why: format!("the opening was interrupted ({error})"),
                });
            }
        };
        bounds.opened();
        let (closed, closing) = Closing::new();
        Ok(SlateEngine {
            visible: opened
                .db
                .snapshot()
                .map_err(|error| failures.open_error(&error))?
                .into(),
            db: opened.db,
            upkeep: opened.upkeep,
            writer: Default::default(),
            log_objects: self.settings.log_objects.max(1),
            failures,
            clock: self.clock,
            write_timeout: self.settings.write_timeout,
            close_timeout: self.settings.open_timeout,
            threads,
            guard: opened.guard,
            closed,
            closing,
        })
    }
}

/// A database that was opened.
struct Opened {
    db: Db,
    upkeep: Upkeep,
    guard: Option<Box<dyn Any + Send + Sync>>,
}

/// Everything that an opening uses.
struct Attempt {
    path: Path,
    objects: Arc<dyn ObjectStore>,
    clock: Arc<FlooredClock>,
    machine_clock: Arc<dyn Clock>,
    bucket: Bucket,
    settings: Settings,
    /// Held by whatever opens: an opening that is dropped may go on for a moment.
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl Attempt {
    async fn open(self, still_ours: &(dyn Fn() -> bool + Send + Sync)) -> Result<Opened, slatedb::Error> {
        let mut attempts = 0;
        let db = loop {
            attempts += 1;
            match self.open_once().await {
                Err(error) if is_fenced(&error) && attempts < ATTEMPTS && still_ours() => {
                    tracing::info!(place = %self.bucket, "the epoch of the database has moved, opening it again");
                }
                outcome => break outcome?,
            }
        };
        self.raise_clock(&db).await?;
        let has_log = db.status().durable_seq > db.manifest().last_l0_seq();
        let upkeep = Upkeep::start(Place {
            db: db.clone(),
            path: self.path,
            objects: self.objects,
            clock: self.clock,
            machine_clock: self.machine_clock,
            bucket: self.bucket,
            settings: self.settings,
        });
        if has_log {
            // Whatever the log held is not read again, however often this process crashes.
            upkeep.flush();
        }
        let guard = self.guard;
        Ok(Opened { db, upkeep, guard })
    }

    /// Opens the database, unless another process does so between the read of its epoch and the claim of the next one.
    async fn open_once(&self) -> Result<Db, slatedb::Error> {
        let admin = Admin::builder(self.path.clone(), self.objects.clone())
            .with_system_clock(self.clock.clone())
            .build();
        let manifest = admin.read_manifest(None).await?;
        if let Some(manifest) = &manifest {
            self.clock.raise(latest_stamp(manifest));
        }
        let epoch = manifest.map_or(0, |manifest| manifest.writer_epoch());
        Db::builder(self.path.clone(), self.objects.clone())
            .with_settings(config::database(&self.settings))
            .with_db_cache(config::cache(&self.settings), 0)
            .with_filter_policies(config::filters(&self.settings))
            .with_system_clock(self.clock.clone())
            .with_expected_epoch(epoch)
            .build()
            .await
    }

    /// Makes the clock start where the last write was made: the newest ones are in the log, which the manifest does not know.
    async fn raise_clock(&self, db: &Db) -> Result<(), slatedb::Error> {
        if let Some(last) = db.get_key_value(keys::TICK).await? {
            self.clock.raise(last.create_ts);
        }
        Ok(())
    }
}

/// The highest time that a manifest holds.
fn latest_stamp(manifest: &VersionedManifest) -> i64 {
    let tables = manifest.all_sst_views().map(|view| view.sst.id.value());
    let merged = [
        manifest.last_compacted_l0_sst_id(),
        manifest.last_compacted_l0_sst_view_id(),
    ];
    let stamps = tables.chain(merged.into_iter().flatten()).map(|id| id.timestamp_ms());
    let stamps = stamps.filter_map(|stamp| i64::try_from(stamp).ok());
    stamps.chain([manifest.last_l0_clock_tick()]).max().unwrap_or_default()
}

fn is_fenced(error: &slatedb::Error) -> bool {
    error.kind() == ErrorKind::Closed(CloseReason::Fenced)
}

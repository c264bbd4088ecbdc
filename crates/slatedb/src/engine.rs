//! SlateDB as an ordered key-value engine.
//!
//! Everything is one SlateDB database. A durable write is one object of its log: the committer thread writes a batch into
//! memory, flushes the log and waits. No timer flushes, so nothing happens while nothing waits.
//!
//! Invariant: readers use snapshots, never the live database, which shows what is not durable yet. A snapshot is taken when
//! a write has returned, and writes come one at a time, so a view shows exactly what is durable, and unsynced batches whose
//! write has returned.

mod close;
mod config;
mod failure;
pub(crate) mod keys;
mod open;
mod read;
mod threads;
mod upkeep;

pub use close::Closing;
pub use open::Opening;

use bytes::Bytes;
use close::Remainder;
use failure::Failures;
use futures::future::{Either, select};
use parking_lot::{Mutex, RwLock};
use perennial_kv::{Batch, EngineError, OrderedKv, Table, View, Write};
use perennial_store::Clock;
use read::SlateView;
use slatedb::config::{FlushOptions, FlushType};
use slatedb::{Db, DbSnapshot, WriteBatch};
use std::any::Any;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use threads::Threads;
use tokio::runtime::Handle;
use tokio::sync::watch;
use upkeep::Upkeep;

/// The longest key that SlateDB takes, without the byte of the table.
pub(crate) const KEY_LIMIT: usize = u16::MAX as usize - 1;

/// The engine of a store in a bucket: one SlateDB database, opened by its owner with an [`Opening`].
///
/// Its database, its object store client and its background work run on threads of their own. Dropping it closes the
/// database, and returns within a second even if the object store hangs; [`closing`](Self::closing) tells when that is done.
pub struct SlateEngine {
    /// What readers see.
    visible: RwLock<Arc<DbSnapshot>>,
    db: Db,
    upkeep: Upkeep,
    writer: Mutex<Writer>,
    log_objects: u32,
    failures: Failures,
    clock: Arc<dyn Clock>,
    write_timeout: Duration,
    close_timeout: Duration,
    threads: Threads,
    guard: Option<Box<dyn Any + Send + Sync>>,
    closed: watch::Sender<bool>,
    closing: Closing,
}

/// The state of whatever writes.
#[derive(Default)]
struct Writer {
    /// The first failed write. What it left in memory must never be seen.
    failed: Option<EngineError>,
    /// Whether the log holds something that is not durable.
    unsynced: bool,
    /// Objects of the log since the table in memory was last written.
    log_objects: u32,
}

impl SlateEngine {
    /// Tells when the database is closed, after the engine was dropped.
    pub fn closing(&self) -> Closing {
        self.closing.clone()
    }

    /// The number of this opening: every opening of a database has a higher one, and ends what those before it may write.
    pub fn epoch(&self) -> u64 {
        self.db.manifest().writer_epoch()
    }

    /// Waits until the database has closed itself, because another process opened it or something failed, and says why.
    pub fn watch(&self) -> impl Future<Output = EngineError> + Send + 'static {
        let (mut status, failures) = (self.db.subscribe(), self.failures.clone());
        async move {
            let closed = status.wait_for(|status| status.close_reason.is_some()).await;
            failures.closed(closed.ok().and_then(|status| status.close_reason))
        }
    }

    fn snapshot(&self) -> SlateView<'_> {
        SlateView {
            snapshot: self.visible.read().clone(),
            threads: &self.threads,
            failures: &self.failures,
        }
    }

    /// Writes a batch, makes everything durable if it is to be, and shows it.
    fn write_batch(&self, batch: Batch, sync: bool) -> Result<(), EngineError> {
        let db = self.db.clone();
        let write = async move {
            if !batch.is_empty() {
                db.write(converted(batch)).await?;
            }
            if sync {
                let flush_type = FlushType::Wal;
                db.flush_with_options(FlushOptions { flush_type }).await?;
            }
            db.snapshot()
        };
        let (failures, clock, timeout) = (self.failures.clone(), self.clock.clone(), self.write_timeout);
        let written = self.threads.wait(async move {
            // When tables in memory cannot be written, SlateDB makes writes wait, without end.
            match select(pin!(write), clock.sleep(timeout)).await {
                Either::Left((written, _)) => written.map_err(|error| failures.engine_error(error)),
                Either::Right(_) => Err(failures.timed_out(timeout)),
            }
        })?;
        *self.visible.write() = written;
        Ok(())
    }
}

/// The batch as SlateDB takes it, with the row from which the next opening learns the time of the last write.
fn converted(batch: Batch) -> WriteBatch {
    let mut writes = WriteBatch::new();
    for write in batch {
        match write {
            Write::Put { table, key, value } => writes.put_bytes(keys::key(table, &key), value),
            Write::Delete { table, key } => writes.delete(keys::key(table, &key)),
        }
    }
    writes.put_bytes(Bytes::from_static(keys::TICK), Bytes::new());
    writes
}

impl OrderedKv for SlateEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.snapshot().get(table, key)
    }

    fn view(&self) -> Box<dyn View + '_> {
        Box::new(self.snapshot())
    }

    fn write(&self, batch: Batch, sync: bool) -> Result<(), EngineError> {
        let mut writer = self.writer.lock();
        if let Some(error) = &writer.failed {
            return Err(error.clone());
        }
        let is_any = !batch.is_empty() || writer.unsynced;
        if let Err(error) = self.write_batch(batch, sync) {
            writer.failed = Some(error.clone());
            return Err(error);
        }
        writer.unsynced = is_any && !sync;
        if is_any && sync {
            writer.log_objects += 1;
        }
        if writer.log_objects >= self.log_objects {
            writer.log_objects = 0;
            self.upkeep.flush();
        }
        Ok(())
    }

    fn blocking(&self) -> Option<&Handle> {
        Some(self.threads.readers())
    }

    fn key_limit(&self) -> usize {
        KEY_LIMIT
    }
}

impl Drop for SlateEngine {
    fn drop(&mut self) {
        let remainder = Remainder {
            db: self.db.clone(),
            clock: self.clock.clone(),
            timeout: self.close_timeout,
            threads: self.threads.take(),
            guard: self.guard.take(),
            closed: self.closed.clone(),
        };
        remainder.close();
    }
}

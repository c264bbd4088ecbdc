//! The database of a shard, as a process sees it that does not own it.
//!
//! SlateDB's own reader follows the database: every so often it looks for a new manifest and for new objects of the log, some ten
//! requests each time. Here it does so only when it is asked to, by a [clock](gate) whose ticks are given out: a client that reads
//! nothing makes no request, and one that reads much makes no more than one that reads a little.
//!
//! Invariant: a view is of one moment. The database is refreshed only while there is no view.

mod gate;
mod view;
mod watched;

use crate::engine::KEY_LIMIT;
use crate::{Bucket, Shard};
use async_trait::async_trait;
use gate::Gate;
use perennial_kv::{EngineError, ReadOnlyKv, View};
use perennial_store::Clock;
use slatedb::config::DbReaderOptions;
use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use slatedb::db_cache::{DbCache, SplitCache};
use slatedb::{DbReader, DbReaderMode, DbStatus, ErrorKind};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{RwLock, watch};
use view::ReaderView;
use watched::Watched;

/// How often SlateDB tries a request of a reader again.
const RETRIES: u32 = 2;
/// How often a refresh is tried during which a request failed.
const REFRESHES: usize = 3;
/// No tick comes by itself, so this is never waited for.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How a client reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderSettings {
    /// How old a view may be before the database is looked at again. A refresh comes on top of it, so that what is read is less
    /// than twice as old, unless the object store is slow.
    pub max_age: Duration,
    /// A reader that was not used for this long is closed, so that it holds no memory, and never meets what was deleted meanwhile.
    pub idle: Duration,
    /// How long one request may take before it counts as failed.
    pub request_timeout: Duration,
    /// The size of the cache of data, in bytes.
    pub cache_bytes: u64,
    /// The size of the cache of filters and indexes, in bytes.
    pub metadata_cache_bytes: u64,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(1),
            idle: Duration::from_secs(60),
            request_timeout: Duration::from_secs(10),
            cache_bytes: 16 << 20,
            metadata_cache_bytes: 16 << 20,
        }
    }
}

/// The database of a shard, read by a process that does not own it. It is opened by the first read.
pub struct DatabaseReader {
    shared: Arc<Shared>,
}

struct Shared {
    bucket: Bucket,
    shard: Shard,
    objects: Watched,
    settings: ReaderSettings,
    clock: Arc<dyn Clock>,
    runtime: Handle,
    /// Held for reading by views, and for writing by what changes what they see.
    opened: RwLock<Option<Opened>>,
    used_ms: AtomicU64,
}

/// An opened reader.
struct Opened {
    reader: DbReader,
    status: watch::Receiver<DbStatus>,
    gate: Arc<Gate>,
    /// When the last refresh that succeeded began.
    fresh_ms: u64,
}

impl Opened {
    /// Whether it has closed itself, because something failed that it could not handle.
    fn has_ended(&self) -> bool {
        self.status.borrow().close_reason.is_some()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl DatabaseReader {
    /// A reader of a shard. Its requests are made on `runtime`, which must have threads of its own, and outlive the reader's users.
    pub fn new(bucket: Bucket, shard: Shard, settings: ReaderSettings, clock: Arc<dyn Clock>, runtime: Handle) -> Self {
        let objects = Watched::new(
            Arc::clone(bucket.objects()),
            Arc::clone(&clock),
            settings.request_timeout,
        );
        let shared = Arc::new(Shared {
            bucket,
            shard,
            objects,
            settings,
            clock,
            runtime,
            opened: RwLock::default(),
            used_ms: AtomicU64::new(0),
        });
        Self { shared }
    }
}

impl Shared {
    fn is_fresh(&self, opened: Option<&Opened>) -> bool {
        let max_age_ms = millis(self.settings.max_age);
        opened.is_some_and(|opened| {
            !opened.has_ended() && self.clock.now_ms() < opened.fresh_ms.saturating_add(max_age_ms)
        })
    }

    /// Sees to it that views are new enough.
    async fn refresh(self: &Arc<Self>) -> Result<(), EngineError> {
        self.used_ms.store(self.clock.now_ms(), Ordering::Release);
        if self.is_fresh(self.opened.read().await.as_ref()) {
            return Ok(());
        }
        let mut opened = self.opened.write().await;
        // Another caller may have been quicker.
        if self.is_fresh(opened.as_ref()) {
            return Ok(());
        }
        if let Some(ended) = opened.take_if(|opened| opened.has_ended()) {
            self.close_later(ended);
        }
        match opened.as_mut() {
            None => {
                *opened = Some(self.open().await?);
                self.runtime.spawn(close_when_idle(Arc::downgrade(self)));
                Ok(())
            }
            Some(opened) => self.follow(opened).await,
        }
    }

    /// Lets the reader look for what is new, until it succeeds.
    async fn follow(&self, opened: &mut Opened) -> Result<(), EngineError> {
        let mut failure = None;
        for _ in 0..REFRESHES {
            let began_ms = self.clock.now_ms();
            self.objects.forget_failure();
            tokio::select! {
                () = opened.gate.tick() => {}
                _ = opened.status.wait_for(|status| status.close_reason.is_some()) => {
                    return Err(self.unavailable("its reader has stopped".to_owned()));
                }
            }
            // The reader only logs a failure, so it is the requests that tell.
            failure = self.objects.failure();
            if failure.is_none() {
                opened.fresh_ms = began_ms;
                return Ok(());
            }
        }
        Err(self.unavailable(failure.unwrap_or_default()))
    }

    async fn open(&self) -> Result<Opened, EngineError> {
        let began_ms = self.clock.now_ms();
        let gate = Arc::new(Gate::new(Arc::clone(&self.clock)));
        let options = DbReaderOptions {
            manifest_poll_interval: NEVER,
            object_store_max_retries: Some(RETRIES),
            ..DbReaderOptions::default()
        };
        let path = self.bucket.database(self.shard);
        let build = DbReader::builder(path, Arc::new(self.objects.clone()))
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_options(options)
            .with_db_cache(self.cache(), 0)
            .with_system_clock(gate.clone())
            .build();
        // SlateDB starts its task on the runtime that it is opened on.
        let built = self.runtime.spawn(build).await;
        let reader = match built {
            Ok(Ok(reader)) => reader,
            Ok(Err(error)) => return Err(self.cannot_open(&error)),
            Err(ended) => return Err(self.unavailable(ended.to_string())),
        };
        Ok(Opened {
            status: reader.subscribe(),
            reader,
            gate,
            fresh_ms: began_ms,
        })
    }

    fn cache(&self) -> Arc<dyn DbCache> {
        let cache = |max_capacity| {
            let options = MokaCacheOptions {
                max_capacity,
                ..MokaCacheOptions::default()
            };
            let cache: Arc<dyn DbCache> = Arc::new(MokaCache::new_with_opts(options));
            Some(cache)
        };
        let split = SplitCache::new()
            .with_block_cache(cache(self.settings.cache_bytes))
            .with_meta_cache(cache(self.settings.metadata_cache_bytes));
        Arc::new(split.build())
    }

    fn cannot_open(&self, error: &slatedb::Error) -> EngineError {
        match (error.kind(), self.objects.failure()) {
            (_, Some(failure)) => self.unavailable(failure),
            (ErrorKind::Data, None) => EngineError::Io(
                io::ErrorKind::NotFound,
                format!(
                    "there is no store at {} that can be read yet: open it once as its owner ({error})",
                    self.bucket
                ),
            ),
            (_, None) => self.unavailable(error.to_string()),
        }
    }

    fn unavailable(&self, why: String) -> EngineError {
        EngineError::Io(
            io::ErrorKind::Other,
            format!("the store at {} cannot be read now: {why}", self.bucket),
        )
    }

    /// Ends what a reader does in the background.
    fn close_later(&self, opened: Opened) {
        self.runtime.spawn(async move {
            // It reads only, so nothing is lost.
            opened.reader.close().await.ok();
        });
    }
}

/// Closes a reader that was not used for a while.
async fn close_when_idle(shared: std::sync::Weak<Shared>) {
    loop {
        let Some(reader) = shared.upgrade() else { return };
        let until_ms = reader
            .used_ms
            .load(Ordering::Acquire)
            .saturating_add(millis(reader.settings.idle));
        let left_ms = until_ms.saturating_sub(reader.clock.now_ms());
        if left_ms == 0 {
            if let Some(opened) = reader.opened.write().await.take() {
                reader.close_later(opened);
            }
            return;
        }
        let clock = Arc::clone(&reader.clock);
        drop(reader);
        clock.sleep(Duration::from_millis(left_ms)).await;
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(opened) = self.opened.get_mut().take() {
            self.close_later(opened);
        }
    }
}

#[async_trait]
impl ReadOnlyKv for DatabaseReader {
    async fn refresh(&self) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        // A caller that is dropped must not leave a refresh half done.
        let refreshed = self.shared.runtime.spawn(async move { shared.refresh().await });
        let ended = |why: tokio::task::JoinError| self.shared.unavailable(why.to_string());
        refreshed.await.map_err(ended)?
    }

    fn view(&self) -> Box<dyn View + '_> {
        Box::new(ReaderView::new(&self.shared))
    }

    fn blocking(&self) -> Option<&Handle> {
        Some(&self.shared.runtime)
    }

    fn key_limit(&self) -> usize {
        KEY_LIMIT
    }
}

#[cfg(test)]
mod tests;

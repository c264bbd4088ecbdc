//! What a database needs now and then: the table in memory written, tables merged, garbage collected.
//!
//! Each runs only when there is something to do, so that an idle database sends next to no requests.

use super::config;
use crate::clock::FlooredClock;
use crate::{Bucket, Settings};
use futures::future::{Either, select};
use object_store::ObjectStore;
use object_store::path::Path;
use perennial_store::Clock;
use slatedb::admin::Admin;
use slatedb::config::{FlushOptions, FlushType};
use slatedb::{CompactorBuilder, Db, DbStatus, GarbageCollectorBuilder};
use slatedb_common::clock::SystemClock;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How often a merge is checked for its end.
const MERGE_CHECK: Duration = Duration::from_secs(15);

/// After a failed merge, the next begins so much later.
const MERGE_BACKOFF: Duration = Duration::from_secs(60);

/// For so many rounds after the last change there may still be garbage that was too young before.
const GARBAGE_ROUNDS: u32 = 3;

/// What upkeep works on.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) db: Db,
    pub(crate) path: Path,
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) clock: Arc<FlooredClock>,
    pub(crate) machine_clock: Arc<dyn Clock>,
    pub(crate) bucket: Bucket,
    pub(crate) settings: Settings,
}

/// The background work of a database. It ends with the runtime on which it was started.
pub(crate) struct Upkeep {
    wanted: Arc<Notify>,
}

impl Upkeep {
    /// Starts on the current runtime.
    pub(crate) fn start(place: Place) -> Self {
        let wanted = Arc::new(Notify::new());
        tokio::spawn(flush(place.db.clone(), wanted.clone()));
        tokio::spawn(merge(place.clone()));
        tokio::spawn(collect_garbage(place));
        Self { wanted }
    }

    /// Has the table in memory written, so that the log before it is no longer needed.
    pub(crate) fn flush(&self) {
        self.wanted.notify_one();
    }
}

/// Writes the table in memory whenever that is wanted. Commits do not wait for it.
async fn flush(db: Db, wanted: Arc<Notify>) {
    loop {
        wanted.notified().await;
        let flush_type = FlushType::MemTable;
        if let Err(error) = db.flush_with_options(FlushOptions { flush_type }).await {
            // The database has closed itself, which its users notice.
            tracing::debug!(%error, "the table in memory could not be written");
            return;
        }
    }
}

/// Whether tables are to be merged.
fn is_due(status: &DbStatus) -> bool {
    status.current_manifest.l0().len() >= config::MERGED_TABLES
}

/// Merges tables whenever enough have been written.
async fn merge(place: Place) {
    let mut status = place.db.subscribe();
    loop {
        let is_open = status
            .wait_for(|status| is_due(status) || status.close_reason.is_some())
            .await
            .is_ok_and(|status| status.close_reason.is_none());
        if !is_open {
            return;
        }
        if let Err(error) = merge_all(&place, &mut status).await {
            tracing::warn!(%error, place = %place.bucket, "tables could not be merged; this is tried again");
            place.clock.sleep(MERGE_BACKOFF).await;
        }
    }
}

/// Merges until there is nothing more to merge.
async fn merge_all(place: &Place, status: &mut watch::Receiver<DbStatus>) -> Result<(), slatedb::Error> {
    let admin = Admin::builder(place.path.clone(), place.objects.clone())
        .with_system_clock(place.clock.clone())
        .build();
    // A merge may not be older than the last one.
    is_merging(place, &admin).await?;
    let compactor = CompactorBuilder::new(place.path.clone(), place.objects.clone())
        .with_options(config::compactor())
        .with_filter_policies(config::filters(&place.settings))
        .with_system_clock(place.clock.clone())
        .build();
    tokio::select! {
        ended = compactor.run() => ended,
        settled = settled(place, status, &admin) => {
            compactor.stop().await?;
            settled
        }
    }
}

/// Returns when nothing is being merged, and nothing is to be.
async fn settled(place: &Place, status: &mut watch::Receiver<DbStatus>, admin: &Admin) -> Result<(), slatedb::Error> {
    loop {
        place.clock.sleep(MERGE_CHECK).await;
        let is_due = {
            let status = status.borrow_and_update();
            if status.close_reason.is_some() {
                return Ok(());
            }
            is_due(&status)
        };
        if !is_due && !is_merging(place, admin).await? {
            return Ok(());
        }
    }
}

/// Whether tables are being merged. Tells the clock when that began.
async fn is_merging(place: &Place, admin: &Admin) -> Result<bool, slatedb::Error> {
    let read = pin!(admin.read_compactions(None));
    // Left alone, it would try for ever.
    let Either::Left((merges, _)) = select(read, place.clock.sleep(MERGE_CHECK)).await else {
        return Err(slatedb::Error::unavailable(
            "the state of merges could not be read".to_owned(),
        ));
    };
    let Some(merges) = merges? else { return Ok(false) };
    let mut is_merging = false;
    for merge in merges.recent_compactions() {
        is_merging |= merge.active();
        let outputs = merge.output_ssts();
        let stamps = outputs.iter().map(|table| table.id.value()).chain([merge.id()]);
        for stamp in stamps {
            place
                .clock
                .raise(i64::try_from(stamp.timestamp_ms()).unwrap_or_default());
        }
    }
    Ok(is_merging)
}

/// Deletes what is no longer needed, at intervals, as long as anything changes.
async fn collect_garbage(place: Place) {
    // The age of objects is judged by the machine's own time: by a clock that is ahead they would seem old too early.
    let clock = FlooredClock::new(place.machine_clock.clone());
    let collector = GarbageCollectorBuilder::new(place.path.clone(), place.objects.clone())
        .with_options(config::garbage(&place.bucket, &place.settings))
        .with_system_clock(Arc::new(clock))
        .build();
    let mut last = None;
    let mut rounds = 0;
    loop {
        place.clock.sleep(place.settings.garbage_interval).await;
        let status = place.db.status();
        if status.close_reason.is_some() {
            return;
        }
        let now = Some((status.current_manifest.id(), status.durable_seq));
        rounds = match now == last {
            true => rounds + 1,
            false => 0,
        };
        last = now;
        if rounds < GARBAGE_ROUNDS {
            collector.run_gc_once().await;
        }
    }
}

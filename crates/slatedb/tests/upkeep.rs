//! What a database does by itself: it merges tables, deletes garbage, and else next to nothing.

#![allow(clippy::unwrap_used)]

mod support;

use futures::TryStreamExt;
use object_store::path::Path;
use perennial_kv::OrderedKv;
use perennial_slatedb::{Bucket, Class, Location, Opening, Operation, Settings, Shard, SlateEngine};
use perennial_store::Clock;
use slatedb::admin::Admin;
use std::sync::Arc;
use std::time::Duration;
use support::fast::FastClock;
use support::{batch, get, put};

const MINUTE: Duration = Duration::from_secs(60);

async fn open(bucket: &Bucket, settings: Settings, clock: &Arc<FastClock>) -> SlateEngine {
    let opening = Opening::new(settings).clock(clock.clone());
    opening.open(bucket, Shard(0)).await.unwrap()
}

/// Requests take no time on a clock that runs so fast.
fn patient() -> Settings {
    Settings {
        request_timeout: Duration::from_secs(3600),
        open_timeout: Duration::from_secs(3600),
        ..Settings::default()
    }
}

fn write(engine: &SlateEngine, numbers: std::ops::Range<u32>) {
    for number in numbers {
        engine
            .write(batch([put(&format!("{number:06}"), &format!("value {number}"))]), true)
            .unwrap();
    }
}

fn check(engine: &SlateEngine, numbers: std::ops::Range<u32>) {
    for number in numbers {
        assert_eq!(get(engine, &format!("{number:06}")), Some(format!("value {number}")));
    }
}

fn admin(bucket: &Bucket, prefix: &str) -> Admin {
    Admin::builder(Path::from(format!("{prefix}0/db")), bucket.objects().clone()).build()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_database_sends_next_to_nothing() {
    let (bucket, requests) = support::bucket().metered();
    let clock = FastClock::new(100);
    let engine = open(&bucket, patient(), &clock).await;
    write(&engine, 0..50);
    drop(engine);
    let engine = open(&bucket, patient(), &clock).await;
    write(&engine, 50..100);
    let before = requests.counts();
    clock.sleep(10 * MINUTE).await;
    let counts = requests.counts().since(&before);
    println!("ten idle minutes: {counts:?}");
    let written = counts.operation(Operation::Put) + counts.operation(Operation::List);
    let read = counts.operation(Operation::Get) + counts.operation(Operation::Head);
    assert!(written <= 2, "{counts:?}");
    assert!(read <= 60, "{counts:?}");
    check(&engine, 0..100);
}

/// Waits until the tables that were written from memory are merged.
async fn merged(admin: &Admin, clock: &FastClock) {
    loop {
        let manifest = admin.read_manifest(None).await.unwrap().unwrap();
        if manifest.l0().len() < 4 && !manifest.compacted().is_empty() {
            return;
        }
        clock.sleep(Duration::from_secs(1)).await;
    }
}

async fn merges(bucket: &Bucket, prefix: &str) {
    let clock = FastClock::new(20);
    let settings = Settings {
        log_objects: 10,
        ..patient()
    };
    let engine = open(bucket, settings.clone(), &clock).await;
    write(&engine, 0..60);
    merged(&admin(bucket, prefix), &clock).await;
    check(&engine, 0..60);
    // And once more, on top of what is merged.
    write(&engine, 30..90);
    check(&engine, 0..90);
    drop(engine);
    check(&open(bucket, settings, &clock).await, 0..90);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_merged_in_memory() {
    merges(&support::bucket(), "some/prefix/").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_merged_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let bucket = Location::Directory(directory.path().into()).connect().unwrap();
    merges(&bucket, "").await;
}

/// A clock that is behind another.
struct Behind(Arc<FastClock>, Duration);

#[async_trait::async_trait]
impl Clock for Behind {
    fn now_ms(&self) -> u64 {
        self.0.now_ms() - u64::try_from(self.1.as_millis()).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        self.0.sleep(duration).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_clock_is_a_day_behind_merges_too() {
    let bucket = support::bucket();
    let clock = FastClock::new(20);
    let settings = Settings {
        log_objects: 10,
        ..patient()
    };
    let engine = open(&bucket, settings.clone(), &clock).await;
    write(&engine, 0..60);
    let admin = admin(&bucket, "some/prefix/");
    merged(&admin, &clock).await;
    let before = admin.read_manifest(None).await.unwrap().unwrap().compacted().len();
    std::mem::forget(engine);
    let behind = Arc::new(Behind(clock.clone(), 24 * 60 * MINUTE));
    let opening = Opening::new(settings).clock(behind);
    let engine = opening.open(&bucket, Shard(0)).await.unwrap();
    write(&engine, 60..120);
    loop {
        let manifest = admin.read_manifest(None).await.unwrap().unwrap();
        if manifest.l0().len() < 4 && manifest.compacted().len() > before {
            break;
        }
        clock.sleep(Duration::from_secs(1)).await;
    }
    check(&engine, 0..120);
    write(&engine, 120..130);
}

/// The objects of a folder, with their sizes.
async fn objects(bucket: &Bucket, folder: &str) -> Vec<u64> {
    let sizes = bucket
        .objects()
        .list(Some(&Path::from(folder)))
        .map_ok(|object| object.size);
    sizes.try_collect().await.unwrap()
}

async fn collects(bucket: Bucket, prefix: &str) {
    let (bucket, requests) = bucket.metered();
    let clock = FastClock::new(2000);
    let settings = Settings {
        log_objects: 10,
        ..patient()
    };
    drop(open(&bucket, settings.clone(), &clock).await);
    let engine = open(&bucket, settings.clone(), &clock).await;
    write(&engine, 0..100);
    let (log, manifests) = (format!("{prefix}0/db/wal"), format!("{prefix}0/db/manifest"));
    loop {
        let kept = objects(&bucket, &log).await.iter().filter(|size| **size > 0).count();
        if kept <= 20 && objects(&bucket, &manifests).await.len() <= 5 {
            break;
        }
        clock.sleep(MINUTE).await;
    }
    // The fences of both openings are still there.
    assert_eq!(
        objects(&bucket, &log).await.iter().filter(|size| **size == 0).count(),
        2
    );
    check(&engine, 0..100);
    // When nothing changes any more, nothing is looked for.
    let lists = || requests.counts().of(Operation::List, Class::Log);
    let mut last = lists();
    loop {
        clock.sleep(3 * settings.garbage_interval).await;
        match lists() == last {
            true => break,
            false => last = lists(),
        }
    }
    drop(engine);
    check(&open(&bucket, settings, &clock).await, 0..100);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_deleted_from_memory_and_fences_are_not() {
    collects(support::bucket(), "some/prefix/").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_deleted_from_a_directory_and_fences_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let bucket = Location::Directory(directory.path().into()).connect().unwrap();
    collects(bucket, "").await;
}

//! Listings: pages, lags, and uploads that appear in them.
#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use perennial_bucket::{Fault, FaultyBucket, MemoryBucket, Method};
use perennial_store::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that the test moves.
#[derive(Default)]
struct ManualClock(AtomicU64);

impl ManualClock {
    fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    async fn sleep(&self, duration: Duration) {
        self.advance(duration.as_millis() as u64);
    }
}

fn bucket() -> (FaultyBucket, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let server = Arc::new(MemoryBucket::new(clock.clone()));
    (FaultyBucket::new(server, clock.clone()), clock)
}

async fn names(bucket: &FaultyBucket) -> Vec<String> {
    let listed: Vec<_> = bucket.list(None).try_collect().await.unwrap();
    listed.iter().map(|meta| meta.location.to_string()).collect()
}

async fn folders(bucket: &FaultyBucket) -> Vec<String> {
    let listed = bucket.list_with_delimiter(None).await.unwrap();
    listed.common_prefixes.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_late_listing_lacks_what_any_client_has_just_written() {
    let (bucket, clock) = bucket();
    let writer = bucket.client(clock.clone());
    writer.put(&Path::from("a/1"), "".into()).await.unwrap();
    clock.advance(500);
    writer.put(&Path::from("b/1"), "".into()).await.unwrap();
    bucket.set_list_lag(Duration::from_millis(500));
    assert_eq!(names(&bucket).await, ["a/1"]);
    assert_eq!(folders(&bucket).await, ["a"]);
    // An object is read although it is not listed.
    bucket.get(&Path::from("b/1")).await.unwrap();
    clock.advance(500);
    assert_eq!(names(&bucket).await, ["a/1", "b/1"]);
    assert_eq!(folders(&bucket).await, ["a", "b"]);
}

#[tokio::test]
async fn one_listing_is_late() {
    let (bucket, _clock) = bucket();
    bucket.put(&Path::from("a"), "".into()).await.unwrap();
    bucket.fail_at(1, Fault::StaleList(Duration::from_secs(1)));
    assert!(names(&bucket).await.is_empty());
    assert_eq!(names(&bucket).await, ["a"]);
}

#[tokio::test]
async fn every_page_of_a_listing_is_a_request_that_may_fail() {
    let (bucket, _clock) = bucket();
    for number in 0..2_001 {
        bucket
            .put(&Path::from(format!("{number:04}")), "".into())
            .await
            .unwrap();
    }
    bucket.restart();
    assert_eq!(names(&bucket).await.len(), 2_001);
    assert_eq!(bucket.counts().of(Method::List), 3);
    let offset = Path::from("1999");
    let behind: Vec<_> = bucket.list_with_offset(None, &offset).try_collect().await.unwrap();
    assert_eq!((behind.len(), bucket.counts().of(Method::List)), (1, 4));

    bucket.fail_at(5, Fault::Fail);
    let mut listing = bucket.list(None);
    let mut listed = 0;
    let failed = loop {
        match listing.try_next().await {
            Ok(entry) => listed += usize::from(entry.is_some()),
            Err(error) => break error,
        }
    };
    assert!(failed.to_string().contains("request 5"), "{failed}");
    assert_eq!(listed, 1_000);
}

#[tokio::test]
async fn every_step_of_an_upload_is_a_request_that_may_fail() {
    let (bucket, _clock) = bucket();
    let path = Path::from("large");
    bucket.fail_at(2, Fault::Fail);
    bucket.fail_at(3, Fault::LoseReply);
    let mut upload = bucket.put_multipart(&path).await.unwrap();
    upload.put_part("12".into()).await.unwrap();
    let mut failed = upload.put_part("34".into());
    assert!((&mut failed).await.is_err());
    assert!(upload.complete().await.is_err());
    // The part was sent, as far as the object store in memory is concerned, when it was made.
    assert_eq!(bucket.get(&path).await.unwrap().bytes().await.unwrap(), "1234");
    let counts = bucket.counts();
    assert_eq!((counts.of(Method::UploadPart), counts.of(Method::FinishUpload)), (2, 1));
}

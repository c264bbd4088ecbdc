//! Every fault does what it says, at the request that it is planned for.
#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use perennial_bucket::{Condition, Fault, FaultyBucket, Latency, MemoryBucket, Method};
use perennial_store::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time of a paused runtime.
struct VirtualClock(Instant);

#[async_trait]
impl Clock for VirtualClock {
    fn now_ms(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }

    #[allow(clippy::disallowed_methods)]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[allow(clippy::disallowed_methods)]
fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock(Instant::now()))
}

fn bucket() -> FaultyBucket {
    let clock = clock();
    FaultyBucket::new(Arc::new(MemoryBucket::new(Arc::clone(&clock))), clock)
}

const SECOND: Duration = Duration::from_secs(1);

fn path() -> Path {
    Path::from("folder/object")
}

/// What the bucket holds, whatever the client was told.
async fn stored(bucket: &FaultyBucket) -> Option<Bytes> {
    let other = bucket.client(clock());
    Some(other.get(&path()).await.ok()?.bytes().await.unwrap())
}

fn create() -> PutOptions {
    PutMode::Create.into()
}

#[tokio::test(start_paused = true)]
async fn a_request_fails_before_or_after_it_takes_effect() {
    for (fault, expected) in [(Fault::Fail, None), (Fault::LoseReply, Some("1".into()))] {
        let bucket = bucket();
        bucket.fail_at(0, fault);
        let error = bucket.put(&path(), "1".into()).await.unwrap_err();
        assert!(error.to_string().contains("connection reset"), "{error}");
        assert_eq!(stored(&bucket).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_hangs_before_or_after_it_takes_effect() {
    for (fault, expected) in [(Fault::Hang, None), (Fault::HangAfter, Some("1".into()))] {
        let bucket = bucket();
        bucket.fail_at(0, fault);
        let path = path();
        let mut put = Box::pin(bucket.put(&path, "1".into()));
        assert!((&mut put).now_or_never().is_none());
        bucket.clock_sleep(3_600).await;
        assert!((&mut put).now_or_never().is_none());
        assert_eq!(stored(&bucket).await, expected);
    }
}

/// Lets virtual time pass.
trait Sleep {
    async fn clock_sleep(&self, seconds: u64);
}

impl Sleep for FaultyBucket {
    async fn clock_sleep(&self, seconds: u64) {
        clock().sleep(Duration::from_secs(seconds)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_or_its_reply_is_late() {
    for (fault, stored_at_once) in [(Fault::Delay(SECOND), false), (Fault::DelayReply(SECOND), true)] {
        let bucket = bucket();
        bucket.fail_at(0, fault);
        let began = clock();
        let path = path();
        let mut put = Box::pin(bucket.put(&path, "1".into()));
        assert!((&mut put).now_or_never().is_none());
        assert_eq!(stored(&bucket).await.is_some(), stored_at_once);
        put.await.unwrap();
        assert_eq!(began.now_ms(), 1_000);
        assert!(stored(&bucket).await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_failed_takes_effect_later() {
    let bucket = bucket();
    bucket.fail_at(0, Fault::Late(SECOND));
    bucket.put(&path(), "1".into()).await.unwrap_err();
    assert_eq!(stored(&bucket).await, None);
    bucket.clock_sleep(2).await;
    assert_eq!(stored(&bucket).await, Some("1".into()));
}

#[tokio::test(start_paused = true)]
async fn a_conditional_write_that_the_library_repeats_is_refused_although_it_succeeded() {
    let bucket = bucket();
    bucket.fail_at(0, Fault::Twice);
    let refused = bucket.put_opts(&path(), "1".into(), create()).await;
    assert!(matches!(refused, Err(Error::AlreadyExists { .. })), "{refused:?}");
    assert_eq!(stored(&bucket).await, Some("1".into()));
}

#[tokio::test(start_paused = true)]
async fn a_request_is_throttled_or_denied() {
    let bucket = bucket();
    bucket.plan(|request| (request.index % 2 == 0).then_some(Fault::Throttle));
    bucket.fail_at(1, Fault::Deny);
    let throttled = bucket.put(&path(), "1".into()).await.unwrap_err();
    assert!(throttled.to_string().contains("SlowDown"), "{throttled}");
    let denied = bucket.put(&path(), "1".into()).await;
    assert!(matches!(denied, Err(Error::PermissionDenied { .. })), "{denied:?}");
    assert_eq!(stored(&bucket).await, None);
    bucket.heal();
    bucket.put(&path(), "1".into()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_frozen_client_neither_sends_nor_receives() {
    let bucket = bucket();
    bucket.fail_at(1, Fault::Delay(SECOND));
    let path = path();
    bucket.freeze();
    let mut put = Box::pin(bucket.put(&path, "1".into()));
    assert!((&mut put).now_or_never().is_none());
    assert_eq!(stored(&bucket).await, None);
    bucket.thaw();
    put.await.unwrap();
    let mut get = Box::pin(bucket.get(&path));
    assert!((&mut get).now_or_never().is_none());
    bucket.freeze();
    bucket.clock_sleep(5).await;
    assert!((&mut get).now_or_never().is_none());
    bucket.thaw();
    get.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_recorded_and_awaited() {
    let bucket = bucket();
    bucket.fail_at(1, Fault::Fail);
    bucket.put_opts(&path(), "123".into(), create()).await.unwrap();
    bucket.get(&path()).await.unwrap_err();
    bucket.head(&path()).await.unwrap();
    let before = bucket.counts();
    bucket.delete(&path()).await.unwrap();
    bucket.wait_for(4).await;
    assert!(bucket.wait_for(5).now_or_never().is_none());

    let counts = bucket.counts();
    assert_eq!((counts.writes(), counts.reads(), counts.total()), (1, 2, 4));
    assert_eq!(counts.since(&before).of(Method::Delete), 1);
    assert_eq!(counts.since(&before).total(), 1);
    let records = bucket.records();
    assert_eq!(records[0].request.condition, Condition::IfAbsent);
    assert_eq!(records[0].request.sent_bytes, 3);
    assert!(records[0].is_ok() && !records[1].is_ok());
    assert_eq!(records[1].fault, Some(Fault::Fail));

    bucket.restart();
    assert_eq!((bucket.requested(), bucket.counts().total()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn requests_take_as_long_as_their_kind() {
    let bucket = bucket().with_latency(Latency::cloud());
    let began = clock();
    bucket.put(&path(), "1".into()).await.unwrap();
    assert_eq!(began.now_ms(), 25);
    bucket.get(&path()).await.unwrap();
    assert_eq!(began.now_ms(), 37);
    let listed: Vec<_> = bucket.list(None).try_collect().await.unwrap();
    assert_eq!((listed.len(), began.now_ms()), (1, 62));
}

//! The bucket in memory behaves as those of the clouds, on a clock of its own.
#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use perennial_bucket::{MemoryBucket, Tags};
use perennial_store::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
struct ManualClock(AtomicU64);

#[async_trait]
impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    async fn sleep(&self, _duration: Duration) {}
}

fn path() -> Path {
    Path::from("a")
}

fn version(tag: &Option<String>) -> PutMode {
    PutMode::Update(UpdateVersion {
        e_tag: tag.clone(),
        version: None,
    })
}

#[tokio::test]
async fn times_of_modification_are_whole_seconds_of_the_injected_clock() {
    let clock = Arc::new(ManualClock(AtomicU64::new(7_999)));
    let bucket = MemoryBucket::new(clock.clone());
    bucket.put(&path(), "1".into()).await.unwrap();
    clock.0.store(100_000, Ordering::Relaxed);
    let modified = bucket.head(&path()).await.unwrap().last_modified;
    assert_eq!(modified.timestamp_millis(), 7_000);
    let listed: Vec<_> = bucket.list(None).try_collect().await.unwrap();
    assert_eq!(listed[0].last_modified, modified);
    bucket.copy(&path(), &Path::from("b")).await.unwrap();
    let copied = bucket.head(&Path::from("b")).await.unwrap();
    assert_eq!(copied.last_modified.timestamp_millis(), 100_000);
}

#[tokio::test]
async fn conditions_hold_with_both_kinds_of_tags() {
    for tags in [Tags::Counter, Tags::Content] {
        let bucket = MemoryBucket::with_tags(Arc::new(ManualClock::default()), tags);
        let first = bucket.put(&path(), "1".into()).await.unwrap().e_tag;
        let second = bucket.put_opts(&path(), "2".into(), version(&first).into()).await;
        let second = second.unwrap().e_tag;
        let refused = bucket.put_opts(&path(), "3".into(), version(&first).into()).await;
        assert!(matches!(refused, Err(Error::Precondition { .. })), "{refused:?}");
        let exists = bucket.put_opts(&path(), "3".into(), PutMode::Create.into()).await;
        assert!(matches!(exists, Err(Error::AlreadyExists { .. })), "{exists:?}");
        let unless = |tag: &Option<String>| GetOptions::new().with_if_none_match(tag.clone());
        assert_eq!(bucket.head(&path()).await.unwrap().e_tag, second);
        assert!(bucket.get_opts(&path(), unless(&first)).await.is_ok());
        let same = bucket.get_opts(&path(), unless(&second)).await;
        assert!(matches!(same, Err(Error::NotModified { .. })), "{same:?}");
        bucket.delete(&path()).await.unwrap();
        let gone = bucket.put_opts(&path(), "3".into(), version(&second).into()).await;
        assert!(matches!(gone, Err(Error::Precondition { .. })), "{gone:?}");
    }
}

#[tokio::test]
async fn equal_content_has_an_equal_tag_only_where_tags_are_hashes() {
    for (tags, are_equal) in [(Tags::Counter, false), (Tags::Content, true)] {
        let bucket = MemoryBucket::with_tags(Arc::new(ManualClock::default()), tags);
        let first = bucket.put(&path(), "1".into()).await.unwrap();
        let second = bucket.put(&path(), "1".into()).await.unwrap();
        assert_eq!(first.e_tag == second.e_tag, are_equal, "{tags:?}");
    }
}

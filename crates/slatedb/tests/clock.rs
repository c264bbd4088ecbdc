//! A machine whose clock is behind takes over without waiting or failing.

#![allow(clippy::unwrap_used)]

mod support;

use async_trait::async_trait;
use perennial_kv::OrderedKv;
use perennial_slatedb::{Bucket, Opening, Settings, Shard, SlateEngine};
use perennial_store::{Clock, SystemClock};
use std::sync::Arc;
use std::time::Duration;
use support::{batch, get, put};

/// A clock that is behind the machine's.
struct Behind(Duration);

#[async_trait]
impl Clock for Behind {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() - u64::try_from(self.0.as_millis()).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }
}

async fn open(bucket: &Bucket, behind: Duration) -> SlateEngine {
    let opening = Opening::new(Settings::default()).clock(Arc::new(Behind(behind)));
    opening.open(bucket, Shard(0)).await.unwrap()
}

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn take_over(behind: Duration, is_crash: bool) {
    let bucket = support::bucket();
    let first = open(&bucket, Duration::ZERO).await;
    first.write(batch([put("a", "1")]), true).unwrap();
    match is_crash {
        true => std::mem::forget(first),
        false => drop(first),
    }
    // Its first write would fail after ten seconds.
    let second = open(&bucket, behind).await;
    second.write(batch([put("b", "2")]), true).unwrap();
    std::mem::forget(second);
    // And again, a little later than the one before, which stood still.
    let third = open(&bucket, behind * 2).await;
    third.write(batch([put("c", "3")]), true).unwrap();
    assert_eq!(get(&third, "b").as_deref(), Some("2"));
    // The clock is right again.
    drop(third);
    let fourth = open(&bucket, Duration::ZERO).await;
    fourth.write(batch([put("d", "4")]), true).unwrap();
    assert_eq!(get(&fourth, "c").as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minute_behind_after_a_crash() {
    take_over(MINUTE, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minute_behind_after_a_clean_close() {
    take_over(MINUTE, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_behind_after_a_crash() {
    take_over(DAY, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_behind_after_a_clean_close() {
    take_over(DAY, false).await;
}

//! What people are told.

use super::world::*;
use super::*;
use crate::{Bucket, Shard};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use perennial_bucket::{Fault, Method};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle as Runtime;

#[tokio::test(start_paused = true)]
async fn who_owns_a_shard_where_and_since_when() {
    let world = World::with(perennial_bucket::Tags::Counter, Settings::default());
    let (one, other) = (world.process("one"), world.process("other"));
    let _held = one.acquire_now().await;
    pass(secs(8)).await;
    let before = world.now();
    let error = other.acquire(Wait::For(secs(30))).await.err().unwrap();
    let waited = world.now() - before;
    assert!(waited >= secs(30) && waited <= secs(31), "{waited:?}");
    let message = error.to_string();
    assert_eq!(
        message,
        "s3://bucket/app is owned by process 4002 on host \"host-of-one\", since 2027-01-16T08:00:00.003Z (generation 1); it last \
         renewed its lease 7 seconds ago. Stop that process, or open the store as a standby, which waits until the owner is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_refuses_access_is_named_at_once() {
    // At the first look, at the probe, and when the lease is written.
    for (is_owned, at) in [(false, 0), (false, 1), (true, 1), (true, 2)] {
        let world = World::new();
        let (one, other) = (world.process("one"), world.process("other"));
        let held = match is_owned {
            true => Some(one.acquire_now().await),
            false => None,
        };
        other
            .bucket
            .plan(move |request| (request.index == at).then_some(Fault::Deny));
        let error = within(ms(100), other.acquire(Wait::Forever))
            .await
            .unwrap()
            .err()
            .unwrap();
        assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        let message = error.to_string();
        assert!(
            message.contains("s3://bucket/app refuses this program access to app/0/lease"),
            "{message}"
        );
        assert!(message.contains("check the credentials"), "{message}");
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_survives_credentials_that_are_replaced() {
    let world = World::new();
    let (one, standby) = (world.process("one"), world.process("standby"));
    let held = one.acquire_now().await;
    standby.stand_by();
    pass(secs(5)).await;
    standby.bucket.plan(|_| Some(Fault::Deny));
    pass(ms(900)).await;
    standby.bucket.heal();
    pass(secs(5)).await;
    held.release().await.unwrap();
    assert_eq!(world.owned(secs(3)).await.as_deref(), Some("standby"));

    // For longer than a lease it does not.
    let late = world.process("late");
    let acquire = tokio::spawn({
        let late = late.clone();
        async move { late.acquire(Wait::Forever).await.err() }
    });
    pass(secs(5)).await;
    late.bucket.plan(|_| Some(Fault::Deny));
    let error = within(secs(10), acquire).await.unwrap().unwrap();
    assert!(matches!(error, Some(Error::Denied { .. })), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_cannot_be_reached_is_an_error_and_no_hang() {
    for fault in [Fault::Fail, Fault::Hang, Fault::Throttle] {
        for wait in [Wait::For(Duration::ZERO), Wait::Forever] {
            let world = World::with(perennial_bucket::Tags::Counter, Settings::default());
            let one = world.process("one");
            let planned = fault.clone();
            one.bucket.plan(move |_| Some(planned.clone()));
            let error = within(secs(25), one.acquire(wait)).await.unwrap().err().unwrap();
            assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
            let message = error.to_string();
            assert!(message.starts_with("s3://bucket/app cannot be reached ("), "{message}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_can_be_read_but_not_written_is_an_error_and_no_hang() {
    let world = World::new();
    let one = world.process("one");
    one.bucket
        .plan(|request| (request.method == Method::Put).then_some(Fault::Fail));
    let error = within(secs(10), one.acquire(Wait::For(LENGTH)))
        .await
        .unwrap()
        .err()
        .unwrap();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn an_object_store_without_conditional_writes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let objects = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    let bucket = Bucket::new(Arc::new(objects), Path::from("app"), "slatedb+file:///app");
    let candidate = Candidate::new(&bucket, Shard(0), settings(), Machine::this(), Runtime::current()).unwrap();
    // The first lease can be created, but neither released nor renewed.
    let held = candidate.acquire(Wait::For(Duration::ZERO)).await.unwrap();
    let failed = held.release().await;
    assert!(matches!(failed, Err(Error::NotReleased { .. })), "{failed:?}");
    let error = candidate.acquire(Wait::For(Duration::ZERO)).await.err().unwrap();
    let message = error.to_string();
    assert!(
        message.contains("slatedb+file:///app is on an object store that cannot replace an object on condition"),
        "{message}"
    );
}

#[tokio::test]
async fn settings_that_do_not_fit_together_are_refused() {
    let bucket = Bucket::new(
        Arc::new(object_store::memory::InMemory::new()),
        Path::from("app"),
        "memory",
    );
    let refused = |settings: Settings| {
        let candidate = Candidate::new(&bucket, Shard(0), settings, Machine::this(), Runtime::current());
        matches!(candidate, Err(Error::Settings(_)))
    };
    assert!(!refused(Settings::default()) && !refused(settings()));
    assert!(refused(Settings::of_length(ms(999))) && refused(Settings::of_length(secs(3_601))));
    let wrong = [
        Settings {
            margin: Duration::ZERO,
            ..settings()
        },
        Settings {
            look_every: Duration::ZERO,
            ..settings()
        },
        Settings {
            renew_every: ms(1_500),
            ..settings()
        },
        Settings {
            request_timeout: Duration::MAX,
            ..settings()
        },
    ];
    assert!(wrong.into_iter().all(refused));
}
